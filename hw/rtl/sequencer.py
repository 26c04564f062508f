"""The two affine loops over micro-ops that GEMM and ALU share, one slot a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from tilewright.isa.spec import LOOP_BITS


class Operand:
    """base, outer and inner: as in the instruction. term: base + o * outer + i * inner of the current slot."""

    def __init__(self, name: str, bits: int) -> None:
        self.base = Signal(bits, name=f"{name}_base")
        self.outer = Signal(bits, name=f"{name}_outer")
        self.inner = Signal(bits, name=f"{name}_inner")
        self.term = Signal(bits, name=f"{name}_term", reset_less=True)


class Sequencer(Elaboratable):
    """``issue`` in cycle t loads an instruction's loops; its slots are the cycles t + 1 to t + N.

    Counts are less one. ``ready``: the next instruction may be issued. ``valid``: a micro-op starts in this
    slot; ``first``: it is the instruction's first; ``last``: the last slot of the instruction (WAIT included).
    ``extra``: the instruction has one slot more than its micro-ops need.
    """

    def __init__(self, uop_bits: int, count_bits: int, operands: dict[str, int]) -> None:
        self.issue, self.ready = Signal(), Signal()
        self.is_wait, self.pace, self.extra = Signal(), Signal(), Signal()
        self.wait_cycles = Signal(16)
        self.uop_begin = Signal(uop_bits)
        self.uop_count = Signal(count_bits)
        self.outer, self.inner = Signal(LOOP_BITS), Signal(LOOP_BITS)
        self.operands = {name: Operand(name, bits) for name, bits in operands.items()}
        self.valid, self.first, self.last = Signal(), Signal(), Signal()
        self.uop = Signal(uop_bits, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """Counters down to zero; terms are kept by addition alone.

        Issue and retire hang on ``ready`` and ``last``; so zeros, and with them ``ready``, are found a cycle ahead, and
        what is about to be zero two.
        """
        m = Module()
        active, waiting, paced, second = Signal(), Signal(), Signal(), Signal()
        longer, ending = Signal(), Signal()  # has an extra slot; is in it
        begin = Signal.like(self.uop_begin, reset_less=True)
        count, uops_left = Signal.like(self.uop_count, reset_less=True), Signal.like(self.uop_count, reset_less=True)
        inner, inner_left = Signal.like(self.inner, reset_less=True), Signal.like(self.inner, reset_less=True)
        outer_left = Signal.like(self.outer, reset_less=True)
        wait_left = Signal.like(self.wait_cycles, reset_less=True)
        fresh, ready = Signal(), Signal(init=1)
        # whether a counter is at zero, whether it is at one, and whether it starts so
        uops_end, inner_end, outer_end = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        uops_near, inner_near, outer_near = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        one_uop, one_inner = Signal(reset_less=True), Signal(reset_less=True)
        two_uops, two_inner = Signal(reset_less=True), Signal(reset_less=True)
        uops_next, inner_next, outer_next = (Signal(name=f"{name}_end_next") for name in ("uops", "inner", "outer"))
        step, final, final_next, one_slot = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            step.eq(active & (second | ~paced)),  # this micro-op's last slot
            self.valid.eq(active & ~second),
            self.first.eq(fresh),
            final.eq(step & uops_end & inner_end & outer_end),
            self.ready.eq(ready),
            self.last.eq(ready & (active | waiting | ending)),
            # after a step; after the slot that is none the counters stay
            uops_next.eq(Mux(uops_end, one_uop, uops_near)),
            inner_next.eq(Mux(uops_end, Mux(inner_end, one_inner, inner_near), inner_end)),
            outer_next.eq(Mux(uops_end & inner_end, outer_near, outer_end)),
            final_next.eq(Mux(paced, ~second & uops_end & inner_end & outer_end, uops_next & inner_next & outer_next)),
            one_slot.eq(
                Mux(
                    self.is_wait,
                    self.wait_cycles == 0,
                    ~Cat(self.uop_count, self.outer, self.inner, self.pace, self.extra).any(),
                )
            ),
        ]
        with m.If(self.issue):
            m.d.sync += ready.eq(one_slot)
        with m.Elif(~ready):
            m.d.sync += ready.eq(Mux(waiting, wait_left == 1, Mux(longer, final, final_next)))
        m.d.sync += [second.eq(active & paced & ~second), wait_left.eq(wait_left - 1), ending.eq(final & longer)]
        with m.If(step):
            m.d.sync += [
                fresh.eq(0), self.uop.eq(Mux(uops_end, begin, self.uop + 1)), uops_left.eq(uops_left - 1),
                uops_end.eq(uops_next), inner_end.eq(inner_next), outer_end.eq(outer_next),
                uops_near.eq(Mux(uops_end, two_uops, uops_left == 2)),
            ]  # fmt: skip
            with m.If(uops_end):
                m.d.sync += [
                    uops_left.eq(count), inner_left.eq(inner_left - 1),
                    inner_near.eq(Mux(inner_end, two_inner, inner_left == 2)),
                ]  # fmt: skip
                with m.If(inner_end):
                    m.d.sync += [inner_left.eq(inner), outer_left.eq(outer_left - 1), outer_near.eq(outer_left == 2)]
        with m.If(final | ready):
            m.d.sync += [active.eq(0), waiting.eq(0)]
        with m.If(self.issue):
            m.d.sync += [
                active.eq(~self.is_wait), waiting.eq(self.is_wait), paced.eq(self.pace),
                longer.eq(self.extra), second.eq(0), fresh.eq(1),
                begin.eq(self.uop_begin), self.uop.eq(self.uop_begin), count.eq(self.uop_count),
                uops_left.eq(self.uop_count), inner.eq(self.inner), inner_left.eq(self.inner),
                outer_left.eq(self.outer), wait_left.eq(self.wait_cycles), uops_end.eq(self.uop_count == 0),
                one_uop.eq(self.uop_count == 0), inner_end.eq(self.inner == 0), one_inner.eq(self.inner == 0),
                outer_end.eq(self.outer == 0), uops_near.eq(self.uop_count == 1), two_uops.eq(self.uop_count == 1),
                inner_near.eq(self.inner == 1), two_inner.eq(self.inner == 1), outer_near.eq(self.outer == 1),
            ]  # fmt: skip
        for name, operand in self.operands.items():
            outer_step = Signal.like(operand.outer, name=f"{name}_outer_step", reset_less=True)
            inner_step = Signal.like(operand.inner, name=f"{name}_inner_step", reset_less=True)
            row = Signal.like(operand.term, name=f"{name}_row", reset_less=True)  # term of inner iteration 0
            next_row = Signal.like(row, name=f"{name}_next_row")
            m.d.comb += next_row.eq(row + outer_step)
            with m.If(step & uops_end):
                with m.If(inner_end):
                    m.d.sync += [row.eq(next_row), operand.term.eq(next_row)]
                with m.Else():
                    m.d.sync += operand.term.eq(operand.term + inner_step)
            with m.If(self.issue):
                m.d.sync += [
                    outer_step.eq(operand.outer), inner_step.eq(operand.inner),
                    row.eq(operand.base), operand.term.eq(operand.base),
                ]  # fmt: skip
        return m


def delay(m: Module, signal: Signal, cycles: int, name: str, *, reset: bool = False) -> list[Signal]:
    """[signal, one cycle later, ..., ``cycles`` cycles later]; ``reset``: cleared by reset (for valid bits)."""
    chain = [signal]
    for k in range(cycles):
        later = Signal.like(signal, name=f"{name}_{k + 1}", reset_less=not reset)
        m.d.sync += later.eq(chain[-1])
        chain.append(later)
    return chain
