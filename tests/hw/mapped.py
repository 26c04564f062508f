"""What Yosys makes of a module for a Xilinx part, as Verilog of its own models of the cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.hw.yosys import run_yosys


def mapped(sources: Mapping[str, str], top: str, folder: Path, **parameters: int) -> str:
    """Sources by file name, mapped as for a report. Raises ToolError if Yosys is missing or fails."""
    for name, text in sources.items():
        (folder / name).write_text(text)
    sets = [f"chparam -set {name} {value} {top}" for name, value in parameters.items()]
    script = [
        f"read_verilog -sv {' '.join(sources)}", *sets, "setattr -unset init */w:*",
        f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}", f"rename -top {top}",
        "write_verilog -noattr netlist.v", "design -reset", "read_verilog netlist.v +/xilinx/cells_sim.v",
        "setattr -mod -unset lib_whitebox", f"hierarchy -top {top}", "proc", "flatten", "opt_clean",
        "write_verilog -noattr mapped.v",
    ]  # fmt: skip
    run_yosys("\n".join(script) + "\n", folder)
    return (folder / "mapped.v").read_text()
