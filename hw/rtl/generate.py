"""Verilog of the accelerator for a Config."""

from __future__ import annotations

from amaranth.back import verilog
from amaranth.hdl._ir import PortDirection

from tilewright.config import Config
from tilewright.hw.rtl.cores import CORE, Cores
from tilewright.hw.rtl.ports import Port, core_ports, ports
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.rtl.top import Tilewright

TOP = "tilewright"  #: name of the top module


def generate_verilog(config: Config, events: bool = True) -> dict[str, str]:
    """File name -> Verilog text: ``tilewright.v`` with the top module, and the primitives it instantiates.

    ``events``: with the outputs for simulation, which a board has no use for.
    """
    one = config.cores == 1
    text = _convert(Tilewright(config), TOP if one else CORE, core_ports(config), events)
    if not one:
        text = _convert(Cores(config, events), TOP, ports(config), events) + text
    return {f"{TOP}.v": text, **primitive_sources()}


def _convert(module: Tilewright | Cores, name: str, its_ports: list[Port], events: bool) -> str:
    # directions are stated: a constant output that nothing drives would become an input
    directions = {"in": PortDirection.Input, "out": PortDirection.Output}
    declared = {p.name: (module.port[p.name], directions[p.direction]) for p in its_ports if events or not p.is_event}
    return str(verilog.convert(module, name=name, ports=declared))
