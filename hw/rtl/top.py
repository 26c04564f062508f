"""A core of the accelerator: all modules, wired."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal

from tilewright.config import Config
from tilewright.hw.rtl.alu import Alu
from tilewright.hw.rtl.control import ControlUnit
from tilewright.hw.rtl.dispatch import Dispatch
from tilewright.hw.rtl.fetch import Fetch
from tilewright.hw.rtl.gemm import Gemm
from tilewright.hw.rtl.issue import Issue
from tilewright.hw.rtl.load import Load
from tilewright.hw.rtl.load_data import LoadData
from tilewright.hw.rtl.memories import Memories
from tilewright.hw.rtl.port_pair import PortPair
from tilewright.hw.rtl.ports import core_ports, masters, memory_port
from tilewright.hw.rtl.read_channel import ReadChannel
from tilewright.hw.rtl.sequencer import delay
from tilewright.hw.rtl.store import Store
from tilewright.isa.registers import TAG_BITS, FaultCode
from tilewright.isa.spec import Engine, bits_for, others
from tilewright.isa.timing import FAULT_LATENCY


class Tilewright(Elaboratable):
    """One core, which alone is the whole design. ``port[name]``: the signals of ``core_ports``."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = {p.name: Signal(p.width, name=p.name) for p in core_ports(config)}
        ports = [self._master(prefix) for prefix in masters(config)]
        self.bus, self.pair = ports[0], None
        if len(ports) == 2:
            self.bus = {p.name: Signal(p.width, name=f"bus_{p.name}") for p in memory_port(config, "", config.bus_bits)}
            self.pair = PortPair(config, self.bus, (ports[0], ports[1]))
        self.fetch = Fetch(config)
        self.dispatch = Dispatch(config)
        self.read = ReadChannel(config)
        self.load, self.load_data = Load(config), LoadData(config)
        self.memories = memories = Memories(config, self.load_data)
        act, acc = memories.act, memories.acc
        self.gemm = Gemm(config, act.readers[0], acc.readers[0], acc.writers[0])
        self.alu = Alu(config, act.readers[1], act.writers[0], acc.readers[1], acc.readers[2], acc.writers[1])
        self.store = Store(config)
        self.issue = Issue(config, self.dispatch.queues)
        self.control = ControlUnit(config)

    def _master(self, prefix: str) -> dict[str, Signal]:
        return {name.removeprefix(prefix): s for name, s in self.port.items() if name.startswith(prefix)}

    def elaborate(self, platform: object) -> Module:
        """Wiring only; every module but control, bus and memories is cleared after a fault."""
        m = Module()
        clear = self.control.clear
        m.submodules.control = self.control
        m.submodules.read_channel = self.read
        m.submodules.memories = self.memories
        if self.pair is not None:
            m.submodules.port_pair = self.pair
        for name in ("fetch", "dispatch", "issue", "load", "load_data", "gemm", "alu", "store"):
            m.submodules[name] = ResetInserter(clear)(getattr(self, name))
        self._front(m)
        self._engines(m)
        self._read_bus(m)
        self._write_bus(m)
        self._control(m)
        return m

    def _front(self, m: Module) -> None:
        """FETCH, dispatch, issue."""
        control, fetch, dispatch, issue = self.control, self.fetch, self.dispatch, self.issue
        m.d.comb += [
            fetch.start.eq(control.start), fetch.stop.eq(control.stopped),
            fetch.program_address.eq(control.program_address), fetch.program_beats.eq(control.program_beats),
            fetch.take.eq(dispatch.take), fetch.dispatched.eq(dispatch.dispatched),
            dispatch.valid.eq(fetch.valid), dispatch.word.eq(fetch.word),
            dispatch.start.eq(control.start), dispatch.stop.eq(control.stopped),
            dispatch.instructions.eq(control.program_instructions),
            issue.limit.eq(control.fault_tag), issue.halt.eq(control.halt),
            control.finished.eq(issue.idle & issue.no_tokens & dispatch.idle),
            control.fault_settled.eq(issue.settled),
        ]  # fmt: skip

    def _engines(self, m: Module) -> None:
        """Heads, issue, retire; memories of each engine."""
        c = self.config
        load, data, gemm, alu, store = self.load, self.load_data, self.gemm, self.alu, self.store
        control, memories = self.control, self.memories
        retires = {
            Engine.LOAD: data, Engine.GEMM: gemm.retire_line, Engine.ALU: alu.retire_line, Engine.STORE: store,
        }  # fmt: skip
        parts = {Engine.LOAD: load, Engine.GEMM: gemm, Engine.ALU: alu, Engine.STORE: store}
        for e in Engine:
            rule, part, retire = self.issue.engines[e], parts[e], retires[e]
            head = rule.queue.head
            counters = control.counters
            m.d.comb += [
                part.head.eq(head[: len(part.head)]), part.issue.eq(rule.issue), rule.ready.eq(part.ready),
                self.issue.retire[e].eq(retire.retire), self.issue.push[e].eq(retire.retire_push),
                counters.traced[e].eq(retire.retire & retire.retire_trace & control.running),
                counters.tags[e].eq(retire.retire_tag),
                counters.cause[e]["INSTRUCTIONS"].eq(rule.issue), counters.cause[e]["BUSY"].eq(rule.busy),
                counters.cause[e]["EMPTY"].eq(rule.empty), counters.cause[e]["DRAIN"].eq(rule.drain),
                *[counters.cause[e][f"WAIT_{o.name}"].eq(w) for o, w in zip(others(e), rule.waits)],
            ]  # fmt: skip
            if e != Engine.LOAD:
                m.d.comb += part.tag.eq(head[len(head) - TAG_BITS :])
        engines = self.issue.engines
        head, drained = engines[Engine.LOAD].queue.head, ~load.drains | data.drained
        m.d.comb += [
            data.head.eq(load.head), data.tag.eq(head[len(head) - TAG_BITS :]), data.issue.eq(load.issue),
            load.slots_busy.eq(data.slots_busy),
            engines[Engine.LOAD].drained.eq(drained & load.heard if c.cores > 1 else drained),
            engines[Engine.GEMM].drained.eq(1), engines[Engine.ALU].drained.eq(1),
            engines[Engine.STORE].drained.eq(~store.drains | store.drained),
            # micro-ops, weights, parameters
            memories.uop_gemm.enable.eq(gemm.uop_enable), memories.uop_gemm.address.eq(gemm.uop_address),
            gemm.uop_word.eq(memories.uop_gemm.word), memories.wgt.read_enable.eq(gemm.wgt_enable),
            memories.wgt.read_address.eq(gemm.wgt_address), gemm.wgt_data.eq(memories.wgt.read_data),
            memories.uop_alu.enable.eq(alu.uop_enable), memories.uop_alu.address.eq(alu.uop_address),
            alu.uop_word.eq(memories.uop_alu.word), memories.prm.enable.eq(alu.prm_enable),
            memories.prm.address.eq(alu.prm_address),
            memories.table.enable.eq(alu.table_enable), memories.table.table.eq(alu.table),
            memories.table.index.eq(alu.table_index), alu.table_result.eq(memories.table.result),
            Cat(alu.prm_bias, alu.prm_multiplier, alu.prm_offset, alu.prm_shift).eq(Cat(*memories.prm.data)),
        ]  # fmt: skip
        if c.cores > 1:
            m.d.comb += [
                load.there.eq(self.port["bell_there"]), self.port["bell_hear"].eq(load.hear),
                self.port["bell_ring"].eq(store.ring),
            ]  # fmt: skip
        # STORE reads single units
        port = memories.act.readers[2]
        units = c.act_row_units
        shift = bits_for(units) if units > 1 else 0
        width = 8 * c.act_unit_bytes
        m.d.comb += [port.enable.eq(store.read_enable), port.address.eq(store.read_address[shift:])]
        if shift:
            unit_1, unit_2 = Signal(shift, reset_less=True), Signal(shift, reset_less=True)
            m.d.sync += [unit_1.eq(store.read_address[:shift]), unit_2.eq(unit_1)]
            m.d.comb += store.read_data.eq(port.data.word_select(unit_2, width))
        else:
            m.d.comb += store.read_data.eq(port.data)

    def _read_bus(self, m: Module) -> None:
        p, read, fetch, load = self.bus, self.read, self.fetch, self.load
        halt = self.control.halt
        m.d.comb += [
            read.request[0].eq(fetch.request), read.address[0].eq(fetch.request_address),
            read.length[0].eq(fetch.request_length), fetch.granted.eq(read.granted[0]),
            read.request[1].eq(load.request & ~halt), read.address[1].eq(load.request_address),
            read.length[1].eq(load.request_length), load.granted.eq(read.granted[1]),
            p["arvalid"].eq(read.arvalid), read.arready.eq(p["arready"]),
            p["araddr"].eq(read.araddr), p["arlen"].eq(read.arlen),
            p["rready"].eq(1),  # room is reserved before a burst is requested
            read.rvalid.eq(p["rvalid"]), read.rlast.eq(p["rlast"]), read.rresp.eq(p["rresp"]),
            fetch.beat_valid.eq(read.beat_valid[0]), fetch.beat.eq(p["rdata"]),
            self.load_data.beat_valid.eq(read.beat_valid[1]), self.load_data.beat.eq(p["rdata"]),
        ]  # fmt: skip

    def _write_bus(self, m: Module) -> None:
        p, write = self.bus, self.store.channel
        size = bits_for(self.config.beat_bytes)
        for channel in ("ar", "aw"):  # incrementing bursts of whole beats; normal, non-cacheable, bufferable
            m.d.comb += [
                p[f"{channel}size"].eq(size), p[f"{channel}burst"].eq(1), p[f"{channel}cache"].eq(3),
            ]  # fmt: skip
        m.d.comb += [
            p["awvalid"].eq(write.awvalid), write.awready.eq(p["awready"]),
            p["awaddr"].eq(write.awaddr), p["awlen"].eq(write.awlen),
            p["wvalid"].eq(write.wvalid), write.wready.eq(p["wready"]),
            p["wdata"].eq(write.wdata), p["wlast"].eq(write.wlast),
            p["wstrb"].eq((1 << self.config.beat_bytes) - 1),
            p["bready"].eq(1), write.bvalid.eq(p["bvalid"]), write.bresp.eq(p["bresp"]),
            write.halt.eq(self.control.halt),
        ]  # fmt: skip

    def _control(self, m: Module) -> None:
        """Registers, faults, counters, events."""
        p, control = self.port, self.control
        slave = control.port
        for channel in ("aw", "w", "b", "ar", "r"):
            valid, ready = p[f"s_axil_{channel}valid"], p[f"s_axil_{channel}ready"]
            inside_valid, inside_ready = getattr(slave, f"{channel}valid"), getattr(slave, f"{channel}ready")
            if channel in ("b", "r"):
                m.d.comb += [valid.eq(inside_valid), inside_ready.eq(ready)]
            else:
                m.d.comb += [inside_valid.eq(valid), ready.eq(inside_ready)]
        beat_shift = bits_for(self.config.beat_bytes)
        m.d.comb += [
            slave.awaddr.eq(p["s_axil_awaddr"]), slave.wdata.eq(p["s_axil_wdata"]),
            slave.araddr.eq(p["s_axil_araddr"]), p["s_axil_rdata"].eq(slave.rdata),
            control.quiet.eq(self.read.idle & self.store.channel.quiet),
            p["irq"].eq(control.irq),
        ]  # fmt: skip
        # a cycle late, long before the end of a run could be seen: it comes from the ports
        m.d.sync += control.bus_error.eq(self.read.error | self.store.channel.error)
        for unit in (self.load, self.store):
            for check_base, base in zip(unit.check.bases, control.bases):
                m.d.comb += check_base.eq(base[beat_shift:])
            for check_limit, limit in zip(unit.check.limits, control.limits):
                m.d.comb += check_limit.eq(limit)
        pulse, tag = control.add_fault(FaultCode.ILLEGAL, "illegal")
        m.d.comb += [pulse.eq(self.dispatch.illegal), tag.eq(self.dispatch.tag)]
        for e, unit in ((Engine.LOAD, self.load), (Engine.STORE, self.store)):
            pulse, tag = control.add_fault(FaultCode.SEGMENT, e.name.lower())
            head = self.issue.engines[e].queue.head
            name = f"issued_tag_{e.name.lower()}"
            issued = delay(m, head[len(head) - TAG_BITS :], FAULT_LATENCY, name)
            m.d.comb += [
                pulse.eq(unit.fault), tag.eq(issued[-1]),
                self.issue.faulted[e].eq(unit.fault), self.issue.faulted_tag[e].eq(issued[-1]),
            ]  # fmt: skip
        counters = control.counters
        load = self.load
        m.d.comb += [
            counters.cause[Engine.LOAD]["BUS"].eq(load.request & self.read.granted[0]),
            counters.cause[Engine.LOAD]["OUTSTANDING"].eq(load.request & ~self.read.granted[0] & ~self.read.granted[1]),
            counters.cause[Engine.STORE]["OUTSTANDING"].eq(self.store.channel.limited),
            counters.fetch_beats.eq((self.fetch.request_length + 1) & self.read.granted[0].replicate(16)),
            counters.load_beats.eq((load.request_length + 1) & self.read.granted[1].replicate(16)),
            counters.store_beat.eq(self.store.channel.beat_sent),
            p["ev_start"].eq(control.start), p["ev_dispatch"].eq(self.dispatch.dispatched),
            p["ev_dispatch_engine"].eq(self.dispatch.engine),
            p["ev_issue"].eq(Cat(*[rule.issue for rule in self.issue.engines])),
            # what still completes after a watchdog's end is not part of the run
            p["ev_retire"].eq(Mux(control.halt, 0, Cat(*self.issue.retire))), p["ev_done"].eq(control.done),
        ]  # fmt: skip
