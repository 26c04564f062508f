"""The read channel and the write channel beside AXI's rules and counters of what went over the bus."""

from __future__ import annotations

from amaranth.hdl import Array, Assert, Assume, Mux, Signal

from tests.hw.formal.opened import OpenQueue, elaborated, variant
from tests.hw.formal.prover import Proof
from tilewright.config import Config
from tilewright.hw.rtl import read_channel, write_channel
from tilewright.isa.spec import bits_for


class Watched:
    """An entry of a queue that the prover chose: how many are before it, and what was written."""

    def __init__(self, width: int, depth: int) -> None:
        self.present, self.position = Signal(name="watched"), Signal(range(depth), name="watched_position")
        self.value = Signal(width, name="watched_value")


def watch(proof: Proof, queue: OpenQueue, write: Signal, data: Signal, pop: Signal) -> Watched:
    """Follows an entry through a queue that never holds too much; asserts that it stays what it was."""
    m, depth = proof.module, queue.depth
    mine = Watched(queue.width, depth)
    chosen = proof.free(1, "watch_now")
    with m.If(mine.present & pop):
        m.d.sync += [mine.position.eq(mine.position - 1), mine.present.eq(mine.position != 0)]
    with m.If(~mine.present & chosen & write):
        m.d.sync += [mine.present.eq(1), mine.value.eq(data), mine.position.eq(queue.count - pop)]
    ring, place = queue.ring, Array([k % depth for k in range(2 * depth)])
    m.d.comb += [
        Assert(queue.valid == (queue.count != 0)),
        Assert(queue.stored == (queue.count > 1)),
        Assert(ring.read_address < depth),
        Assert(ring.write_address == place[ring.read_address + Mux(queue.count == 0, 0, queue.count - 1)]),
    ]
    with m.If(mine.present):
        behind = Array(ring.cells)[place[ring.read_address + mine.position - 1]]
        m.d.comb += [
            Assert(mine.position < queue.count),
            Assert(Mux(mine.position == 0, queue.head, behind) == mine.value),
        ]
    return mine


def read_channel_proof(config: Config, change: tuple[str, str] | None = None, legal: bool = True) -> Proof:
    """AXI's rules for AR: once valid, an address stays until it is accepted; a grant is its handshake; the limit.

    A model of what was granted says whose each beat is, and how many bursts are in flight.
    """
    proof = Proof()
    m = proof.module
    names = variant(read_channel, change)
    names["Queue"] = OpenQueue
    channel = names["ReadChannel"](config)
    m.submodules.channel, inside = elaborated(channel)
    flying, held, held_choice = (inside[name] for name in ("flying", "held", "held_choice"))
    arready, rvalid, rlast = (proof.free_like(getattr(channel, name), name) for name in ("arready", "rvalid", "rlast"))
    was_held = proof.before(channel.arvalid & ~arready, "was_held")
    was_address, was_length = proof.before(channel.araddr, "was_araddr"), proof.before(channel.arlen, "was_arlen")
    in_flight = Signal(range(config.outstanding + 2))
    taken, ended = channel.arvalid & arready, rvalid & rlast
    m.d.sync += in_flight.eq(in_flight + taken - ended)
    for k in range(2):
        proof.free_like(channel.request[k], f"request{k}")
        address = proof.free_like(channel.address[k], f"address{k}")
        length = proof.free_like(channel.length[k], f"length{k}")
        before = proof.before(channel.request[k] & ~channel.granted[k], f"before{k}")
        same = (address == proof.before(address, f"old_address{k}")) & (
            length == proof.before(length, f"old_length{k}")
        )
        if legal:  # a requester does not change what it asks for until it is granted, even if it no longer asks
            m.d.comb += Assume(~(before | (was_held & (held_choice == k))) | same)
        with m.If(channel.granted[k]):
            shift = bits_for(config.beat_bytes)
            m.d.comb += [Assert(channel.araddr == address << shift), Assert(channel.arlen == length)]
    if legal:
        m.d.comb += Assume(~rvalid | (in_flight != 0))  # data comes for what was asked for
    with m.If(was_held):
        m.d.comb += [
            Assert(channel.arvalid), Assert(channel.araddr == was_address), Assert(channel.arlen == was_length),
        ]  # fmt: skip
    m.d.comb += [
        Assert(held == was_held),
        Assert(flying == in_flight),
        Assert(inside["full"] == (in_flight == config.outstanding)),
        Assert(inside["owners"].count == in_flight),
        Assert(in_flight <= config.outstanding),
        Assert(~held | (in_flight < config.outstanding)),
        Assert(~(channel.granted[0] & channel.granted[1])),
        Assert((channel.granted[0] | channel.granted[1]) == taken),
        Assert(channel.idle == ((in_flight == 0) & ~held)),
    ]
    # an arbitrary burst is watched: its beats go to whoever was granted
    mine = watch(proof, inside["owners"], taken, channel.granted[1], ended)
    with m.If(mine.present & (mine.position == 0) & rvalid):
        m.d.comb += [Assert(channel.beat_valid[1] == mine.value), Assert(channel.beat_valid[0] == ~mine.value)]
    with m.If(~rvalid):
        m.d.comb += [Assert(~channel.beat_valid[0]), Assert(~channel.beat_valid[1])]
    return proof


def write_channel_proof(
    config: Config, change: tuple[str, str] | None = None, steady: bool = True, answered: bool = True
) -> Proof:
    """AXI's rules for AW, W and B, against counters of what went over the bus.

    ``steady``: bursts and beats that are offered stay until taken. ``answered``: responses come for bursts whose data
    is complete, and for nothing else (AXI4 asks for their address too, AXI3 does not).
    """
    proof = Proof()
    m = proof.module
    names = variant(write_channel, change)
    names["Queue"] = OpenQueue
    channel = names["WriteChannel"](config, note_bits=2)
    m.submodules.channel, inside = elaborated(channel)
    limit = config.outstanding
    inputs = (
        "active",
        "behind",
        "address",
        "length",
        "single",
        "final",
        "note",
        "beat_valid",
        "beat",
        "halt",
        "awready",
        "wready",
        "bvalid",
    )
    free = {name: proof.free_like(getattr(channel, name), name) for name in inputs}
    address_taken, beat_taken = channel.awvalid & free["awready"], channel.wvalid & free["wready"]
    data_done = beat_taken & channel.wlast

    # the environment
    keeps_burst = proof.before(free["active"] & ~channel.step, "keeps_burst")
    keeps_beat = proof.before(free["beat_valid"] & ~channel.beat_sent, "keeps_beat")
    unchanged = {
        name: free[name] == proof.before(free[name], f"old_{name}")
        for name in ("address", "length", "single", "final", "note", "beat")
    }
    if steady:
        same_burst = unchanged["address"] & unchanged["length"] & unchanged["final"] & unchanged["note"]
        m.d.comb += [
            Assume(~keeps_burst | (free["active"] & same_burst)),
            Assume(~keeps_beat | (free["beat_valid"] & unchanged["beat"])),
        ]
    # what the queue of bursts promises
    comes = Mux(channel.step, free["behind"], free["active"] | free["behind"])
    m.d.comb += Assume(free["active"] == proof.before(comes, "came"))
    m.d.comb += [Assume(free["length"] < config.burst_beats), Assume(free["single"] == (free["length"] == 0))]
    unanswered = Signal(range(limit + 2))  # bursts whose data is complete
    m.d.sync += unanswered.eq(unanswered + data_done - free["bvalid"])
    if answered:
        m.d.comb += Assume(~free["bvalid"] | (unanswered != 0))

    # valid and payload stay until ready
    for valid, ready, payload in (
        (channel.awvalid, free["awready"], ("awaddr", "awlen")),
        (channel.wvalid, free["wready"], ("wdata", "wlast")),
    ):
        old = [proof.before(getattr(channel, name), f"old_{name}") for name in payload]
        with m.If(proof.before(valid & ~ready, f"held_{payload[0]}")):
            m.d.comb += Assert(valid)
            m.d.comb += [Assert(getattr(channel, name) == before) for name, before in zip(payload, old)]

    # between two steps: one address, that of the burst, and as many beats as it says, the last marked
    addresses, beats = Signal(2), Signal(range(config.burst_beats + 1))
    complete = Signal()
    m.d.sync += [
        addresses.eq(Mux(channel.step, 0, addresses + address_taken)),
        beats.eq(Mux(channel.step, 0, beats + beat_taken)),
        complete.eq(~channel.step & (complete | data_done)),
    ]
    with m.If(channel.step):
        m.d.comb += [
            Assert(free["active"]), Assert(addresses + address_taken == 1),
            Assert(beats + beat_taken == free["length"] + 1), Assert(complete | data_done),
        ]  # fmt: skip
    with m.If(channel.awvalid):
        m.d.comb += [
            Assert(free["active"]), Assert(addresses == 0), Assert(channel.awlen == free["length"]),
            Assert(channel.awaddr == free["address"] << bits_for(config.beat_bytes)),
        ]  # fmt: skip
    with m.If(channel.wvalid):
        m.d.comb += [
            Assert(free["active"] & free["beat_valid"]), Assert(~complete), Assert(channel.wdata == free["beat"]),
            Assert(channel.wlast == (beats == free["length"])),
        ]  # fmt: skip
    m.d.comb += Assert(channel.beat_sent == beat_taken)

    # the limit, and nothing new after a halt
    sent = Signal(range(limit + 2))  # addresses on the bus whose data is not complete or not answered
    m.d.comb += sent.eq(unanswered + (inside["opened"] & ~complete))
    m.d.comb += [Assert(sent <= limit), Assert(unanswered <= limit)]
    opened = proof.before(channel.awvalid | channel.wvalid | inside["opened"], "was_open")
    closed = proof.before(channel.step, "was_step")
    with m.If(free["halt"] & (~opened | closed)):
        m.d.comb += [Assert(~channel.awvalid), Assert(~channel.wvalid)]
    with m.If(channel.quiet):
        m.d.comb += [Assert(unanswered == 0), Assert(addresses == 0), Assert(beats == 0)]

    # a tile retires with its own note a cycle after the response of its final burst, and never otherwise
    queue = inside["responses"]
    mine = watch(proof, queue, inside["opening"], queue.write_data, free["bvalid"])
    answered_mine = proof.before(mine.present & (mine.position == 0) & free["bvalid"], "answered_mine")
    value = proof.before(mine.value, "answered_value")
    with m.If(answered_mine):
        m.d.comb += [Assert(channel.retire == value[0]), Assert(channel.retire_note == value[1:])]
    with m.If(~proof.before(free["bvalid"], "was_answer")):
        m.d.comb += Assert(~channel.retire)

    # what ties the two states together
    m.d.comb += [
        Assert(queue.count == inside["flying"]),
        Assert(inside["flying"] == sent),
        Assert(inside["full"] == (sent == limit)),
        Assert(inside["begun"] == (inside["sent"] != 0)),
        Assert(~inside["begun"] | (inside["last"] == (inside["sent"] == free["length"]))),
        Assert(inside["may_open"] == (free["active"] & ~inside["opened"] & ~inside["full"])),
        Assert(inside["data_sent"] == complete),
        Assert(inside["may_send"] == (inside["may_open"] | (inside["opened"] & ~complete))),
        Assert(inside["address_sent"] == addresses),
        Assert(inside["address_due"] == (inside["opened"] & ~inside["address_sent"])),
        Assert(~inside["opened"] | (free["active"] & keeps_burst)),
        Assert(inside["opened"] | ((addresses == 0) & (beats == 0) & ~complete)),
        Assert(~(inside["address_sent"] & inside["data_sent"])),
        Assert(Mux(complete, (inside["sent"] == 0) & (beats == free["length"] + 1), inside["sent"] == beats)),
        Assert(complete | (beats == 0) | (beats <= free["length"])),
    ]
    return proof
