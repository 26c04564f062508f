"""``tilewright hw verilog``: what it writes, and that Verilator finds nothing to complain about."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tilewright.cli import main
from tilewright.config import PRESETS, Config
from tilewright.hw.verilog import WAIVERS, describe, lint, write_verilog

CONFIGS = {
    "tiny": PRESETS["tiny"],
    "wide": PRESETS["tiny"].replace(block_out=16, batch=2, weight_bits=4, axi_bits=64, dsp_packing=True),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_verilog_is_clean_under_wall(toolchain: None, name: str, tmp_path: Path) -> None:
    write_verilog(CONFIGS[name], tmp_path)
    assert lint(tmp_path) == []


def test_lint_reports_what_no_waiver_covers(toolchain: None, tmp_path: Path) -> None:
    write_verilog(PRESETS["tiny"], tmp_path)
    path = tmp_path / "tw_ram.v"
    path.write_text(path.read_text().replace("    integer i;", "    integer i;\n    wire spare;"))
    assert any("tw_ram.v" in line and "UNUSEDSIGNAL" in line for line in lint(tmp_path))


def test_every_waiver_has_a_reason_and_names_a_file() -> None:
    lines = WAIVERS.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("lint_off"):
            assert "-file" in line
            before = next(text for text in reversed(lines[:number]) if not text.startswith("lint_off"))
            assert before.startswith("//")


def test_the_command_writes_verilog_and_its_description(toolchain: None, tmp_path: Path) -> None:
    assert main(["hw", "verilog", "--config", "tiny", "-o", str(tmp_path / "rtl"), "--lint"]) == 0
    text = (tmp_path / "rtl" / "tilewright.v").read_text()
    assert 'src = "hw/rtl/top.py:' in text
    assert not re.search(r'src = "/', text)  # no path of the machine that generated it
    described = json.loads((tmp_path / "rtl" / "tilewright.json").read_text())
    assert described["fingerprint"] == PRESETS["tiny"].fingerprint
    declared = {port["name"] for port in described["ports"]}
    header = re.search(r"^module tilewright\(([^)]*)\)", text, re.MULTILINE)
    assert header is not None
    assert declared == set(header.group(1).replace("\n", "").replace(" ", "").split(","))


def test_an_unknown_config_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["hw", "verilog", "--config", "no-such", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_the_memories_hold_what_the_config_says(toolchain: None, name: str) -> None:
    config: Config = CONFIGS[name]
    memories = describe(config)["memories"]
    for part, size in (("act", config.act_bytes), ("wgt", config.wgt_bytes), ("acc", config.acc_bytes)):
        bits = sum(m["bits"] for m in memories if f".{part}." in m["path"] and m["style"] == "block")
        assert bits == 8 * size, part
    micro_ops = sum(m["bits"] for m in memories if ".uop" in m["path"])
    assert micro_ops == 8 * (config.uop_gemm_bytes + config.uop_alu_bytes)
