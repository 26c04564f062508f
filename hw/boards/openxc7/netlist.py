"""The mapped netlist of the open flow: made by Yosys, read back and judged before hours of routing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.hw.boards.board import BoardError
from tilewright.hw.boards.openxc7.system import CLOCK, TOP
from tilewright.hw.parts import PARTS
from tilewright.hw.synthesis import KINDS, count_resources
from tilewright.hw.timing.analysis import analyse
from tilewright.hw.timing.netlist import Netlist
from tilewright.hw.timing.whole import MAP, packed_mhz

NETLIST = "design.json"
#: values at power-up stand in the way of removing registers, but the reset's; $scopeinfo cells are none of the part's
SCRIPT = f"""\
read_verilog -sv {{files}}
setattr -unset init */w:*
read_verilog -sv {{top}}.v
{MAP} -family xc7 -flatten -top {{top}}
delete */t:$scopeinfo
write_json {{netlist}}
"""
_CLOCKED = ("FDRE", "FDSE", "FDCE", "FDPE")


@dataclass(frozen=True)
class Mapped:
    """What the flow must know of a netlist: cells by type, and the resources that they take."""

    cells: Mapping[str, int]
    used: Mapping[str, float]


def synthesis_script(files: list[str]) -> str:
    """For Yosys, of the accelerator's files; the top module's is ``system.v`` beside them."""
    return SCRIPT.format(files=" ".join(sorted(files)), top=TOP, netlist=NETLIST)


def check_netlist(path: Path, part: str) -> Mapped:
    """Read a netlist back. Raises :class:`BoardError` saying why it cannot be placed on a part of ``PARTS``."""
    try:
        modules = json.loads(path.read_text())["modules"]
        cells = modules[TOP]["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise BoardError(f"{path}: not a netlist of {TOP}: {error!r}") from error
    kinds = Counter(cell["type"] for cell in cells.values())
    strange = sorted(kind for kind in kinds if not kind[0].isalpha())
    if strange:
        raise BoardError(f"{path}: cells that no part has: {', '.join(strange)}")
    if (kinds["PS7"], kinds["BUFG"]) != (1, 1):
        raise BoardError(f"{path}: {kinds['PS7']} PS7 and {kinds['BUFG']} BUFG, of each one is expected")
    _check_clock(path, modules[TOP])
    limits, used = PARTS[part], count_resources(kinds)
    for name, kind in KINDS.items():
        if used[name] > limits[kind]:
            raise BoardError(f"{path}: {used[name]:g} {name}, the {part} has {limits[kind]}")
    return Mapped(kinds, used)


def _check_clock(path: Path, module: Mapping[str, Any]) -> None:
    if CLOCK not in module["netnames"]:
        raise BoardError(f"{path}: no net {CLOCK}, which the constraints name")
    (net,) = module["netnames"][CLOCK]["bits"]
    buffers = [cell for cell in module["cells"].values() if cell["type"] == "BUFG"]
    if buffers[0]["connections"]["O"] != [net]:
        raise BoardError(f"{path}: {CLOCK} does not come from the BUFG")
    for name, cell in module["cells"].items():
        if cell["type"] in _CLOCKED and cell["connections"]["C"] != [net]:
            raise BoardError(f"{path}: register {name} is not clocked by {CLOCK}")


def netlist_mhz(path: Path) -> float:
    """The clock that the netlist leaves after packing, with long nets; paths from and to the PS are not in it."""
    written = json.loads(path.read_text())
    module = written["modules"][TOP]
    inside = {name: cell for name, cell in module["cells"].items() if cell["type"] not in ("PS7", "BUFG")}
    timing = analyse(Netlist({"modules": {TOP: {**module, "cells": inside}}}, str(path)), "xc7")
    return packed_mhz(max(timing.ns.values()))
