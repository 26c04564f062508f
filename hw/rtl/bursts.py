"""Tiles in DRAM: beats of a row, the bursts of a tile, and the check against the segment's limit."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.isa.spec import Memory, bits_for, entry_bytes


def row_beats(config: Config, memory: Signal, cols_less_one: Signal) -> tuple[Signal, list[Any]]:
    """Beats of a row of a tile, less one, and the statements that drive it; entries and beats are powers of two."""
    shifts = {m: entry_bytes(config, m).bit_length() - config.beat_bytes.bit_length() for m in Memory}
    beats = Signal(len(cols_less_one) + max(0, *shifts.values()))
    choices: list[Value] = []
    for index in range(8):
        shift = shifts[Memory(index)] if index < len(Memory) else 0
        if shift >= 0:
            choices.append(Cat(Const((1 << shift) - 1, shift), cols_less_one))
        else:
            choices.append(cols_less_one >> -shift)  # whole beats, rounded up
    return beats, [beats.eq(Array(choices)[memory])]


class BurstRequester(Elaboratable):
    """The bursts of one tile, row by row: cut at multiples of the longest burst, one a cycle at best.

    Shared by LOAD (requests read bursts) and STORE (walks its write bursts). ``begin``: pulse in the cycle of issue
    with ``offset`` (of the row start, in beats), ``stride``, ``rows`` and ``beats`` per row (both less one); ``setup``:
    the cycle after it, in which ``first`` is the row start as an address (in beats). The bases of segments are
    multiples of the longest burst, so that ``offset`` alone says where a row is cut. The burst (address, length less
    one) is ``active`` from the next cycle on, ``step`` takes it. ``single``: it has one beat; ``final``: it is the
    tile's last. ``outside``, in setup's cycle: the tile has no bursts after all.
    """

    def __init__(self, config: Config, row_bits: int, beat_bits: int, stride_bits: int) -> None:
        self.config = config
        address_bits = DRAM_ADDRESS_BITS - bits_for(config.beat_bytes)
        self.place_bits = bits_for(config.burst_beats) if config.burst_beats > 1 else 0
        self.begin, self.setup, self.outside = Signal(), Signal(), Signal()
        self.offset = Signal(self.place_bits)
        self.first = Signal(address_bits)
        self.stride = Signal(stride_bits)
        self.rows = Signal(row_bits)
        self.beats = Signal(beat_bits)
        self.active, self.step, self.final = Signal(), Signal(), Signal()
        self.address = Signal(address_bits, reset_less=True)
        self.length = Signal(range(config.burst_beats), reset_less=True)
        self.single = Signal(reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """The burst in registers: its length too, and whether it ends a row or the tile.

        A grant comes late in its cycle; so what follows it is found before it. A row reaches from ``place``, its start
        behind a multiple of the longest burst, to ``reach`` behind that same multiple: the upper bits are the bursts
        behind the first, the lower ones the length of the last.
        """
        m = Module()
        cut = self.place_bits
        row_start = Signal.like(self.address, reset_less=True)
        rows_left = Signal.like(self.rows, reset_less=True)
        row_size = Signal.like(self.beats, reset_less=True)
        stride = Signal.like(self.stride, reset_less=True)
        fits, last_row = Signal(reset_less=True), Signal(reset_less=True)  # the burst ends its row; the row the tile
        place = Signal(cut, reset_less=True)  # of the next row
        reach = Signal(max(len(self.beats), cut) + 1)
        behind = Signal(len(reach) - cut, reset_less=True)  # bursts of the row behind this one
        tail = Signal(cut, reset_less=True)  # length, less one, of the last of them
        next_row = Signal.like(self.address)
        m.d.comb += [
            reach.eq(place + row_size),
            self.final.eq(fits & last_row),
            next_row.eq(Mux(self.setup, self.first, row_start + stride)),
        ]
        m.d.sync += self.setup.eq(self.begin)
        with m.If(self.begin):
            m.d.sync += [
                place.eq(self.offset), row_size.eq(self.beats), stride.eq(self.stride),
                rows_left.eq(self.rows), last_row.eq(self.rows == 0),
            ]  # fmt: skip
        with m.If(self.step & ~fits):
            m.d.sync += [
                self.address.eq(((self.address >> cut) + 1) << cut), behind.eq(behind - 1), fits.eq(behind == 1),
                self.length.eq(Mux(behind == 1, tail, -1)), self.single.eq((behind == 1) & (tail == 0) if cut else 1),
            ]  # fmt: skip
        with m.Elif(self.setup | self.step):
            m.d.sync += [
                self.address.eq(next_row), row_start.eq(next_row), place.eq(place + stride),
                behind.eq(reach[cut:]), tail.eq(reach[:cut]), fits.eq(reach[cut:] == 0),
                self.length.eq(Mux(reach[cut:] == 0, row_size, ~place)),
                self.single.eq((row_size == 0) | place.all() if cut else 1),
            ]  # fmt: skip
        with m.If(self.step & fits):
            m.d.sync += [rows_left.eq(rows_left - 1), last_row.eq(rows_left == 1)]
        with m.If(self.setup):
            m.d.sync += self.active.eq(~self.outside)
        with m.Elif(self.step & self.final):
            m.d.sync += self.active.eq(0)
        return m


class ExtentCheck(Elaboratable):
    """Whether a tile reaches outside its segment, in two stages: product of rows and stride, then the sum.

    In the cycle of issue: rows (less one), stride, offset, beats of a row (less one), segment. In the next one:
    ``base``: the segment's first physical beat plus offset; ``outside``.
    """

    def __init__(self, config: Config, fields: object, beats: Signal) -> None:
        self.config, self.fields, self.beats = config, fields, beats
        beat_shift = bits_for(config.beat_bytes)
        self.bases = [Signal(DRAM_ADDRESS_BITS - beat_shift, name=f"base_{k}") for k in range(config.segments)]
        self.limits = [Signal(32, name=f"limit_{k}") for k in range(config.segments)]
        self.base = Signal(DRAM_ADDRESS_BITS - beat_shift)
        self.outside = Signal()

    def elaborate(self, platform: object) -> Module:
        """Registers between the two stages."""
        m = Module()
        f = self.fields
        span = Signal(len(f.rows) + len(f.stride), reset_less=True)
        length = Signal(len(f.offset) + 2, reset_less=True)
        offset = Signal.like(f.offset, reset_less=True)
        limit, base = Signal(32, reset_less=True), Signal.like(self.base, reset_less=True)
        m.d.sync += [
            span.eq(f.rows * f.stride), length.eq(f.offset + self.beats + 1), offset.eq(f.offset),
            limit.eq(Array(self.limits)[f.segment]), base.eq(Array(self.bases)[f.segment]),
        ]  # fmt: skip
        end = Signal(max(len(span), len(length)) + 1)
        m.d.comb += [
            end.eq(span + length),
            self.outside.eq(end > limit),
            self.base.eq(base + offset),
        ]
        return m
