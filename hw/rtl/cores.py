"""The top module of a design with several cores: each core as it is alone, one register window, one interrupt.

What stands between the cores (:class:`Window`) does not know what is in them: the HLS design has the same.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Elaboratable, Instance, Module, Mux, ResetSignal, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.doorbells import Doorbells
from tilewright.hw.rtl.ports import core_ports, host_ports, inner_ports, outer_name, ports
from tilewright.isa.registers import ADDRESS_BITS, SHARED

CORE = "tilewright_core"  #: the module that is there ``cores`` times


class Cores(Elaboratable):
    """Instances of :data:`CORE`, and what stands between them.

    ``port[name]``: the signals of :func:`tilewright.hw.rtl.ports.ports`. ``events``: whether the cores have theirs.
    """

    def __init__(self, config: Config, events: bool) -> None:
        self.config, self.window = config, Window(config)
        self.port = {p.name: Signal(p.width, name=p.name) for p in ports(config)} | self.window.port
        self._inner = [p for p in core_ports(config) if events or not p.is_event]

    def elaborate(self, platform: object) -> Module:
        """Memory ports and events go straight outside, all else to the window."""
        m = Module()
        m.submodules.window = self.window
        for number, own in enumerate(self.window.cores):
            wires: dict[str, Value] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
            for p in self._inner:
                outer = own.get(p.name)
                wire = self.port[outer_name(p.name, number, self.config)] if outer is None else outer
                wires[f"{p.direction[0]}_{p.name}"] = wire
            m.submodules[f"core_{number}"] = Instance(CORE, **wires)
        return m


class Window(Elaboratable):
    """Who of the cores a register access is for, what they have together, their interrupts and doorbells.

    ``port[name]``: the signals of :func:`tilewright.hw.rtl.ports.host_ports`. ``cores[c][name]``: those of core c's
    :func:`tilewright.hw.rtl.ports.inner_ports`.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = {p.name: Signal(p.width, name=p.name) for p in host_ports(config)}
        self.cores = [
            {p.name: Signal(p.width, name=f"core_{c}_{p.name}") for p in inner_ports(config)}
            for c in range(config.cores)
        ]

    def elaborate(self, platform: object) -> Module:
        """Accesses to registers through :meth:`_write`, :meth:`_read`."""
        m = Module()
        cores = self.cores
        m.d.comb += self.port["irq"].eq(Cat(core["irq"] for core in cores).any())
        m.submodules.doorbells = self.bells = bells = Doorbells(len(cores))
        for core, ring, hear, there in zip(cores, bells.ring, bells.hear, bells.there):
            m.d.comb += [ring.eq(core["bell_ring"]), hear.eq(core["bell_hear"]), core["bell_there"].eq(there)]
            for name in ("awprot", "wstrb", "arprot"):
                m.d.comb += core[f"s_axil_{name}"].eq(self.port[f"s_axil_{name}"][: len(core[f"s_axil_{name}"])])
        self._write(m, cores)
        self._read(m, cores)
        return m

    # One access in each direction is under way at a time. What is for no core is answered here.

    def _write(self, m: Module, cores: list[dict[str, Signal]]) -> None:
        p = self.port
        address = Signal.like(p["s_axil_awaddr"], name="write_address", reset_less=True)
        data = Signal.like(p["s_axil_wdata"], name="write_data", reset_less=True)
        meant = self._meant(address)
        busy, asked, taken = Signal(name="writing"), Signal(name="write_asked"), Signal(name="write_taken")
        address_waits, data_waits = Signal(), Signal()
        to = Signal(len(cores), name="write_to")
        m.d.comb += [
            p["s_axil_awready"].eq(~address_waits & ~busy), p["s_axil_wready"].eq(~data_waits & ~busy),
            asked.eq(address_waits & data_waits),
            taken.eq(asked & self._of(meant, cores, "awready", otherwise=1)),
            p["s_axil_bvalid"].eq(busy & self._of(to, cores, "bvalid", otherwise=1)), p["s_axil_bresp"].eq(0),
        ]  # fmt: skip
        with m.If(p["s_axil_awready"]):
            m.d.sync += [address.eq(p["s_axil_awaddr"]), address_waits.eq(p["s_axil_awvalid"])]
        with m.If(p["s_axil_wready"]):
            m.d.sync += [data.eq(p["s_axil_wdata"]), data_waits.eq(p["s_axil_wvalid"])]
        for c, core in enumerate(cores):
            m.d.comb += [
                core["s_axil_awaddr"].eq(address), core["s_axil_wdata"].eq(data),
                core["s_axil_awvalid"].eq(asked & meant[c]), core["s_axil_wvalid"].eq(asked & meant[c]),
                core["s_axil_bready"].eq(busy & to[c] & p["s_axil_bready"]),
            ]  # fmt: skip
        forgets = next(register.offset for register in SHARED if register.name == "DOORBELLS")
        m.d.sync += self.bells.forget.eq(taken & (address == forgets))
        with m.If(taken):
            m.d.sync += [busy.eq(1), to.eq(meant), address_waits.eq(0), data_waits.eq(0)]
        with m.Elif(p["s_axil_bvalid"] & p["s_axil_bready"]):
            m.d.sync += busy.eq(0)

    def _read(self, m: Module, cores: list[dict[str, Signal]]) -> None:
        p = self.port
        address = Signal.like(p["s_axil_araddr"], name="read_address", reset_less=True)
        meant = self._meant(address)
        busy, asked, taken = Signal(name="reading"), Signal(name="read_asked"), Signal(name="read_taken")
        source, shared = Signal(len(cores), name="read_from"), Signal(32, name="shared_data")
        # as in a core, an address is looked at in a register: what was acknowledged just before is no longer seen
        found, looked = Signal(len(SHARED), name="shared_found"), Signal(name="shared_looked")
        m.d.comb += [
            p["s_axil_arready"].eq(~asked & ~busy),
            taken.eq(asked & self._of(meant, cores, "arready", otherwise=1)),
            p["s_axil_rvalid"].eq(busy & self._of(source, cores, "rvalid", otherwise=looked)), p["s_axil_rresp"].eq(0),
            p["s_axil_rdata"].eq(self._of(source, cores, "rdata", otherwise=shared)),
        ]  # fmt: skip
        with m.If(p["s_axil_arready"]):
            m.d.sync += [address.eq(p["s_axil_araddr"]), asked.eq(p["s_axil_arvalid"])]
        for c, core in enumerate(cores):
            m.d.comb += [
                core["s_axil_araddr"].eq(address),
                core["s_axil_arvalid"].eq(asked & meant[c]),
                core["s_axil_rready"].eq(busy & source[c] & p["s_axil_rready"]),
            ]
        values: dict[str, Value] = {
            "CORES": Const(len(cores), 4), "INTERRUPTS": Cat(core["irq"] for core in cores),
            "DOORBELLS": Cat(there.any() for there in self.bells.there),
        }  # fmt: skip
        value: Value = Const(0, 32)
        for k, register in enumerate(SHARED):
            value = value | Mux(found[k], values[register.name], 0)
        m.d.sync += looked.eq(busy)
        with m.If(busy & ~looked):
            m.d.sync += shared.eq(value)
        with m.If(taken):
            m.d.sync += [
                busy.eq(1), source.eq(meant), found.eq(Cat(address == r.offset for r in SHARED)), asked.eq(0),
            ]  # fmt: skip
        with m.Elif(p["s_axil_rvalid"] & p["s_axil_rready"]):
            m.d.sync += [busy.eq(0), looked.eq(0)]

    def _meant(self, address: Signal) -> Value:
        """Bit c: the address is one of core c."""
        return Cat(address[ADDRESS_BITS:] == c for c in range(self.config.cores))

    @staticmethod
    def _of(chosen: Value, cores: list[dict[str, Signal]], name: str, otherwise: int | Signal) -> Value:
        """A port of the core whose bit is set; ``otherwise`` if none is."""
        value: Value = Mux(chosen.any(), 0, otherwise)
        for c, core in enumerate(cores):
            value = value | Mux(chosen[c], core[f"s_axil_{name}"], 0)
        return value
