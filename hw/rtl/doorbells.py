"""Doorbells between the cores of a design: a counter for each ordered pair, as between two engines of a core."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from tilewright.isa.spec import DOORBELL_DEPTH


class Doorbells(Elaboratable):
    """What rings at a retire can be heard two cycles later (DOORBELL_LATENCY = 2): a register on the way between cores.

    ``ring[c]``, ``hear[c]``: masks of the cores that core c rings at and hears, valid in the cycle of retire and issue;
    ``there[c]``: of those that it can hear. A core hears at most every fourth cycle, since LOAD drains first; so what
    it took is off the count when it looks again. ``forget``: all is as after a reset.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.ring, self.hear, self.there = (
            [Signal(cores, name=f"{name}_{c}") for c in range(cores)] for name in ("ring", "hear", "there")
        )
        self.forget = Signal()

    def elaborate(self, platform: object) -> Module:
        """Registers for both masks, up-down counters, and a flag beside each that says whether it is above zero."""
        m = Module()
        came = [Signal.like(mask, name=f"came_{c}") for c, mask in enumerate(self.ring)]
        taken = [Signal.like(mask, name=f"taken_{c}") for c, mask in enumerate(self.hear)]
        m.d.sync += [Cat(came).eq(Cat(self.ring)), Cat(taken).eq(Cat(self.hear))]
        for source in range(self.cores):
            for target in range(self.cores):
                if source == target:
                    continue
                count = Signal(range(DOORBELL_DEPTH + 1), name=f"core_{source}_to_{target}")
                present = Signal(name=f"core_{source}_to_{target}_present")
                m.d.comb += self.there[target][source].eq(present)
                pushed, popped = came[source][target], taken[target][source]
                with m.If(self.forget):
                    m.d.sync += [count.eq(0), present.eq(0)]
                with m.Elif(pushed != popped):
                    m.d.sync += [count.eq(count + Mux(pushed, 1, -1)), present.eq(pushed | (count != 1))]
        return m
