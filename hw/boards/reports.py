"""Vivado's timing and utilisation reports, as written by ``report_timing_summary`` and ``report_utilization``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tilewright.hw.boards.board import BoardError

#: the summary's columns of slack, and what each is about
SLACKS = {"WNS(ns)": "setup", "WHS(ns)": "hold", "WPWS(ns)": "pulse width"}
#: rows of the utilisation report (7 series, UltraScale+) under the names that the project uses
RESOURCES = {
    "Slice LUTs": "LUT", "CLB LUTs": "LUT", "Slice Registers": "FF", "CLB Registers": "FF",
    "Block RAM Tile": "BRAM", "DSPs": "DSP", "URAM": "URAM",
}  # fmt: skip

_NO_CLOCK = re.compile(r"^\s*\d*\.?\s*checking (no_clock|unconstrained_internal_endpoints) \((\d+)\)", re.M)


@dataclass(frozen=True)
class Timing:
    """Worst slacks of a routed design in ns. ``worst_path``: (slack, source, destination) if one is violated."""

    setup: float
    hold: float
    pulse_width: float
    worst_path: tuple[float, str, str] | None

    @property
    def worst(self) -> float:
        """The least of all slacks."""
        return min(self.setup, self.hold, self.pulse_width)


def read_report(path: Path, what: str) -> str:
    """The text of a report. Raises :class:`BoardError` if there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise BoardError(
            f"{path}: {what} is missing ({error.strerror}): without it no bitstream is accepted"
        ) from error


def parse_timing(path: Path) -> Timing:
    """Slacks of a timing summary.

    Raises :class:`BoardError` if the file is missing, holds no summary, or leaves registers without a clock:
    a design that is not constrained meets every constraint.
    """
    text = read_report(path, "the timing report")
    lines = text.splitlines()
    values: dict[str, float] = {}
    for number, line in enumerate(lines):
        # the first such line is that of the whole design; the tables per clock follow, each with a clock's name
        if line.split()[:1] == ["WNS(ns)"]:
            columns = re.split(r"\s{2,}", line.strip())
            row = lines[number + 2].split() if number + 2 < len(lines) else []
            values = _slacks(dict(zip(columns, row)))
            break
    missing = [name for name in SLACKS if name not in values]
    if missing:
        raise BoardError(f"{path}: holds no slack {', '.join(missing)}: not a timing summary of a constrained design")
    for check, count in _NO_CLOCK.findall(text):
        if int(count):
            raise BoardError(f"{path}: {count} pins fail the check {check}: part of the design is not timed")
    setup, hold, pulse_width = (values[name] for name in SLACKS)
    return Timing(setup, hold, pulse_width, _worst_path(lines))


def _worst_path(lines: list[str]) -> tuple[float, str, str] | None:
    """The violated path of least slack: its slack, source and destination stand in lines of their own."""
    paths: list[tuple[float, dict[str, str]]] = []
    for line in lines:
        if match := re.match(r"Slack \((\w+)\) :\s+(-?[\d.]+)ns", line):
            paths.append((float(match.group(2)), {}))
        elif paths and (match := re.match(r"\s+(Source|Destination):\s+(\S+)", line)):
            paths[-1][1].setdefault(match.group(1), match.group(2))
    violated = [(slack, ends) for slack, ends in paths if slack < 0 and len(ends) == 2]
    if not violated:
        return None
    slack, ends = min(violated, key=lambda path: path[0])
    return slack, ends["Source"], ends["Destination"]


def _slacks(row: dict[str, str]) -> dict[str, float]:
    found = {}
    for name in SLACKS:
        try:
            found[name] = float(row[name])
        except (KeyError, ValueError):
            continue  # "NA": nothing of the kind is constrained
    return found


def check_timing(timing: Timing, path: Path, clock_mhz: float) -> None:
    """Raises :class:`BoardError` with the worst path if a slack is negative."""
    if timing.worst >= 0:
        return
    slacks = (timing.setup, timing.hold, timing.pulse_width)
    kind = next(what for what, value in zip(SLACKS.values(), slacks) if value == timing.worst)
    where = ""
    if timing.worst_path is not None:
        where = f", worst path from {timing.worst_path[1]} to {timing.worst_path[2]}"
    way_out = "lower clock_mhz in the config" if kind == "setup" else "look at the report"
    raise BoardError(
        f"timing is not met at {clock_mhz:g} MHz: {kind} slack {timing.worst:.3f} ns{where}; "
        f"no overlay is made; {way_out} ({path})"
    )


def parse_utilisation(path: Path) -> dict[str, dict[str, float]]:
    """``{"LUT": {"used": .., "available": ..}, ...}``; BRAM counts tiles of 36 Kbit.

    Raises :class:`BoardError` if the file is missing or LUT, FF, BRAM or DSP are not in it.
    """
    text = read_report(path, "the utilisation report")
    found: dict[str, dict[str, float]] = {}
    columns: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "Site Type":
            columns = cells
            continue
        name = RESOURCES.get(cells[0].rstrip("*"))  # an asterisk refers to a footnote
        if name is None or name in found or len(cells) != len(columns):
            continue
        row = dict(zip(columns, cells))
        found[name] = {"used": float(row["Used"]), "available": float(row["Available"])}
    missing = [name for name in ("LUT", "FF", "BRAM", "DSP") if name not in found]
    if missing:
        raise BoardError(f"{path}: holds no line for {', '.join(missing)}: not a utilisation report")
    return found
