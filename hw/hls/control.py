"""The HLS design's control unit, in Amaranth: the registers of the RTL, so that one driver serves both.

It starts the dispatch kernel for every inference, counts cycles and bus beats, and after a fault or the
watchdog's end waits for a silent bus and resets the kernels. The engines' counters of causes and the trace
stay at 0: from outside, a kernel does not show what it waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.back import verilog
from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal
from amaranth.hdl._ir import PortDirection

from tilewright.config import Config
from tilewright.hw.hls.shapes import bell_streams
from tilewright.hw.rtl.control import ControlUnit
from tilewright.hw.rtl.cores import Window
from tilewright.hw.rtl.ports import BELLS, Port, host_ports, inner_ports
from tilewright.isa.registers import DRAM_ADDRESS_BITS, TAG_BITS, FaultCode
from tilewright.isa.spec import Engine, bits_for, core_bits

MODULE, WINDOW = "tilewright_control", "tilewright_window"
RESET_CYCLES = 16  #: HLS kernels want their reset for some cycles
SILENT_CYCLES = 256  #: a bus without any transaction for so long belongs to kernels that wait, or have ended


def control_ports(config: Config) -> list[Port]:
    """Registers, interrupt and doorbells as a core of the RTL has them; the dispatch kernel's ports; what is seen of
    bus and commands; the kernels' streams for doorbells."""
    beat_bits = DRAM_ADDRESS_BITS - bits_for(config.beat_bytes)
    return [
        *inner_ports(config),
        Port("kernel_rst_n", "out", 1, "reset of all kernels and streams"),
        Port("gate", "out", 1, "no address or write beat may pass: the kernels are about to be reset"),
        Port("ap_start", "out", 1), Port("ap_ready", "in", 1), Port("ap_done", "in", 1),
        Port("program_address", "out", beat_bits, "in beats"), Port("instructions", "out", TAG_BITS),
        Port("beats", "out", 32), Port("bases", "out", config.segments * beat_bits, "segment 0 lowest, in beats"),
        Port("limits", "out", config.segments * 32),
        Port("fault", "in", 1 + TAG_BITS, "bit 0: a segment fault; above: the instruction"),
        Port("fault_valid", "in", 1),
        Port("commands_taken", "in", 4, "bit e: engine e takes a command in this cycle"),
        Port("bus_busy", "in", 1, "a transaction is offered or under way"),
        Port("bus_error", "in", 1, "a response says so"),
        Port("fetch_beat", "in", 1), Port("load_beat", "in", 1), Port("store_beat", "in", 1),
        *bell_streams(config),
    ]  # fmt: skip


class Listener(Elaboratable):
    """Takes doorbells for one WAIT after another, as dispatch tells of them, and says to LOAD when it has.

    ``there``, ``taken``: as a core's ports ``bell_there`` and ``bell_hear``. What was taken is off the count in the
    second cycle after it (``hw/rtl/doorbells.py``), and nothing is looked at before.
    """

    def __init__(self, config: Config) -> None:
        self.there, self.taken = Signal(core_bits(config)), Signal(core_bits(config))
        self.asked, self.valid, self.ready = Signal(core_bits(config)), Signal(), Signal()
        self.heard, self.known = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        """``asked`` with valid and ready; ``heard`` until it is ``known``."""
        m = Module()
        with m.FSM():
            with m.State("LOOK"):  # noqa: SIM117
                with m.If(self.valid & ~(self.asked & ~self.there).any()):
                    m.d.comb += [self.ready.eq(1), self.taken.eq(self.asked)]
                    m.next = "TELL"
            with m.State("TELL"):
                m.d.comb += self.heard.eq(1)
                with m.If(self.known):
                    m.next = "REST"
            with m.State("REST"):
                m.next = "LOOK"
        return m


class HlsControl(Elaboratable):
    """``port[name]``: the signals of :func:`control_ports`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = {p.name: Signal(p.width, name=p.name) for p in control_ports(config)}
        self.unit = ControlUnit(config)

    def elaborate(self, platform: object) -> Module:
        """The RTL's control unit, given what the kernels show of themselves."""
        m = Module()
        m.submodules.control = unit = self.unit
        p = self.port
        for port in inner_ports(self.config):  # what the unit has none of is 0
            inner = getattr(unit.port, port.name.removeprefix("s_axil_"), None)
            if inner is not None:
                m.d.comb += inner.eq(p[port.name]) if port.direction == "in" else p[port.name].eq(inner)
        shift = bits_for(self.config.beat_bytes)
        m.d.comb += [
            p["irq"].eq(unit.irq), p["program_address"].eq(unit.program_address[shift:]),
            p["instructions"].eq(unit.program_instructions),
            p["beats"].eq(unit.program_beats), p["bases"].eq(Cat(*[base[shift:] for base in unit.bases])),
            p["limits"].eq(Cat(*unit.limits)), unit.bus_error.eq(p["bus_error"]),
        ]  # fmt: skip
        self._run(m)
        if self.config.cores > 1:
            self._bells(m)
        counters = unit.counters
        m.d.comb += [
            *[counters.cause[e]["INSTRUCTIONS"].eq(p["commands_taken"][int(e)]) for e in Engine],
            counters.fetch_beats.eq(p["fetch_beat"]), counters.load_beats.eq(p["load_beat"]),
            counters.store_beat.eq(p["store_beat"]),
        ]  # fmt: skip
        return m

    def _run(self, m: Module) -> None:
        p, unit = self.port, self.unit
        ended, wanted = Signal(), Signal()
        reset_left = Signal(range(RESET_CYCLES + 1), init=RESET_CYCLES)
        silent = Signal(range(SILENT_CYCLES + 1))
        # ap_start stays until ap_ready (UG1399, ap_ctrl_hs); a start soon after a fault waits for the reset's end
        with m.If(unit.start):
            m.d.sync += [wanted.eq(1), ended.eq(0)]
        with m.Elif(unit.clear | (p["ap_start"] & p["ap_ready"])):
            m.d.sync += wanted.eq(0)
        with m.If(p["ap_done"] & ~unit.start):
            m.d.sync += ended.eq(1)
        m.d.comb += [
            p["ap_start"].eq(wanted & (reset_left == 0)),
            p["kernel_rst_n"].eq(reset_left == 0),
            unit.finished.eq(ended), unit.fault_settled.eq(ended),
            p["gate"].eq(silent == SILENT_CYCLES), unit.quiet.eq(p["gate"]),
        ]  # fmt: skip
        m.d.sync += silent.eq(
            Mux(~unit.halt | (p["bus_busy"] & ~p["gate"]), 0, Mux(silent == SILENT_CYCLES, silent, silent + 1))
        )
        with m.If(unit.clear):
            m.d.sync += reset_left.eq(RESET_CYCLES)
        with m.Elif(reset_left != 0):
            m.d.sync += reset_left.eq(reset_left - 1)
        pulse, tag = unit.add_fault(FaultCode.SEGMENT, "kernel")
        m.d.comb += [pulse.eq(p["fault_valid"] & p["fault"][0]), tag.eq(p["fault"][1:])]

    def _bells(self, m: Module) -> None:
        """Both ways between the kernels' streams and the doorbells of the design; with them what is heard is reset."""
        p, listener = self.port, Listener(self.config)
        m.submodules.listener = ResetInserter(~p["kernel_rst_n"])(listener)
        m.d.comb += [
            listener.there.eq(p[f"{BELLS}there"]), p[f"{BELLS}hear"].eq(listener.taken),
            listener.asked.eq(p["hear_TDATA"]), listener.valid.eq(p["hear_TVALID"]),
            p["hear_TREADY"].eq(listener.ready), listener.known.eq(p["heard_TREADY"]),
            p["heard_TVALID"].eq(listener.heard), p["heard_TDATA"].eq(1), p["ring_TREADY"].eq(1),
            p[f"{BELLS}ring"].eq(Mux(p["ring_TVALID"], p["ring_TDATA"], 0)),
        ]  # fmt: skip


def control_verilog(config: Config) -> str:
    """The Verilog of ``tilewright_control``."""
    top = HlsControl(config)
    return _verilog(MODULE, top, [(top.port[p.name], p.direction) for p in control_ports(config)])


def window_verilog(config: Config) -> str:
    """The Verilog of ``tilewright_window``: what stands between several cores, as in the RTL."""
    top = Window(config)
    ports: list[tuple[Signal, str]] = [(top.port[p.name], p.direction) for p in host_ports(config)]
    back: dict[str, str] = {"in": "out", "out": "in"}
    ports += [(own[p.name], back[p.direction]) for own in top.cores for p in inner_ports(config)]
    return _verilog(WINDOW, top, ports)


def _verilog(name: str, top: Elaboratable, ports: Sequence[tuple[Signal, str]]) -> str:
    directions = {"in": PortDirection.Input, "out": PortDirection.Output}
    return str(verilog.convert(top, name=name, ports={s.name: (s, directions[way]) for s, way in ports}))
