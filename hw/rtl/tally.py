"""Many counters of one bit's steps, in little logic: a few bits each, and one RAM for what goes beyond them."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.hw.rtl.primitives import AsyncRam
from tilewright.isa.spec import bits_for


class Tally(Elaboratable):
    """32-bit counters in rows and columns, each stepping with its signal of ``steps`` while ``count``.

    Each counts in a few bits, which are added to its word of the RAM and cleared in turn, one counter a cycle. The turn
    comes before they overflow, though a read takes its cycle. ``restart`` makes all of them 0; until its turn, a
    counter's word in the RAM does not count. A step is counted a cycle late, also by ``restart``.

    ``read``: two cycles later ``value`` is what the counter of ``row`` and ``column`` holds. No two reads in three
    cycles.
    """

    def __init__(self, steps: Sequence[Sequence[Signal]], name: str) -> None:
        self.steps, self.name = steps, name
        self.rows, self.columns = len(steps), len(steps[0])
        self.count, self.restart, self.read = Signal(), Signal(), Signal()
        self.row, self.column = Signal(range(self.rows)), Signal(range(self.columns))
        self.value = Signal(32, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """One adder, for turns and reads: the few bits are chosen in one cycle, and added to the word in the next."""
        m = Module()
        slots = self.rows * self.columns
        few = range(slots * 3 // 2 + 2)  # cycles between two turns, reads included
        column_bits = bits_for(self.columns)
        m.submodules.ram = ram = AsyncRam(32, self.rows << column_bits)
        row, column = Signal.like(self.row), Signal.like(self.column)  # whose turn it is
        first = Signal(init=1)  # nobody has had a turn twice
        restart = Signal()
        place, turn = Signal(ram.address_bits), Signal(ram.address_bits)
        m.d.comb += [turn.eq(Cat(column, row)), place.eq(Mux(self.read, Cat(self.column, self.row), turn))]
        words: list[list[Value]] = [[] for _ in self.steps]
        for k, row_steps in enumerate(self.steps):
            for n, step in enumerate(row_steps):
                bits = Signal(few, name=f"{self.name}_{k}_{n}")
                clear = restart | (~self.read & (row == k) & (column == n))
                self._count(m, bits, step, clear)
                words[k].append(bits)
        chosen = choose([choose(of_row, place[:column_bits]) for of_row in words], place[column_bits:])
        # a cycle later
        late_place, few_bits = Signal.like(place, reset_less=True), Signal(few, reset_less=True)
        valid, write, total = Signal(reset_less=True), Signal(), Signal(32)
        m.d.sync += [
            late_place.eq(place), few_bits.eq(chosen), valid.eq(~first | (self.read & (place < turn))),
            write.eq(~self.read), self.value.eq(total), restart.eq(self.restart),
        ]  # fmt: skip
        m.d.comb += [
            total.eq(Mux(valid, ram.read_data, 0) + few_bits),
            ram.read_address.eq(late_place), ram.write_address.eq(late_place), ram.write_data.eq(total),
            ram.write_enable.eq(write),
        ]  # fmt: skip
        with m.If(~self.read):
            m.d.sync += column.eq(column + 1)
            with m.If(column == self.columns - 1):
                m.d.sync += [column.eq(0), row.eq(Mux(row == self.rows - 1, 0, row + 1))]
                with m.If(row == self.rows - 1):
                    m.d.sync += first.eq(0)
        with m.If(restart):
            m.d.sync += [column.eq(0), row.eq(0), first.eq(1)]
        return m

    def _count(self, m: Module, bits: Signal, step: Signal, clear: Value) -> None:
        """The few bits of one counter; cleared, they hold the step alone."""
        late = Signal(name=f"{bits.name}_step")
        m.d.sync += [late.eq(Mux(self.count, step, 0)), bits[0].eq(late ^ (bits[0] & ~clear))]
        with m.If(clear):
            m.d.sync += bits[1:].eq(0)
        with m.Else():
            m.d.sync += [bits[k].eq(bits[k] ^ (late & bits[:k].all())) for k in range(1, len(bits))]


def choose(values: Sequence[Value], index: Value) -> Value:
    """The value of an index, 0 beyond the last: by halves, which four at a time make a LUT."""
    if not values:
        return Const(0, 1)
    if len(index) == 0:
        return values[0]
    half = 1 << (len(index) - 1)
    return Mux(index[-1], choose(values[half:], index[:-1]), choose(values[:half], index[:-1]))
