"""Synthesis reports: how cells are counted, and that the kept reports fit their boards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.config import PRESETS
from tilewright.hw import synthesis
from tilewright.hw.verilated.toolchain import ToolError

ROOT = Path(__file__).resolve().parent.parent.parent
SPARE = 0.10  #: share of LUT, DSP and BRAM that the default must leave free


def test_cells_are_counted_by_resource() -> None:
    cells = {"LUT2": 3, "LUT6": 4, "RAM64M": 2, "FDRE": 5, "FDSE": 1, "DSP48E1": 7, "RAMB36E1": 2, "RAMB18E1": 3,
             "CARRY4": 9, "MUXF7": 1}  # fmt: skip
    assert synthesis.count_resources(cells) == {"LUT": 15, "FF": 6, "DSP": 7, "BRAM": 3.5}


def test_limits_are_shares_of_the_part() -> None:
    used = {"LUT": 53200.0, "FF": 0.0, "DSP": 110.0, "BRAM": 280.0}
    assert synthesis.against_limits(used, "XC7Z020") == {"LUT": 1.0, "FF": 0.0, "DSP": 0.5, "BRAM": 2.0}


def test_every_board_has_a_part() -> None:
    assert {c.board for c in PRESETS.values()} - {""} == set(synthesis.BOARD_PARTS)
    assert set(synthesis.BOARD_PARTS.values()) <= set(synthesis.PARTS)


def test_kept_reports_are_of_the_presets_and_fit() -> None:
    reports = synthesis.load_reports()
    assert "pynq-z2" in {report["config"] for report in reports}
    for report in reports:
        config = PRESETS[report["config"]]
        assert report["fingerprint"] == config.fingerprint, "the preset has changed: make rtl-report"
        assert report["used"] == synthesis.count_resources(report["cells"])
        assert report["share"] == synthesis.against_limits(report["used"], report["part"])
        assert max(report["share"].values()) <= 1.0
        if report["config"] == "pynq-z2":
            assert all(report["share"][name] <= 1 - SPARE for name in ("LUT", "DSP", "BRAM"))


def test_the_page_shows_the_kept_reports() -> None:
    assert synthesis.table(synthesis.load_reports()) in (ROOT / "docs" / "hardware.md").read_text()


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(ToolError, match="no-such: no such preset"):
        synthesis.main(["no-such"])


def test_a_failing_tool_is_told_in_one_line(tmp_path: Path) -> None:
    tool = tmp_path / "yosys"
    tool.write_text("#!/bin/sh\necho working\necho 'ERROR: no module'\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(ToolError, match=r"yosys failed \(exit code 1\): ERROR: no module"):
        synthesis._run([str(tool)], tmp_path)
