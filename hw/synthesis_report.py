"""Kept reports of the presets' whole designs: what they use and their timing, made and shown as a table.

``python -m tilewright.hw.synthesis_report [PRESET ...]`` (``make rtl-report``) writes ``hw/reports/whole/NAME.json``;
one whose Verilog has not changed is left as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tilewright.config import PRESETS, Config
from tilewright.hw.parts import part_of
from tilewright.hw.synthesis import against_limits, sources_key
from tilewright.hw.timing import whole
from tilewright.hw.verilated.toolchain import ToolError

WHOLE = Path(__file__).parent / "reports" / "whole"
#: the command makes the small ones first, so that one that is cut short has most
ORDER = ("tiny", "pynq-z2", "pynq-z1", "vta-64", "vta-256", "ultra96", "kv260", "zcu104")


def load_reports(folder: Path | None = None) -> list[dict[str, Any]]:
    """The kept reports of a folder (default: the project's), in the order of the presets."""
    paths = [(folder or WHOLE) / f"{name}.json" for name in PRESETS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def make_report(config: Config, folder: Path) -> dict[str, Any]:
    """The report of a preset's design: the folder's, if it is about the same Verilog and part, or a new one."""
    key, part = sources_key(config), part_of(config.board)
    same = [report for report in load_reports(folder) if report["verilog"] == key and report["part"] == part]
    own = [report for report in same if report["config"] == config.name]
    if own or not same:
        return own[0] if own else whole.whole_report(config)
    return {**same[0], "config": config.name, "share": against_limits(same[0]["used"], part)}


def main(arguments: list[str]) -> None:
    """Make the reports of the named presets (all if none are named) and print the table of all."""
    for name in arguments:
        if name not in PRESETS:
            raise ToolError(f"{name}: no such preset; the presets are {', '.join(PRESETS)}")
    WHOLE.mkdir(parents=True, exist_ok=True)
    for name in arguments or ORDER:
        print(f"{name}: the whole design", file=sys.stderr, flush=True)
        (WHOLE / f"{name}.json").write_text(whole.to_json(make_report(PRESETS[name], WHOLE)))
    print(whole.table(load_reports()))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ToolError as error:
        sys.exit(f"tilewright: {error}")
