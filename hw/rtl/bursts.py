"""Tiles in DRAM: beats of a row, the bursts of a tile, and the check against the segment's limit."""

from __future__ import annotations

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.isa.spec import Memory, bits_for, entry_bytes


def row_beats(config: Config, memory: Signal, cols_less_one: Signal) -> tuple[Signal, list]:
    """Beats of a row of a tile, and the statements that drive it; entries and beats are powers of two."""
    shifts = {m: entry_bytes(config, m).bit_length() - config.beat_bytes.bit_length() for m in Memory}
    widest = len(cols_less_one) + 1 + max(0, *shifts.values())
    beats = Signal(widest)
    choices = []
    for index in range(8):
        shift = shifts[Memory(index)] if index < len(Memory) else 0
        if shift >= 0:
            choices.append((cols_less_one + 1) << shift)
        else:
            choices.append((cols_less_one >> -shift) + 1)  # whole beats, rounded up
    return beats, [beats.eq(Array(choices)[memory])]


class BurstRequester(Elaboratable):
    """The bursts of one tile, row by row: cut at multiples of the longest burst, one a cycle at best.

    Shared by LOAD (requests read bursts) and STORE (walks its write bursts). ``setup``: pulse in the cycle
    after issue with ``first`` (row start in physical beats), ``stride``, ``rows`` (less one), ``beats`` per
    row; the burst (address, length less one) is ``active`` from the next cycle on, ``step`` takes it.
    ``final``: the burst is the tile's last.
    """

    def __init__(self, config: Config, row_bits: int, beat_bits: int, stride_bits: int) -> None:
        self.config = config
        address_bits = DRAM_ADDRESS_BITS - bits_for(config.beat_bytes)
        self.setup = Signal()
        self.first = Signal(address_bits)
        self.stride = Signal(stride_bits)
        self.rows = Signal(row_bits)
        self.beats = Signal(beat_bits)
        self.active, self.step, self.final = Signal(), Signal(), Signal()
        self.address = Signal(address_bits, reset_less=True)
        self.length = Signal(range(config.burst_beats))

    def elaborate(self, platform: object) -> Module:
        """Current burst in registers; length and successor from them."""
        m = Module()
        longest = self.config.burst_beats
        left = Signal.like(self.beats, reset_less=True)
        row_start = Signal.like(self.address, reset_less=True)
        rows_left = Signal.like(self.rows, reset_less=True)
        row_size = Signal.like(self.beats, reset_less=True)
        stride = Signal.like(self.stride, reset_less=True)
        room = Signal(range(longest + 1))
        fits = Signal()
        next_row = Signal.like(self.address)
        if longest > 1:
            m.d.comb += room.eq(longest - self.address[: bits_for(longest)])
        else:
            m.d.comb += room.eq(1)
        m.d.comb += [
            fits.eq(left <= room),
            self.length.eq(Mux(fits, left, room) - 1),
            self.final.eq(fits & (rows_left == 0)),
            next_row.eq(row_start + stride),
        ]
        with m.If(self.step):
            with m.If(~fits):
                m.d.sync += [self.address.eq(self.address + room), left.eq(left - room)]
            with m.Elif(rows_left != 0):
                m.d.sync += [
                    self.address.eq(next_row), row_start.eq(next_row), left.eq(row_size),
                    rows_left.eq(rows_left - 1),
                ]  # fmt: skip
            with m.Else():
                m.d.sync += self.active.eq(0)
        with m.If(self.setup):
            m.d.sync += [
                self.active.eq(1), self.address.eq(self.first), row_start.eq(self.first), left.eq(self.beats),
                row_size.eq(self.beats), rows_left.eq(self.rows), stride.eq(self.stride),
            ]  # fmt: skip
        return m


class ExtentCheck(Elaboratable):
    """Whether a tile reaches outside its segment, in two stages: product of rows and stride, then the sum.

    In the cycle of issue: rows (less one), stride, offset, beats of a row, segment. In the next one (``late``):
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
        segment = Signal.like(f.segment, reset_less=True)
        m.d.sync += [
            span.eq(f.rows * f.stride), length.eq(f.offset + self.beats), offset.eq(f.offset), segment.eq(f.segment),
        ]  # fmt: skip
        end = Signal(max(len(span), len(length)) + 1)
        m.d.comb += [
            end.eq(span + length),
            self.outside.eq(end > Array(self.limits)[segment]),
            self.base.eq(Array(self.bases)[segment] + offset),
        ]
        return m
