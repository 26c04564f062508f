"""The twelve token counters: one per ordered pair of engines."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.isa.spec import Engine, others


class Tokens(Elaboratable):
    """A push in the cycle of a retire can be popped in the next (TOKEN_LATENCY = 1).

    ``pop[e]``, ``push[e]``: 3-bit masks, valid in the cycle of issue and retire; ``present[e]``: which other
    engines' tokens are there, same bit order. ``empty``: no token anywhere.
    """

    def __init__(self, config: Config) -> None:
        # at most token_depth that nobody queued for yet, and one for each queued pop and the one issuing
        self.most = config.token_depth + config.queue_depth + 1
        self.pop = [Signal(3, name=f"pop_{e.name.lower()}") for e in Engine]
        self.push = [Signal(3, name=f"push_{e.name.lower()}") for e in Engine]
        self.present = [Signal(3, name=f"present_{e.name.lower()}") for e in Engine]
        self.empty = Signal()

    def elaborate(self, platform: object) -> Module:
        """One up-down counter per pair, and a flag beside it that says whether it is above zero."""
        m = Module()
        held = []
        for source in Engine:
            for sink in others(source):
                count = Signal(range(self.most + 1), name=f"{source.name.lower()}_to_{sink.name.lower()}")
                bit = others(sink).index(source)
                pushed = self.push[source][others(source).index(sink)]
                popped = self.pop[sink][bit]
                present = Signal(name=f"{source.name.lower()}_to_{sink.name.lower()}_present")
                m.d.comb += self.present[sink][bit].eq(present)
                with m.If(pushed != popped):
                    m.d.sync += [count.eq(count + Mux(pushed, 1, -1)), present.eq(pushed | (count != 1))]
                held.append(present)
        m.d.comb += self.empty.eq(~Cat(*held).any())
        return m
