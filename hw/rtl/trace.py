"""The trace FIFO: who retired when, read by the host entry by entry."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from tilewright.hw.rtl.primitives import Ram
from tilewright.isa.registers import TAG_BITS, TRACE_DEPTH
from tilewright.isa.spec import Engine


class Trace(Elaboratable):
    """``traced[engine]``: an instruction with its trace bit set retires, the one of ``tags[engine]``, in ``cycle``.

    ``tag`` and ``when`` are the oldest entry, three cycles after it was written or the one before it removed by
    ``pop``: a host that reads registers is not faster. ``dropped`` counts the entries that found no room.
    """

    def __init__(self) -> None:
        self.traced = [Signal(name=f"traced_{e.name.lower()}") for e in Engine]
        self.tags = [Signal(TAG_BITS, name=f"tag_{e.name.lower()}") for e in Engine]
        self.cycle = Signal(32)
        self.pop = Signal()
        self.count, self.dropped = Signal(range(TRACE_DEPTH + 1)), Signal(16)
        self.ram = Ram(TAG_BITS + 32, TRACE_DEPTH, registered=True)
        self.tag, self.when = self.ram.read_data[:TAG_BITS], self.ram.read_data[TAG_BITS:]

    def elaborate(self, platform: object) -> Module:
        """Entries wait in a register per engine until the one write port is free. What comes in is registered first."""
        m = Module()
        m.submodules.ram = ram = self.ram
        traced, cycle = Signal(len(self.traced)), Signal.like(self.cycle, reset_less=True)
        m.d.sync += [traced.eq(Cat(*self.traced)), cycle.eq(self.cycle)]
        pending = []
        entries = []
        taken = [Signal(name=f"trace_taken_{e.name.lower()}") for e in Engine]
        for e in Engine:
            waits = Signal(name=f"trace_waits_{e.name.lower()}")
            entry = Signal(TAG_BITS + 32, name=f"trace_entry_{e.name.lower()}", reset_less=True)
            tag = Signal.like(self.tags[e], name=f"late_tag_{e.name.lower()}", reset_less=True)
            m.d.sync += tag.eq(self.tags[e])
            with m.If(traced[e]):
                m.d.sync += [waits.eq(1), entry.eq(Cat(tag, cycle))]
            with m.Elif(taken[e]):
                m.d.sync += waits.eq(0)
            pending.append(waits)
            entries.append(entry)
        chosen: Value = entries[-1]
        for k in reversed(range(len(entries) - 1)):
            chosen = Mux(pending[k], entries[k], chosen)
        first, last = Signal(range(TRACE_DEPTH)), Signal(range(TRACE_DEPTH))  # a power of two: they wrap by themselves
        waiting, full, write, popped = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            waiting.eq(Cat(*pending).any()), full.eq(self.count == TRACE_DEPTH), write.eq(waiting & ~full),
            popped.eq(self.pop & (self.count != 0)),
            ram.write_enable.eq(write), ram.write_address.eq(last), ram.write_data.eq(chosen),
            ram.read_enable.eq(1), ram.read_address.eq(first),
            *[taken[k].eq(pending[k] & ~Cat(*pending[:k]).any()) for k in range(len(pending))],
        ]  # fmt: skip
        m.d.sync += [first.eq(first + popped), last.eq(last + write)]
        with m.If(write != popped):
            m.d.sync += self.count.eq(self.count + Mux(write, 1, -1))
        overrun = Cat(*[t & w & ~k for t, w, k in zip(traced, pending, taken)]).any()
        m.d.sync += self.dropped.eq(self.dropped + (waiting & full) + overrun)
        return m
