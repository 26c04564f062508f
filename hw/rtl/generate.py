"""Verilog of the accelerator for a Config."""

from __future__ import annotations

from amaranth.back import verilog
from amaranth.hdl._ir import PortDirection

from tilewright.config import Config
from tilewright.hw.rtl.ports import ports
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.rtl.top import Tilewright

TOP = "tilewright"  #: name of the top module


def generate_verilog(config: Config, events: bool = True) -> dict[str, str]:
    """File name -> Verilog text: ``tilewright.v`` with the top module, and the primitives it instantiates.

    ``events``: with the outputs for simulation, which a board has no use for.
    """
    top = Tilewright(config)
    # directions are stated: a constant output that nothing drives would become an input
    directions = {"in": PortDirection.Input, "out": PortDirection.Output}
    declared = {p.name: (top.port[p.name], directions[p.direction]) for p in ports(config) if events or not p.is_event}
    text = verilog.convert(top, name=TOP, ports=declared)
    return {f"{TOP}.v": text, **primitive_sources()}
