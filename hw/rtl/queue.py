"""A queue whose oldest entry stands in a register: what is written in one cycle can be taken in the next."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.hw.rtl.primitives import AsyncRam


class Queue(Elaboratable):
    """``depth`` entries of ``width`` bits, the head included.

    ``load`` and ``load_data`` tell in which cycle a new head is about to be registered, and what it will be, so
    that a consumer can load counters along with it.
    """

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.write = Signal()
        self.write_data = Signal(width)
        self.full = Signal()
        self.pop = Signal()
        self.valid = Signal()
        self.head = Signal(width, reset_less=True)
        self.load = Signal()
        self.load_data = Signal(width)
        self.behind_head = Signal(width)  #: the entry behind the head, if there is one
        self.count = Signal(range(depth + 1))
        self.stored = Signal()  #: something stands behind the head (which is there whenever anything is)
        self.behind = Signal()  #: ... or is written: what is popped now has a successor

    def elaborate(self, platform: object) -> Module:
        """Head register, then LUT RAM as a ring."""
        m = Module()
        m.submodules.ring = ring = AsyncRam(self.width, self.depth)
        first, last = Signal(range(self.depth)), Signal(range(self.depth))
        take = Signal()  # the head register is free at the end of this cycle
        m.d.comb += [
            take.eq(self.pop | ~self.valid),
            self.behind.eq(self.stored | self.write),
            self.load.eq(take & self.behind),
            self.behind_head.eq(ring.read_data),
            self.load_data.eq(Mux(self.stored, self.behind_head, self.write_data)),
            ring.read_address.eq(first),
            ring.write_address.eq(last),
            ring.write_data.eq(self.write_data),
            # the place is free: what goes to the head at once may be written there too
            ring.write_enable.eq(self.write),
        ]
        wrap = self.depth - 1  # depth need not be a power of two
        m.d.sync += self.valid.eq(self.behind | (self.valid & ~self.pop))
        with m.If(self.load):
            m.d.sync += self.head.eq(self.load_data)
        with m.If(take & self.stored):
            m.d.sync += first.eq(Mux(first == wrap, 0, first + 1))
        with m.If(self.write & ~(take & ~self.stored)):
            m.d.sync += last.eq(Mux(last == wrap, 0, last + 1))
        popped = Signal()
        m.d.comb += popped.eq(self.pop & self.valid)
        with m.If(self.write != popped):  # ``stored`` and ``full`` are found a cycle ahead
            m.d.sync += [
                self.count.eq(self.count + Mux(self.write, 1, -1)),
                self.stored.eq(Mux(self.write, self.valid, self.count > 2)),
                self.full.eq(self.write & (self.count == self.depth - 1)),
            ]
        return m
