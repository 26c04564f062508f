"""From a Config to an overlay: project, HLS if asked for, Vivado, checks, packaging."""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.config import Config
from tilewright.hw.boards.board import Board, BoardError
from tilewright.hw.boards.overlay import Overlay, package_overlay
from tilewright.hw.boards.project import Source, write_project
from tilewright.hw.boards.reports import check_timing, parse_timing
from tilewright.hw.boards.tools import (
    Say,
    find_vivado,
    hls_command,
    run_tool,
    say,
    version_warning,
    vivado_version,
)


def build_bitstream(
    board: Board, config: Config, source: Source, folder: Path, jobs: int = 2, report: Say = say, ila: bool = False
) -> Overlay:
    """Make the overlay of a config for a board in ``folder``; hours of Vivado's work.

    Raises :class:`BoardError` if a tool is missing or fails, if timing is not met or not reported.
    """
    vivado = find_vivado()  # first: nothing is written where nothing can be built
    hls = hls_command(Path("tcl/hls.tcl")) if source == "hls" else None
    warning = version_warning(vivado_version(vivado))
    if warning is not None:
        report(warning)
    write_project(board, config, source, folder, ila)
    report(f"{folder}: sources of config {config.name} for {board.title}, from {source}")
    if hls is not None:
        run_tool(hls, folder, folder / "hls.log", report)
        run_tool([sys.executable, "-m", "hls.join", "hls"], folder, folder / "join.log", report)
    command = [vivado, "-mode", "batch", "-nojournal", "-log", "vivado.log", "-source", "tcl/build.tcl", "-tclargs"]
    try:
        run_tool([*command, str(jobs)], folder, folder / "build.log", report)
    except BoardError:
        # the script stops at negative slack too; the report names the path, which says more than its message
        timing = folder / "out" / "timing.rpt"
        if timing.exists():
            check_timing(parse_timing(timing), timing, config.clock_mhz)
        raise
    return package_overlay(folder)
