"""Proofs by k-induction of what the design puts on the bus: bursts, write channel, read channel, AXI3 and AXI4.

They hold for all inputs, forever. Every proof is also shown to fail, with its assumptions dropped or with a line of
the design broken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from amaranth.hdl import Array, Assert, Assume, Elaboratable, Module, Mux, Signal

from tests.hw.formal import OpenQueue, OpenRam, Proof, elaborated, open_ram, variant
from tilewright.config import AXI_BURST_BEATS, PRESETS, Config
from tilewright.hw.rtl import bursts, fetch, read_channel, write_channel
from tilewright.isa.spec import bits_for

__all__ = ["open_ram"]

pytestmark = [
    pytest.mark.slow,
    # modules are elaborated by hand here, which Amaranth does not notice
    pytest.mark.filterwarnings("ignore:.*created but never used"),
]

PAGE = 4096  #: bytes; no AXI burst may cross a multiple of it
SMALL = PRESETS["tiny"].replace(burst_beats=4, outstanding=2, fetch_beats=16, token_depth=3, queue_depth=2)
#: (axi_version, axi_bits, burst_beats): the longest bursts of both versions on every bus width, and short ones
BUSES = [
    (3, 32, 16), (3, 64, 16), (3, 128, 16), (3, 256, 16), (3, 512, 16), (3, 64, 1), (3, 64, 4),
    (4, 32, 256), (4, 64, 256), (4, 128, 256), (4, 256, 128), (4, 512, 64), (4, 64, 2), (4, 32, 1),
]  # fmt: skip


def bus_config(version: int, bits: int, burst: int, outstanding: int = 2) -> Config:
    """A Config with such a bus."""
    return PRESETS["ultra96"].replace(
        batch=4, axi_version=version, axi_bits=bits, burst_beats=burst, fetch_beats=512, outstanding=outstanding
    )


def within_limits(config: Config, address: Signal, length: Signal) -> list[Assert]:
    """What AXI asks of a burst: not too long, and inside 4 KiB. address: in beats; length: less one."""
    page = PAGE // config.beat_bytes
    return [
        Assert(length < AXI_BURST_BEATS[config.axi_version]),
        Assert((address & (page - 1)) + length < page),
    ]


# -- bursts of LOAD and STORE ------------------------------------------------------------------------------------


def tile_proof(config: Config, change: tuple[str, str] | None = None) -> Proof:
    """The bursts of a tile beside a walk over its beats: together they are the tile, in order, each beat once."""
    proof = Proof()
    m = proof.module
    names = variant(bursts, change)
    requester = names["BurstRequester"](config, row_bits=4, beat_bits=10, stride_bits=12)
    m.submodules.requester, inside = elaborated(requester)
    setup, step = proof.free_like(requester.setup, "setup"), proof.free_like(requester.step, "step")
    first, stride, rows, beats = (
        proof.free_like(getattr(requester, name), f"free_{name}") for name in ("first", "stride", "rows", "beats")
    )
    active, address, length = requester.active, requester.address, requester.length
    m.d.comb += [Assume(~step | active), Assume(~setup | ~active), Assume(beats != 0)]

    # the walk: next beat of the tile, beats left in its row, rows left, and what the rows start with
    at, row_at, row_step = Signal.like(first), Signal.like(first), Signal.like(stride)
    left, row_beats, rows_left, walking = Signal.like(beats), Signal.like(beats), Signal.like(rows), Signal()
    with m.If(step):
        m.d.sync += [at.eq(at + length + 1), left.eq(left - length - 1)]
        with m.If(length + 1 == left):
            m.d.sync += [left.eq(row_beats), at.eq(row_at + row_step), row_at.eq(row_at + row_step)]
            m.d.sync += [rows_left.eq(rows_left - 1), walking.eq(rows_left != 0)]
    with m.If(setup):
        m.d.sync += [
            at.eq(first), row_at.eq(first), row_step.eq(stride), left.eq(beats), row_beats.eq(beats),
            rows_left.eq(rows), walking.eq(1),
        ]  # fmt: skip

    m.d.comb += Assert(active == walking)
    with m.If(active):
        m.d.comb += [
            Assert(address == at), Assert(length < left), Assert(left != 0), Assert(row_beats != 0),
            Assert(requester.final == ((length + 1 == left) & (rows_left == 0))),
            # never shorter than the timing contract has it: up to the row's end or a multiple of the longest burst
            Assert((length + 1 == left) | ((at + length + 1) & (config.burst_beats - 1) == 0)),
            *within_limits(config, address, length),
            # what ties the two states together
            Assert(inside["left"] == left), Assert(inside["row_size"] == row_beats),
            Assert(inside["row_start"] == row_at), Assert(inside["rows_left"] == rows_left),
            Assert(inside["stride"] == row_step),
        ]  # fmt: skip
    waiting = proof.before(active & ~step, "waiting")
    was_address, was_length = proof.before(address, "was_address"), proof.before(length, "was_length")
    with m.If(waiting):
        m.d.comb += [Assert(active), Assert(address == was_address), Assert(length == was_length)]
    return proof


@pytest.mark.parametrize("version, bits, burst", BUSES)
def test_the_bursts_of_a_tile_cover_it_exactly(version: int, bits: int, burst: int, tmp_path: Path) -> None:
    assert tile_proof(bus_config(version, bits, burst)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        ("self.length.eq(Mux(fits, left, room) - 1)", "self.length.eq(Mux(fits, left, longest) - 1)"),  # crosses
        ("fits.eq(left <= room)", "fits.eq(left < room)"),  # the last burst of a row never ends
        ("left.eq(left - room)", "left.eq(left - longest)"),
        ("next_row.eq(row_start + stride)", "next_row.eq(self.address + stride)"),
        ("self.final.eq(fits & (rows_left == 0))", "self.final.eq(rows_left == 0)"),
        ("rows_left.eq(rows_left - 1),", ""),
    ],
)
def test_the_tile_proof_notices(change: tuple[str, str], tmp_path: Path) -> None:
    assert tile_proof(bus_config(3, 64, 4), change).check(tmp_path, depth=6, mode="bmc") == "FAIL"


def test_a_burst_longer_than_the_version_allows_is_noticed(tmp_path: Path) -> None:
    config = bus_config(4, 64, 32)
    object.__setattr__(config, "axi_version", 3)  # past the check of Config
    assert tile_proof(config).check(tmp_path, depth=3, mode="bmc") == "FAIL"


# -- bursts of FETCH ---------------------------------------------------------------------------------------------


class SilentRam(Elaboratable):
    """Stands in for the FIFO's memories: what FETCH asks for does not depend on what it gets."""

    def __init__(self, width: int, depth: int) -> None:
        self.write_enable, self.write_data = Signal(), Signal(width)
        self.write_address, self.read_address = Signal(bits_for(depth)), Signal(bits_for(depth))
        self.read_data = Signal(width)

    def elaborate(self, platform: object) -> Module:
        return Module()


def fetch_proof(config: Config, change: tuple[str, str] | None = None, page_aligned: bool = True) -> Proof:
    """The bursts of a program: from its first beat to its last, each beat once, never more than there is room for."""
    proof = Proof()
    m = proof.module
    names = variant(fetch, change)
    unit = names["Fetch"](config)
    names["AsyncRam"] = SilentRam
    m.submodules.fetch, inside = elaborated(unit)
    start, granted = proof.free_like(unit.start, "start"), proof.free_like(unit.granted, "granted")
    base, beats = proof.free_like(unit.program_address, "base"), proof.free_like(unit.program_beats, "beats")
    take, beat_valid = proof.free_like(unit.take, "take"), proof.free_like(unit.beat_valid, "beat_valid")
    proof.free_like(unit.stop, "stop")

    # room in the FIFO: what is free, what is on its way, and what stands in it, are all of it
    coming, started = Signal(range(2 * config.fetch_beats)), Signal()
    per_beat, depth = inside["per_beat"], inside["depth"]
    free, held, first, last = (inside[name] for name in ("free", "held", "first", "last"))
    m.d.sync += [coming.eq(coming + Mux(granted, unit.request_length + 1, 0) - beat_valid), started.eq(started | start)]
    m.d.comb += [
        Assume(~beat_valid | (coming != 0)), Assume(~take | (unit.valid & ~start)), Assume(~start | (coming == 0)),
        Assert(started | ((coming == 0) & (inside["left"] == 0) & (held == 0))),
    ]  # fmt: skip
    with m.If(started):
        read = first & (per_beat - 1)  # granules of the oldest beat that are taken already
        m.d.comb += [
            Assert((free + coming) * per_beat + held + read == config.fetch_beats * per_beat),
            Assert(held <= depth), Assert((first + held - last) & (depth - 1) == 0),
        ]  # fmt: skip
    at, left = Signal.like(unit.request_address), Signal.like(beats)
    m.d.comb += Assume(~granted | (unit.request & ~start))
    if page_aligned:
        m.d.comb += Assume(base[: bits_for(PAGE)] == 0)
    with m.If(granted):
        m.d.sync += [at.eq(at + unit.request_length + 1), left.eq(left - unit.request_length - 1)]
    with m.If(start):
        m.d.sync += [at.eq(base >> bits_for(config.beat_bytes)), left.eq(beats)]
    m.d.comb += [Assert(inside["left"] == left), Assert((left == 0) | (at & (config.burst_beats - 1) == 0))]
    with m.If(unit.request):
        m.d.comb += [
            Assert(left != 0), Assert(unit.request_address == at), Assert(unit.request_length < left),
            Assert((unit.request_length + 1 == left) | (unit.request_length + 1 == config.burst_beats)),
            *within_limits(config, unit.request_address, unit.request_length),
        ]  # fmt: skip
    with m.If(left != 0):
        m.d.comb += Assert(unit.request_address == at)
    return proof


@pytest.mark.parametrize("version, bits, burst", BUSES)
def test_the_bursts_of_a_program_cover_it_exactly(version: int, bits: int, burst: int, tmp_path: Path) -> None:
    assert fetch_proof(bus_config(version, bits, burst)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change, page_aligned",
    [
        (("length.eq(Mux(left > c.burst_beats, c.burst_beats, left))", "length.eq(c.burst_beats)"), True),
        (("self.request_address.eq(self.request_address + length)", "self.request_address.eq(length)"), True),
        (("left.eq(left - length)", "left.eq(left - 1)"), True),
        ((" & (free >= length)", ""), True),
        (("freed.eq((phase + per_word) // per_beat)", "freed.eq((phase + per_word) // per_beat + 1)"), True),
        (None, False),
    ],
)
def test_the_fetch_proof_notices(change: tuple[str, str] | None, page_aligned: bool, tmp_path: Path) -> None:
    assert fetch_proof(SMALL, change, page_aligned).check(tmp_path, depth=14, mode="bmc") == "FAIL"


# -- read channel ------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("version, bits, burst, outstanding", [(3, 32, 16, 1), (3, 64, 16, 4), (4, 128, 256, 2)])
def test_the_read_channel_keeps_the_rules(
    version: int, bits: int, burst: int, outstanding: int, tmp_path: Path, open_ram: type[OpenRam]
) -> None:
    assert read_channel_proof(bus_config(version, bits, burst, outstanding)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change, legal",
    [
        (None, False),
        (("choice.eq(Mux(held, held_choice, ~self.request[0]))", "choice.eq(~self.request[0])"), True),
        (("held | ((self.request[0] | self.request[1])", "((self.request[0] | self.request[1])"), True),
        ((" & (flying != c.outstanding)", ""), True),
        (("ended.eq(self.rvalid & self.rlast)", "ended.eq(self.rvalid)"), True),
        (("owners.write_data.eq(choice)", "owners.write_data.eq(~choice)"), True),
    ],
)
def test_the_read_proof_notices(
    change: tuple[str, str] | None, legal: bool, tmp_path: Path, open_ram: type[OpenRam]
) -> None:
    assert read_channel_proof(SMALL, change, legal).check(tmp_path, depth=6, mode="bmc") == "FAIL"


# -- write channel -----------------------------------------------------------------------------------------------


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
        "address",
        "length",
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
        for name in ("address", "length", "final", "note", "beat")
    }
    if steady:
        same_burst = unchanged["address"] & unchanged["length"] & unchanged["final"] & unchanged["note"]
        m.d.comb += [
            Assume(~keeps_burst | (free["active"] & same_burst)),
            Assume(~keeps_beat | (free["beat_valid"] & unchanged["beat"])),
        ]
    m.d.comb += Assume(free["length"] < config.burst_beats)
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
        Assert(inside["data_sent"] == complete),
        Assert(inside["address_sent"] == addresses),
        Assert(~inside["opened"] | (free["active"] & keeps_burst)),
        Assert(inside["opened"] | ((addresses == 0) & (beats == 0) & ~complete)),
        Assert(~(inside["address_sent"] & inside["data_sent"])),
        Assert(Mux(complete, (inside["sent"] == 0) & (beats == free["length"] + 1), inside["sent"] == beats)),
        Assert(complete | (beats == 0) | (beats <= free["length"])),
    ]
    return proof


@pytest.mark.parametrize(
    "version, bits, burst, outstanding",
    [(3, 32, 1, 1), (3, 32, 16, 2), (3, 64, 16, 4), (3, 128, 16, 2), (4, 64, 16, 8), (4, 64, 256, 2), (4, 512, 64, 2)],
)
def test_the_write_channel_keeps_the_rules(
    version: int, bits: int, burst: int, outstanding: int, tmp_path: Path, open_ram: type[OpenRam]
) -> None:
    assert write_channel_proof(bus_config(version, bits, burst, outstanding)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        (" & ~address_sent", ""),  # the address is shown again
        ("self.wlast.eq(sent == self.length)", "self.wlast.eq(sent == self.length - 1)"),
        ("self.wlast.eq(sent == self.length)", "self.wlast.eq(0)"),
        ("present & ~data_sent & self.beat_valid", "present & self.beat_valid"),  # beats of the next burst
        ("present & ~data_sent & self.beat_valid", "present & ~data_sent"),
        ("(flying != c.outstanding) & ~self.halt", "~self.halt"),
        (" & ~self.halt", ""),
        ("present & (address_sent | self.awready) &", "present &"),  # a burst without an address
        ("flying.eq(flying + opening - self.bvalid)", "flying.eq(flying + opening)"),
        ("self.retire.eq(self.bvalid & responses.head[0])", "self.retire.eq(responses.head[0])"),
        ("self.retire.eq(self.bvalid & responses.head[0])", "self.retire.eq(self.bvalid)"),
        ("responses.write.eq(opening)", "responses.write.eq(burst_done)"),
        ("self.quiet.eq(~opened & (flying == 0))", "self.quiet.eq(~opened)"),
    ],
)
def test_the_write_proof_notices(change: tuple[str, str], tmp_path: Path, open_ram: type[OpenRam]) -> None:
    assert write_channel_proof(SMALL, change).check(tmp_path, depth=9, mode="bmc") == "FAIL"


@pytest.mark.parametrize("steady, answered", [(False, True), (True, False)])
def test_the_write_proof_rests_on_its_assumptions(
    steady: bool, answered: bool, tmp_path: Path, open_ram: type[OpenRam]
) -> None:
    proof = write_channel_proof(SMALL, steady=steady, answered=answered)
    assert proof.check(tmp_path, depth=6, mode="bmc") == "FAIL"
