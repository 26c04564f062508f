"""The tail of a pipelined engine: what an instruction does when it retires, DEPTH cycles after its last slot."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal

from tilewright.isa.registers import TAG_BITS


class RetireLine(Elaboratable):
    """``issue`` with push, trace, tag; ``last`` in the sequencer's last slot; ``retire`` ``depth`` - 1 cycles after it.

    (The sequencer's slots are one cycle behind the issue slots of the timing contract.)
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.issue, self.last, self.retire = Signal(), Signal(), Signal()
        self.push, self.trace, self.tag = Signal(3), Signal(), Signal(TAG_BITS)
        self.retire_push = Signal(3)
        self.retire_trace = Signal()
        self.retire_tag = Signal(TAG_BITS)

    def elaborate(self, platform: object) -> Module:
        """A shift register."""
        m = Module()
        note = Signal(3 + 1 + TAG_BITS, reset_less=True)
        with m.If(self.issue):
            m.d.sync += note.eq(Cat(self.push, self.trace, self.tag))
        valid, carried = self.last, note
        for k in range(self.depth - 1):
            next_valid = Signal(name=f"valid_{k + 1}")
            next_carried = Signal.like(note, name=f"note_{k + 1}", reset_less=True)
            m.d.sync += [next_valid.eq(valid), next_carried.eq(carried)]
            valid, carried = next_valid, next_carried
        m.d.comb += [self.retire.eq(valid), Cat(self.retire_push, self.retire_trace, self.retire_tag).eq(carried)]
        return m
