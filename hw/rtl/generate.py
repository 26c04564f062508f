"""Verilog of the accelerator for a Config."""

from __future__ import annotations

from amaranth.back import verilog

from tilewright.config import Config
from tilewright.hw.rtl.ports import ports
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.rtl.top import Tilewright

TOP = "tilewright"  #: name of the top module


def generate_verilog(config: Config) -> dict[str, str]:
    """File name -> Verilog text: ``tilewright.v`` with the top module, and the primitives it instantiates."""
    top = Tilewright(config)
    text = verilog.convert(top, name=TOP, ports=[top.port[p.name] for p in ports(config)])
    return {f"{TOP}.v": text, **primitive_sources()}
