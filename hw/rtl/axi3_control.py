"""The accelerator with an AXI3 control port, as Zynq-7000's M_AXI_GP0 is: no interconnect stands between them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.hw.rtl.axi3_ports import AXI3, LITE, axi3_slave, board_ports
from tilewright.hw.rtl.cores import Cores
from tilewright.hw.rtl.ports import ports
from tilewright.hw.rtl.top import Tilewright

SLVERR = 2


class Axi3Control(Elaboratable):
    """Single beats of AXI3 as AXI4-Lite, a write and a read at a time. An answer has the ID of what it answers.

    Registers are read and written one by one; a burst is taken to its end and answered with SLVERR, and reaches none.
    Write data is not interleaved: only one write is open. ``port`` and ``lite``: signals by name without prefix; the
    slave behind ``lite`` takes address and data of a write in one cycle, as the control unit does.
    """

    def __init__(self, config: Config) -> None:
        self.port = {p.name.removeprefix(f"{AXI3}_"): Signal(p.width, name=p.name) for p in axi3_slave(config)}
        lite = [p for p in ports(config) if p.name.startswith(f"{LITE}_")]
        self.lite = {p.name.removeprefix(f"{LITE}_"): Signal(p.width, name=p.name) for p in lite}

    def elaborate(self, platform: object) -> Module:
        """Writes, then reads; both begin with an address in registers."""
        m = Module()
        p, lite = self.port, self.lite
        address, number = Signal.like(p["awaddr"], reset_less=True), Signal.like(p["awid"], reset_less=True)
        writing, refused, complete = Signal(), Signal(reset_less=True), Signal()  # open; a burst; its data is there
        offered = writing & ~refused & ~complete & p["wvalid"]
        m.d.comb += [
            p["awready"].eq(~writing),
            lite["awvalid"].eq(offered), lite["awaddr"].eq(address),
            lite["wvalid"].eq(offered), lite["wdata"].eq(p["wdata"]), lite["wstrb"].eq(p["wstrb"]),
            p["wready"].eq(writing & ~complete & (refused | lite["wready"])),
            p["bvalid"].eq(complete & (refused | lite["bvalid"])),
            p["bid"].eq(number), p["bresp"].eq(Mux(refused, SLVERR, lite["bresp"])),
            lite["bready"].eq(complete & ~refused & p["bready"]),
        ]  # fmt: skip
        with m.If(p["awvalid"] & p["awready"]):
            m.d.sync += [writing.eq(1), refused.eq(p["awlen"] != 0), address.eq(p["awaddr"]), number.eq(p["awid"])]
        with m.If(p["wvalid"] & p["wready"] & (p["wlast"] | ~refused)):
            m.d.sync += complete.eq(1)
        with m.If(p["bvalid"] & p["bready"]):
            m.d.sync += [writing.eq(0), complete.eq(0)]

        address, number = Signal.like(p["araddr"], reset_less=True), Signal.like(p["arid"], reset_less=True)
        reading, refused, asked = Signal(), Signal(reset_less=True), Signal()
        left = Signal.like(p["arlen"], reset_less=True)
        m.d.comb += [
            p["arready"].eq(~reading),
            lite["arvalid"].eq(reading & ~refused & ~asked), lite["araddr"].eq(address),
            p["rvalid"].eq(reading & (refused | lite["rvalid"])),
            p["rid"].eq(number), p["rdata"].eq(lite["rdata"]), p["rlast"].eq(left == 0),
            p["rresp"].eq(Mux(refused, SLVERR, lite["rresp"])),
            lite["rready"].eq(reading & ~refused & p["rready"]),
        ]  # fmt: skip
        with m.If(p["arvalid"] & p["arready"]):
            m.d.sync += [
                reading.eq(1), asked.eq(0), refused.eq(p["arlen"] != 0), left.eq(p["arlen"]),
                address.eq(p["araddr"]), number.eq(p["arid"]),
            ]  # fmt: skip
        with m.If(lite["arvalid"] & lite["arready"]):
            m.d.sync += asked.eq(1)
        with m.If(p["rvalid"] & p["rready"]):
            m.d.sync += left.eq(left - 1)
            with m.If(p["rlast"]):
                m.d.sync += reading.eq(0)
        return m


class Axi3Top(Elaboratable):
    """The top module for Zynq-7000, of what it is elsewhere. ``port[name]``: as in :func:`board_ports` for AXI3."""

    def __init__(self, config: Config, core: Tilewright | Cores) -> None:
        self.config, self.core = config, core
        self.control = Axi3Control(config)
        own = {f"{AXI3}_{name}": signal for name, signal in self.control.port.items()}
        self.port = {p.name: own[p.name] if p.name in own else self.core.port[p.name] for p in board_ports(config, 3)}

    def elaborate(self, platform: object) -> Module:
        """The accelerator's AXI4-Lite slave behind the converter."""
        m = Module()
        m.submodules.accelerator = self.core
        m.submodules.axi3_control = self.control
        for p in ports(self.config):
            if p.name.startswith(f"{LITE}_"):
                outer, inner = self.control.lite[p.name.removeprefix(f"{LITE}_")], self.core.port[p.name]
                m.d.comb += inner.eq(outer) if p.direction == "in" else outer.eq(inner)
        return m
