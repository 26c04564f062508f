"""Vivado's reports: slacks and use of resources read, what is not acceptable refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.hw.boards.board import BoardError
from tilewright.hw.boards.reports import check_timing, parse_timing, parse_utilisation

COLUMNS = ["WNS(ns)", "TNS(ns)", "TNS Failing Endpoints", "TNS Total Endpoints", "WHS(ns)", "THS(ns)",
           "THS Failing Endpoints", "THS Total Endpoints", "WPWS(ns)", "TPWS(ns)", "TPWS Failing Endpoints",
           "TPWS Total Endpoints"]  # fmt: skip


def timing_report(path: Path, setup: str, hold: str, width: str, more: str = "") -> Path:
    """The summary as Vivado writes it: two blanks at least between columns, the table per clock below."""
    row = [setup, "0.000", "0", "420", hold, "0.000", "0", "420", width, "0.000", "0", "245"]
    rule = "  ".join("-" * len(column) for column in COLUMNS)
    path.write_text(
        "| Design Timing Summary\n| ---------------------\n\n"
        f"    {'  '.join(COLUMNS)}  \n    {rule}  \n"
        f"    {'  '.join(value.rjust(len(column)) for value, column in zip(row, COLUMNS))}  \n\n\n"
        f"Clock   {'  '.join(COLUMNS)}\n-----   {rule}\nclk   -9.9 0 0 0\n{more}"
    )
    return path


VIOLATED = """
Slack (VIOLATED) :        -0.100ns  (required time - arrival time)
  Source:                 a/reg[0]/C
                            (rising edge-triggered cell FDRE clocked by clk)
  Destination:            b/reg[1]/D

Slack (VIOLATED) :        -1.250ns  (required time - arrival time)
  Source:                 c/reg/C
  Destination:            d/reg/D

Slack (MET) :             0.500ns  (required time - arrival time)
  Source:                 e/reg/C
  Destination:            f/reg/D
"""


def test_slacks_are_read(tmp_path: Path) -> None:
    path = timing_report(tmp_path / "timing.rpt", "2.587", "0.069", "2.225", VIOLATED)
    timing = parse_timing(path)
    assert (timing.setup, timing.hold, timing.pulse_width, timing.worst) == (2.587, 0.069, 2.225, 0.069)
    assert timing.worst_path == (-1.25, "c/reg/C", "d/reg/D")
    check_timing(timing, path, 100)


@pytest.mark.parametrize(
    ("slacks", "message"),
    [
        (("-0.001", "0.1", "1.0"), "at 100 MHz: setup slack -0.001 ns, worst path from c/reg/C to d/reg/D"),
        (("0.5", "-0.020", "1.0"), "hold slack -0.020 ns"),
        (("0.5", "0.1", "-0.2"), "pulse width slack -0.200 ns"),
    ],
)
def test_negative_slack_is_refused(tmp_path: Path, slacks: tuple[str, str, str], message: str) -> None:
    path = timing_report(tmp_path / "timing.rpt", *slacks, VIOLATED)
    with pytest.raises(BoardError, match=message):
        check_timing(parse_timing(path), path, 100)


@pytest.mark.parametrize(
    ("slacks", "more", "message"),
    [
        (("NA", "NA", "NA"), "", r"holds no slack WNS\(ns\)"),
        (("1.0", "NA", "1.0"), "", r"holds no slack WHS\(ns\)"),
        (("1.0", "0.1", "1.0"), "1. checking no_clock (12)\n", "12 pins fail the check no_clock"),
        (("1.0", "0.1", "1.0"), "4. checking unconstrained_internal_endpoints (3)\n", "3 pins fail the check unc"),
    ],
)
def test_a_design_that_is_not_timed_is_refused(
    tmp_path: Path, slacks: tuple[str, str, str], more: str, message: str
) -> None:
    with pytest.raises(BoardError, match=message):
        parse_timing(timing_report(tmp_path / "timing.rpt", *slacks, more))


def test_reports_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="timing report is missing"):
        parse_timing(tmp_path / "timing.rpt")
    path = tmp_path / "utilization.rpt"
    with pytest.raises(BoardError, match="utilisation report is missing"):
        parse_utilisation(path)
    path.write_text("| Slice LUTs | 1 |\n")
    with pytest.raises(BoardError, match="no line for LUT, FF, BRAM, DSP"):
        parse_utilisation(path)


@pytest.mark.parametrize("prohibited", [True, False])  # the column has come with 2021.1
def test_utilisation_is_read_by_column(tmp_path: Path, prohibited: bool) -> None:
    extra = [" Prohibited "] if prohibited else []
    zero = [" 0 "] if prohibited else []
    lines = []
    for name, used, available in (("CLB LUTs*", "333", "70560"), ("CLB Registers", "427", "141120"),
                                  ("Block RAM Tile", "2.5", "216"), ("DSPs", "12", "360")):  # fmt: skip
        lines += ["|".join(["", " Site Type ", " Used ", " Fixed ", *extra, " Available ", " Util% ", ""]),
                  "|".join(["", f" {name} ", f" {used} ", " 0 ", *zero, f" {available} ", " 0.10 ", ""])]  # fmt: skip
    path = tmp_path / "utilization.rpt"
    path.write_text("\n".join(lines))
    found = parse_utilisation(path)
    assert found["LUT"] == {"used": 333, "available": 70560}
    assert (found["BRAM"]["used"], found["DSP"]["available"]) == (2.5, 360)
