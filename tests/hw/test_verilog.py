"""``tilewright hw verilog``: what it writes, and that Verilator finds nothing to complain about."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tilewright.cli.app import main
from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.verilog import WAIVERS, describe, lint, write_verilog

CONFIGS = {
    "tiny": PRESETS["tiny"],
    "wide": PRESETS["tiny"].replace(block_out=16, batch=2, weight_bits=4, axi_bits=64, axi_version=3, dsp_packing=True),
}


def _header(text: str) -> set[str]:
    """The port names of the top module."""
    header = re.search(r"^module tilewright\(([^)]*)\)", text, re.MULTILINE)
    assert header is not None
    return set(header.group(1).replace(",", " ").split())


@pytest.mark.parametrize("name", CONFIGS)
def test_the_verilog_is_clean_under_wall(toolchain: None, name: str, tmp_path: Path) -> None:
    write_verilog(CONFIGS[name], tmp_path)
    assert lint(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if name not in CONFIGS])
def test_the_verilog_of_every_preset_is_clean(toolchain: None, name: str, tmp_path: Path) -> None:
    write_verilog(PRESETS[name], tmp_path)
    assert lint(tmp_path) == []


def test_lint_reports_what_no_waiver_covers(toolchain: None, tmp_path: Path) -> None:
    write_verilog(PRESETS["tiny"], tmp_path)
    path = tmp_path / "tw_ram.v"
    path.write_text(path.read_text().replace("    integer i;", "    integer i;\n    wire spare;"))
    assert any("tw_ram.v" in line and "UNUSEDSIGNAL" in line for line in lint(tmp_path))


def test_every_waiver_has_a_reason_and_names_a_file() -> None:
    lines = WAIVERS.read_text().splitlines()
    waivers = [number for number, line in enumerate(lines) if line.startswith("lint_off")]
    assert waivers
    for number in waivers:
        assert "-file" in lines[number]
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
    assert declared == _header(text)


@pytest.mark.parametrize("version, length, lock", [(3, 4, 2), (4, 8, 1)])
def test_the_memory_port_is_that_of_the_axi_version(version: int, length: int, lock: int) -> None:
    config = PRESETS["tiny"].replace(axi_version=version)
    described = describe(config)
    width = {port["name"]: port["width"] for port in described["ports"]}
    assert [width[f"m_axi_{c}len"] for c in ("ar", "aw")] == [length] * 2
    assert [width[f"m_axi_{c}lock"] for c in ("ar", "aw")] == [lock] * 2
    assert ("m_axi_wid" in width) == (version == 3)
    assert ("m_axi_arqos" in width) == ("m_axi_awqos" in width) == (version == 4)
    text = design_sources(config)["tilewright.v"]
    assert _header(text) == set(width)
    assert f"output [{length - 1}:0] m_axi_awlen;" in text
    assert described["fingerprint"] == PRESETS["tiny"].fingerprint  # a program runs on both


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


def test_several_cores_are_so_many_of_the_one(toolchain: None, tmp_path: Path) -> None:
    one, three = PRESETS["tiny"], PRESETS["tiny"].replace(cores=3)
    assert main(["hw", "verilog", "--config", "tiny", "-o", str(tmp_path / "one")]) == 0
    write_verilog(three, tmp_path / "three")
    assert lint(tmp_path / "three") == []
    text = (tmp_path / "three" / "tilewright.v").read_text()
    described = json.loads((tmp_path / "three" / "tilewright.json").read_text())
    assert _header(text) == {port["name"] for port in described["ports"]}
    width = {port["name"]: port["width"] for port in described["ports"]}
    assert [width["s_axil_awaddr"], width["s_axil_araddr"]] == [16, 16]
    assert {name for name in width if name.endswith("_araddr")} == {
        "s_axil_araddr", *(f"m_axi_{core}_araddr" for core in range(3)),
    }  # fmt: skip
    assert described["fingerprint"] == one.fingerprint  # a program runs on any of them
    assert len(described["memories"]) == 3 * len(describe(one)["memories"])
    # a core has the parts of one alone, but for its name; between cores are doorbells, of which one alone has none
    core, alone = text[text.index("module tilewright_core(") :], design_sources(one)["tilewright.v"]
    assert _modules(core.replace("tilewright_core", "tilewright")) == _modules(alone)
    assert ".doorbells" in text
    assert "bell_" in core
    assert "bell_" not in alone


def test_two_memory_ports_are_numbered_through_all_cores(toolchain: None, tmp_path: Path) -> None:
    one = PRESETS["tiny"].replace(axi_ports=2, block_in=8, block_out=8)
    for config, count in ((one, 2), (one.replace(cores=2), 4)):
        folder = tmp_path / str(count)
        write_verilog(config, folder)
        assert lint(folder) == []
        described = json.loads((folder / "tilewright.json").read_text())
        assert _header((folder / "tilewright.v").read_text()) == {port["name"] for port in described["ports"]}
        width = {port["name"]: port["width"] for port in described["ports"]}
        assert {name: bits for name, bits in width.items() if name.endswith("_rdata") and name != "s_axil_rdata"} == {
            f"m_axi_{k}_rdata": 32 for k in range(count)
        }


def _modules(text: str) -> list[str]:
    """Names of modules, without the numbers that make them unique."""
    return sorted(re.sub(r"\$\d+", "", name) for name in re.findall(r"^module (\S+)", text, re.M))
