"""Resources by module, and the limits of the boards' parts. The models' accuracy: ``test_area`` and ``test_models``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.config import PRESETS, Config
from tilewright.dse.resources import excess, limits, port_pair, reported, resources, shared
from tilewright.hw.parts import BOARDS, PARTS
from tilewright.hw.synthesis import count_resources
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.yosys import run_yosys

MAPPING = "synth_xilinx -family xc7 -noiopad -noclkbuf -run prepare:check"


def test_resources_are_told_by_module() -> None:
    found = resources(Config())
    assert found.lut == round(sum(counts.get("lut", 0) for counts in found.modules.values()))
    assert found.modules["array"]["dsp"] == 128
    assert found.modules["wgt"]["bram36"] == 64
    assert found.by("dsp") == {"array": 128, "alu.lane": 64, "load": 1, "store": 1}


@pytest.mark.parametrize("kind,what", [("lut", "LUTs"), ("ff", "flip-flops")])
def test_lut_and_ff_limits_count_too(kind: str, what: str) -> None:
    big = resources(Config().replace(batch=8, dsp_packing=False, axi_bits=64))
    assert big.total(kind) > limits("ultra96")[kind]
    assert set(limits("ultra96")) >= {"lut", "ff", "dsp", "bram36"}
    without = type(big)({m: {k: n for k, n in counts.items() if k == kind} for m, counts in big.modules.items()})
    assert what in str(excess(without, "ultra96"))


def test_several_cores_take_so_many_times_one_and_what_they_share() -> None:
    one, four = resources(Config()), resources(Config().replace(cores=4))
    assert four.modules.pop("cores") == shared(4)
    for name, counts in one.modules.items():
        assert four.modules[name] == {kind: 4 * n for kind, n in counts.items()}
    assert str(excess(resources(Config().replace(cores=2)), "pynq-z2")).startswith("pynq-z2: 388 DSP slices are needed")
    assert reported(PRESETS["tiny"]) is not None
    assert reported(PRESETS["tiny"].replace(cores=2)) is None
    assert reported(PRESETS["tiny"].replace(axi_version=3)) is None, "other bursts, another design"


@pytest.mark.parametrize("cores", [2, 8])
def test_what_cores_share_is_what_yosys_counts(toolchain: None, tmp_path: Path, cores: int) -> None:
    pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
    (tmp_path / "a.v").write_text(design_sources(PRESETS["tiny"].replace(cores=cores))["tilewright.v"])
    script = (
        "read_verilog -lib -specify +/xilinx/cells_sim.v", "read_verilog -lib +/xilinx/cells_xtra.v",
        "read_verilog -sv a.v", "blackbox tilewright_core", "hierarchy -top tilewright",
        "flatten", MAPPING, "tee -q -o stat.json stat -json",
    )  # fmt: skip
    run_yosys("\n".join(script) + "\n", tmp_path)
    cells = json.loads((tmp_path / "stat.json").read_text())["modules"]["\\tilewright"]["num_cells_by_type"]
    found = count_resources({kind: n for kind, n in cells.items() if kind != "tilewright_core"})
    assert found["FF"] == shared(cores)["ff"]
    assert abs(found["LUT"] - shared(cores)["lut"]) <= 20


@pytest.mark.parametrize("name", ["pynq-z2", "zcu104"])
def test_a_pair_of_ports_is_what_yosys_counts(toolchain: None, tmp_path: Path, name: str) -> None:
    pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
    two = PRESETS[name].replace(axi_ports=2)
    (tmp_path / "a.v").write_text(design_sources(two)["tilewright.v"])
    module = r"\tilewright.port_pair"
    script = (
        "read_verilog -lib -specify +/xilinx/cells_sim.v", "read_verilog -lib +/xilinx/cells_xtra.v",
        "read_verilog -sv a.v", f"hierarchy -top {module}", MAPPING,
        "tee -q -o stat.json stat -json",
    )  # fmt: skip
    run_yosys("\n".join(script) + "\n", tmp_path)
    cells = json.loads((tmp_path / "stat.json").read_text())["modules"][module]["num_cells_by_type"]
    found = count_resources(cells)
    one = port_pair(two.axi_bits)
    assert {"lut": found["LUT"], "ff": found["FF"]} == one == resources(two).modules["port_pair"]
    four = resources(two.replace(cores=4)).modules["port_pair"]
    assert four == {kind: 4 * count for kind, count in one.items()}


def test_every_preset_fits_its_board() -> None:
    for config in PRESETS.values():
        if config.board:
            assert excess(resources(config), config.board) is None, config.name
    assert set(BOARDS.values()) == set(PARTS)
