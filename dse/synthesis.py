"""The third fidelity: a Config's whole design mapped by Yosys, once; the report is kept in the user's cache.

Minutes of work. A report is known by the Verilog it is about, so that a change of the RTL makes a new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.files import write_atomic
from tilewright.hw.parts import part_of
from tilewright.hw.synthesis import sources_key
from tilewright.hw.timing.whole import whole_report
from tilewright.hw.verilated.build import cache_directory


def report_path(config: Config) -> Path:
    """Where the report of a Config's Verilog on its board's part is kept."""
    return cache_directory() / "whole" / f"{part_of(config.board)}-{sources_key(config)}.json"


def synthesised(config: Config, run: Callable[[Config], dict[str, Any]] = whole_report) -> dict[str, Any]:
    """The synthesis report of a Config (``tilewright.hw.timing.whole``): a kept one, else from Yosys.

    Raises :class:`ToolError` if Yosys is needed and not installed, or fails.
    """
    path = report_path(config)
    try:
        report = json.loads(path.read_text())
        if isinstance(report, dict) and "used" in report:
            return report
    except (OSError, ValueError):
        pass  # none is kept, or a damaged one, which counts as none
    report = run(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(report, indent=1) + "\n")
    return report
