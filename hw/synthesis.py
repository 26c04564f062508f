"""Cells of a mapped design counted as a part's resources, and what every report of a design begins with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tilewright.config import Config
from tilewright.hw.parts import PARTS
from tilewright.hw.verilated.design import unreferenced_sources
from tilewright.hw.yosys import yosys_version

#: resources as reports call them, and as :mod:`tilewright.hw.parts` does
KINDS = {"LUT": "lut", "FF": "ff", "DSP": "dsp", "BRAM": "bram36"}


def count_resources(cells: Mapping[str, int]) -> dict[str, float]:
    """LUT, FF, DSP and BRAM (36 Kbit blocks) of a netlist's cells by type.

    LUT counts logic and LUT RAM; a RAM cell takes the LUTs that its name states.
    """
    lut_ram = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8, "RAM32M": 4, "RAM64M": 4,
               "RAM32M16": 8, "RAM64M8": 8, "RAM32X1S": 1, "RAM64X1S": 1, "RAM512X1S": 8, "SRL16E": 1,
               "SRLC16E": 1, "SRLC32E": 1}  # fmt: skip
    totals = {"LUT": 0.0, "FF": 0.0, "DSP": 0.0, "BRAM": 0.0}
    for kind, count in cells.items():
        if kind.startswith("LUT") and kind[3:4].isdigit():
            totals["LUT"] += count
        elif kind in lut_ram:
            totals["LUT"] += count * lut_ram[kind]
        elif kind in ("FDRE", "FDSE", "FDCE", "FDPE"):
            totals["FF"] += count
        elif kind.startswith("DSP48"):
            totals["DSP"] += count
        elif kind.startswith("RAMB36"):
            totals["BRAM"] += count
        elif kind.startswith("RAMB18"):
            totals["BRAM"] += count / 2
    return totals


def against_limits(used: Mapping[str, float], part: str) -> dict[str, float]:
    """Share of a part's resources that is used, 1.0 being all."""
    return {name: round(used[name] / PARTS[part][kind], 4) for name, kind in KINDS.items()}


def report_head(config: Config, part: str, seconds: float, used: dict[str, float]) -> dict[str, Any]:
    """What every report of a mapped design begins with: what it is about, and the resources ``used``."""
    return {
        "config": config.name,
        "fingerprint": config.fingerprint,
        "verilog": sources_key(config),
        "part": part,
        "tool": f"Yosys {yosys_version()}",
        "seconds": seconds,
        "used": used,
        "share": against_limits(used, part),
    }


def sources_key(config: Config) -> str:
    """16 hex digits over the Verilog that a report is about, wherever its lines come from in the generator."""
    return hashlib.sha256(json.dumps(unreferenced_sources(config), sort_keys=True).encode()).hexdigest()[:16]
