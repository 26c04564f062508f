"""What LOAD, STORE and FETCH ask the bus for, beside a walk over the beats of a tile or a program."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Const, Elaboratable, Module, Mux, Signal

from tests.hw.formal.opened import elaborated, variant
from tests.hw.formal.prover import Proof
from tilewright.config import AXI_BURST_BEATS, Config
from tilewright.hw.rtl import bursts, fetch
from tilewright.isa.spec import bits_for

PAGE = 4096  #: bytes; no AXI burst may cross a multiple of it


def within_limits(config: Config, address: Signal, length: Signal) -> list[Assert]:
    """What AXI asks of a burst: not too long, and inside 4 KiB. address: in beats; length: less one."""
    page = PAGE // config.beat_bytes
    return [
        Assert(length < AXI_BURST_BEATS[config.axi_version]),
        Assert((address & (page - 1)) + length < page),
    ]


def tile_proof(config: Config, change: tuple[str, str] | None = None) -> Proof:
    """The bursts of a tile beside a walk over its beats: together they are the tile, in order, each beat once."""
    proof = Proof()
    m = proof.module
    names = variant(bursts, change)
    requester = names["BurstRequester"](config, row_bits=4, beat_bits=10, stride_bits=12)
    m.submodules.requester, inside = elaborated(requester)
    begin, step, outside = (proof.free_like(getattr(requester, n), f"free_{n}") for n in ("begin", "step", "outside"))
    first, offset, stride, rows, beats = (
        proof.free_like(getattr(requester, name), f"free_{name}")
        for name in ("first", "offset", "stride", "rows", "beats")
    )
    active, setup, address, length = requester.active, requester.setup, requester.address, requester.length
    longest = config.burst_beats
    offset_before = proof.before(offset, "offset_before")
    m.d.comb += [
        Assume(~step | active), Assume(~begin | ~(active | setup)),
        Assume(~setup | (first & (longest - 1) == offset_before)),
        Assert(~(active & setup)), Assert(setup == proof.before(begin, "began")),
    ]  # fmt: skip

    # the walk: next beat of the tile, beats left in its row, rows left, and what the rows start with
    at, row_at, row_step = Signal.like(first), Signal.like(first), Signal.like(stride)
    left, row_beats, rows_left, walking = Signal(11), Signal(11), Signal.like(rows), Signal()
    with m.If(step):
        m.d.sync += [at.eq(at + length + 1), left.eq(left - length - 1)]
        with m.If(length + 1 == left):
            m.d.sync += [left.eq(row_beats), at.eq(row_at + row_step), row_at.eq(row_at + row_step)]
            m.d.sync += [rows_left.eq(rows_left - 1), walking.eq(rows_left != 0)]
    with m.If(begin):
        m.d.sync += [row_step.eq(stride), left.eq(beats + 1), row_beats.eq(beats + 1), rows_left.eq(rows)]
    with m.If(setup):
        m.d.sync += [at.eq(first), row_at.eq(first), walking.eq(~outside)]

    m.d.comb += Assert(active == walking)
    with m.If(active):
        m.d.comb += [
            Assert(address == at), Assert(length < left), Assert(left != 0), Assert(row_beats != 0),
            Assert(requester.final == ((length + 1 == left) & (rows_left == 0))),
            Assert(requester.single == (length == 0)),
            # never shorter than the timing contract has it: up to the row's end or a multiple of the longest burst
            Assert((length + 1 == left) | ((at + length + 1) & (longest - 1) == 0)),
            *within_limits(config, address, length),
            # what ties the two states together
            Assert(inside["fits"] == (length + 1 == left)), Assert(inside["row_start"] == row_at),
            Assert(inside["place"] == (row_at + row_step) & (longest - 1)),
        ]  # fmt: skip
        with m.If(~inside["fits"]):
            m.d.comb += Assert(length + 1 + ((inside["behind"] - 1) << inside["cut"]) + inside["tail"] + 1 == left)
            m.d.comb += Assert(inside["behind"] != 0)
    with m.If(setup):
        m.d.comb += [Assert(inside["place"] == offset_before), Assert(left == row_beats)]
    with m.If(setup | active):
        m.d.comb += [
            Assert(inside["row_size"] + 1 == row_beats), Assert(inside["rows_left"] == rows_left),
            Assert(inside["last_row"] == (rows_left == 0)), Assert(inside["stride"] == row_step),
        ]  # fmt: skip
    waiting = proof.before(active & ~step, "waiting")
    was_address, was_length = proof.before(address, "was_address"), proof.before(length, "was_length")
    with m.If(waiting):
        m.d.comb += [Assert(active), Assert(address == was_address), Assert(length == was_length)]
    return proof


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
    # the register's promise, which was written in an earlier cycle
    m.d.comb += Assume(~start | (proof.before(Const(1, 1), "later") & (beats == proof.before(beats, "beats_before"))))
    dispatched = proof.free_like(unit.dispatched, "dispatched")

    # room in the FIFO: what is free, what is on its way, and what stands in it or waits for dispatch, are all of it
    coming, started, waiting = Signal(range(2 * config.fetch_beats)), Signal(), Signal(2)
    per_beat, per_word, depth = inside["per_beat"], inside["per_word"], inside["depth"]
    spare, length, held, first, last, phase = (
        inside[name] for name in ("spare", "length", "held", "first", "last", "phase")
    )
    m.d.sync += [coming.eq(coming + Mux(granted, unit.request_length + 1, 0) - beat_valid), started.eq(started | start)]
    m.d.sync += waiting.eq(Mux(start, 0, waiting + take - dispatched))
    m.d.comb += [
        Assume(~beat_valid | (coming != 0)), Assume(~take | (unit.valid & ~start)), Assume(~start | (coming == 0)),
        Assume(~dispatched | ((waiting != 0) & ~start)), Assume(~take | (waiting == 0) | dispatched),
        Assert(started | ((coming == 0) & (inside["left"] == 0) & (held == 0) & ~unit.valid & (waiting == 0))),
        Assert(waiting <= 1),
    ]  # fmt: skip
    with m.If(started):
        out = (unit.valid + waiting) * per_word  # granules between the FIFO and dispatch
        m.d.comb += [
            Assert((spare + length + coming) * per_beat + held + out + phase == config.fetch_beats * per_beat),
            Assert(held <= depth), Assert((first + held - last) & (depth - 1) == 0),
            Assert((phase + out - first) & (per_beat - 1) == 0), Assert(spare + length >= 0),
            Assert(inside["gained"] == inside["whole"] - inside["after"]),
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
    longest, next_left = config.burst_beats, Mux(left >= config.burst_beats, left - config.burst_beats, 0)
    m.d.comb += Assert(inside["after"] == Mux(next_left >= longest, longest, next_left))
    for flag, count in (("many", 3), ("several", 2), ("more", 1)):
        m.d.comb += Assert(inside[flag] == (left >= count * longest))
    m.d.comb += Assert(inside["some"] == (left >= 1))
    with m.If(unit.request):
        m.d.comb += [
            Assert(left != 0), Assert(unit.request_address == at), Assert(unit.request_length < left),
            Assert((unit.request_length + 1 == left) | (unit.request_length + 1 == config.burst_beats)),
            *within_limits(config, unit.request_address, unit.request_length),
        ]  # fmt: skip
    with m.If(left != 0):
        m.d.comb += Assert(unit.request_address == at)
    return proof
