"""What Yosys makes of a module for a Xilinx part, as Verilog of its own models of the cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilewright.hw.timing.whole import MAP
from tilewright.hw.yosys import run_yosys

HERE = Path(__file__).parent
#: of block RAMs: what they and their outputs hold at first, here unknown
_UNKNOWN = re.compile(r"^ +\.(INITP?_[0-9A-F]{2}\(256'hx+|(INIT|SRVAL)_[AB]\(72'[hb][0x]+)\),\n", re.MULTILINE)


def netlist(sources: Mapping[str, str], top: str, folder: Path, **parameters: int) -> str:
    """Sources by file name, mapped as for a report, as cells. Raises ToolError if Yosys is missing or fails."""
    for name, text in sources.items():
        (folder / name).write_text(text)
    sets = [f"chparam -set {name} {value} {top}" for name, value in parameters.items()]
    script = [
        f"read_verilog -sv {' '.join(sources)}", *sets, "setattr -unset init */w:*",
        f"{MAP} -family xc7 -flatten -top {top}", f"rename -top {top}", "delete t:$scopeinfo",
        "write_verilog -noattr netlist.v",
    ]  # fmt: skip
    run_yosys("\n".join(script) + "\n", folder)
    return (folder / "netlist.v").read_text()


def mapped(sources: Mapping[str, str], top: str, folder: Path, **parameters: int) -> str:
    """As :func:`netlist`, in the models of its cells: for a module without block RAMs."""
    return gates(netlist(sources, top, folder, **parameters), top, folder)["gates.v"]


def gates(cells: str, top: str, folder: Path) -> dict[str, str]:
    """Verilog of a netlist by file name: Yosys' models of its cells, and this project's of block RAMs.

    No register has an initial value, whatever the netlist says: Verilator starts them at random. Inputs that the
    netlist leaves open are 0, as FPGA tools have them.
    """
    (folder / "cells.v").write_text(cells)
    script = [
        "read_verilog cells.v +/xilinx/cells_sim.v", "setattr -mod -unset lib_whitebox", "blackbox RAMB18E1 RAMB36E1",
        f"hierarchy -top {top}", "proc", "flatten", "setattr -unset init w:*",
        "setundef -undriven -zero", "opt_clean -purge", "write_verilog -noattr gates.v",
    ]  # fmt: skip
    run_yosys("\n".join(script) + "\n", folder)
    text = _UNKNOWN.sub("", (folder / "gates.v").read_text())
    return {"gates.v": text, "block_ram.v": (HERE / "block_ram.v").read_text()}
