"""Verilog of the accelerator for a Config."""

from __future__ import annotations

from amaranth.back import verilog
from amaranth.hdl._ir import PortDirection

from tilewright.config import Config
from tilewright.hw.rtl.axi3_control import Axi3Top
from tilewright.hw.rtl.axi3_ports import board_ports
from tilewright.hw.rtl.cores import CORE, Cores
from tilewright.hw.rtl.ports import Port, core_ports, ports
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.rtl.top import Tilewright

TOP = "tilewright"  #: name of the top module


def generate_verilog(config: Config, events: bool = True, control_axi: int = 4) -> dict[str, str]:
    """File name -> Verilog text: ``tilewright.v`` with the top module, and the primitives it instantiates.

    ``events``: with the outputs for simulation, which a board has no use for. ``control_axi``: 3 for an AXI3 control
    port instead of an AXI4-Lite one, then always without events.
    """
    one, axi3 = config.cores == 1, control_axi == 3
    events = events and not axi3
    outer = board_ports(config, 3) if axi3 else ports(config)
    whole: Tilewright | Cores = Tilewright(config) if one else Cores(config, events)
    text = _convert(Axi3Top(config, whole) if axi3 else whole, TOP, outer, events)
    if not one:
        text += _convert(Tilewright(config), CORE, core_ports(config), events)
    return {f"{TOP}.v": text, **primitive_sources()}


def _convert(module: Tilewright | Cores | Axi3Top, name: str, its_ports: list[Port], events: bool) -> str:
    # directions are stated: a constant output that nothing drives would become an input
    directions = {"in": PortDirection.Input, "out": PortDirection.Output}
    declared = {p.name: (module.port[p.name], directions[p.direction]) for p in its_ports if events or not p.is_event}
    return str(verilog.convert(module, name=name, ports=declared))
