"""Counters of every engine and of the bus, and the trace FIFO; they show where the cycles went."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import TAG_BITS, TRACE_DEPTH, counter_names
from tilewright.isa.spec import Engine


class Counters(Elaboratable):
    """32-bit counters, cleared by ``restart`` in cycle 0 (which already counts), stepping while ``count``.

    All that comes in is registered first: what decides a cycle is at the end of long paths. So the values are a cycle
    late, and have settled when the end of a run can be seen.

    ``cause[engine]``: one bit per name in ``counter_names``, each high in a cycle that counts for it.
    fetch_beats, load_beats: beats requested in this cycle; store_beat: a beat was written. ``retire[engine]``:
    (pulse and trace bit, tag). ``values``: register name -> value.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.count, self.restart, self.trace_pop = Signal(), Signal(), Signal()
        self.cycle = Signal(32)
        self.cause = {
            e: {n: Signal(name=f"{e.name.lower()}_{n.lower()}_now") for n in counter_names(e)} for e in Engine
        }
        self.fetch_beats = Signal(range(config.burst_beats + 1))
        self.load_beats = Signal(range(config.burst_beats + 1))
        self.store_beat = Signal()
        self.traced = [Signal(name=f"traced_{e.name.lower()}") for e in Engine]
        self.tags = [Signal(TAG_BITS, name=f"tag_{e.name.lower()}") for e in Engine]
        self.values: dict[str, Value] = {}
        self._steps: dict[str, Value] = {f"{e.name}_{n}": signal for e in Engine for n, signal in self.cause[e].items()}
        self._steps |= {
            "FETCH_BEATS": self.fetch_beats, "LOAD_BEATS": self.load_beats, "STORE_BEATS": self.store_beat,
        }  # fmt: skip
        for name in self._steps:
            self.values[name] = Signal(32, name=name.lower())
        self.dropped = Signal(16)
        self.trace = Queue(TAG_BITS + 32, TRACE_DEPTH)
        self.values["TRACE_COUNT"] = self.trace.count
        self.values["TRACE_DROPPED"] = self.dropped
        self.values["TRACE_TAG"] = self.trace.head[:TAG_BITS]
        self.values["TRACE_CYCLE"] = self.trace.head[TAG_BITS:]

    def elaborate(self, platform: object) -> Module:
        """Counters; trace entries wait in a register per engine until the one write port is free."""
        m = Module()
        count, restart = Signal(), Signal()
        m.d.sync += [count.eq(self.count), restart.eq(self.restart)]
        for name, step in self._steps.items():
            value, late = self.values[name], Signal.like(step, name=f"{name.lower()}_step", reset_less=True)
            m.d.sync += late.eq(step)
            with m.If(count):
                m.d.sync += value.eq(Mux(restart, 0, value) + late)
        m.submodules.trace = trace = self.trace
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
        waiting = Cat(*pending).any()
        m.d.comb += [
            trace.write_data.eq(chosen),
            trace.write.eq(waiting & ~trace.full),
            trace.pop.eq(self.trace_pop),
            *[taken[k].eq(pending[k] & ~Cat(*pending[:k]).any()) for k in range(len(pending))],
        ]
        lost = waiting & trace.full
        overrun = Cat(*[t & w & ~k for t, w, k in zip(traced, pending, taken)]).any()
        m.d.sync += self.dropped.eq(self.dropped + lost + overrun)
        return m
