"""Counters of every engine and of the bus, and the trace FIFO; they show where the cycles went."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.tally import Tally
from tilewright.hw.rtl.trace import Trace
from tilewright.isa.registers import ADDRESS_BITS, COUNTER_BASE, COUNTER_SPACING, counter_names
from tilewright.isa.spec import Engine, bits_for


class Counters(Elaboratable):
    """32-bit counters, cleared by ``restart`` in cycle 0 (which already counts), stepping while ``count``.

    All that comes in is registered first: what decides a cycle is at the end of long paths. So the values are a cycle
    late, and have settled when the end of a run can be seen.

    ``cause[engine]``: one bit per name in ``counter_names``, each high in a cycle that counts for it.
    fetch_beats, load_beats: beats requested in this cycle; store_beat: a beat was written. ``traced``, ``tags``,
    ``cycle``, ``trace_pop``: as in :class:`Trace`.

    ``values``: register name -> value, of those that stand in registers; of the engines' counters ``value`` is the one
    at ``address``, two cycles after ``read``; 0 for any other address. The address stays.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.count, self.restart = Signal(), Signal()
        self.cause = {
            e: {n: Signal(name=f"{e.name.lower()}_{n.lower()}_now") for n in counter_names(e)} for e in Engine
        }
        self.fetch_beats = Signal(range(config.burst_beats + 1))
        self.load_beats = Signal(range(config.burst_beats + 1))
        self.store_beat = Signal()
        self.read, self.address = Signal(), Signal(ADDRESS_BITS)
        self.tally = Tally([list(self.cause[e].values()) for e in Engine], "few")
        self.value = Signal(32)
        self.trace = trace = Trace()
        self.traced, self.tags, self.cycle, self.trace_pop = trace.traced, trace.tags, trace.cycle, trace.pop
        self._beats = {
            "FETCH_BEATS": self.fetch_beats, "LOAD_BEATS": self.load_beats, "STORE_BEATS": self.store_beat,
        }  # fmt: skip
        self.values: dict[str, Value] = {name: Signal(32, name=name.lower()) for name in self._beats}
        self.values |= {
            "TRACE_COUNT": trace.count, "TRACE_DROPPED": trace.dropped, "TRACE_TAG": trace.tag,
            "TRACE_CYCLE": trace.when,
        }  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        """The beats' counters are whole ones: their steps are numbers."""
        m = Module()
        m.submodules.trace = self.trace
        m.submodules.tally = tally = self.tally
        count, restart = Signal(), Signal()
        m.d.sync += [count.eq(self.count), restart.eq(self.restart)]
        for name, step in self._beats.items():
            value, late = self.values[name], Signal.like(step, name=f"{name.lower()}_step", reset_less=True)
            m.d.sync += late.eq(step)
            with m.If(count):
                m.d.sync += value.eq(Mux(restart, 0, value) + late)
        word, row = bits_for(4), bits_for(COUNTER_SPACING)
        above = row + bits_for(tally.rows)
        mine = Signal()
        m.d.sync += mine.eq(
            (self.address[:word] == 0) & (self.address[word:row] < tally.columns)
            & (self.address[above:] == COUNTER_BASE >> above)
        )  # fmt: skip
        m.d.comb += [
            tally.count.eq(self.count), tally.restart.eq(self.restart), tally.read.eq(self.read),
            tally.column.eq(self.address[word:row]), tally.row.eq(self.address[row:above]),
            self.value.eq(Mux(mine, tally.value, 0)),
        ]  # fmt: skip
        return m
