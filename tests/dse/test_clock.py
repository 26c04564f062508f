"""The clock model: its logic delays are those of the kept netlists, and it answers to structure and board."""

from __future__ import annotations

from typing import Any

import pytest

from bench.calibration import load_runs
from tilewright.config import PRESETS, Config
from tilewright.dse.clock import ClockError, estimate, paths
from tilewright.hw.synthesis_report import load_reports

#: which module of a report a path runs through
MODULES = {
    "GEMM stage 7: weights packed, then the multiplier": "gemm.dot",
    "GEMM stage 9: products summed along the DSP column": "gemm.dot",
    "ALU lane: total, shift, clamp": "alu.lane",
    "STORE: extent check": "store",
}


@pytest.mark.parametrize("report", load_reports(), ids=lambda report: report["config"])
def test_logic_delays_are_those_of_the_kept_netlists(report: dict[str, Any]) -> None:
    if report["part"] != "XC7Z020":
        pytest.skip("delays are kept for 7 series")
    config = PRESETS[report["config"]]
    for path in paths(config):
        if path.name in MODULES:
            assert path.logic == pytest.approx(report["modules"][MODULES[path.name]]["ps"] / 1000, rel=0.10)


def test_no_unit_is_deeper_than_the_deepest_path() -> None:
    for report in load_reports():
        if report["part"] == "XC7Z020":
            deepest = max(path.logic for path in paths(PRESETS[report["config"]]))
            assert max(module["ps"] for module in report["modules"].values()) <= 1000 * deepest * 1.1


@pytest.mark.parametrize("part", ["fitted", "held_out"])
def test_the_deepest_logic_of_random_configs_is_within_5_percent(part: str) -> None:
    """The delays were taken from the presets alone."""
    errors = {}
    for name, run in load_runs("xc7")[part].items():
        deepest = max(module["ps"] for module in run["modules"].values())
        model = max(path.logic for path in paths(Config.from_dict(run["config"])))
        errors[name] = 1000 * model / deepest - 1
    assert errors
    assert max(map(abs, errors.values())) <= 0.05, errors


def test_the_range_holds_the_estimate_and_names_a_path() -> None:
    for config in PRESETS.values():
        found = estimate(config)
        assert 0 < found.low < found.mhz < found.high
        assert found.path in {path.name for path in paths(config)}


def test_deep_adder_trees_and_large_arrays_are_slower() -> None:
    wide = Config().replace(block_in=64, block_out=64, axi_bits=64, wgt_bytes=1024 * 1024)
    assert estimate(wide).mhz < estimate(Config()).mhz
    assert "adder tree" in estimate(wide).path


def test_boards_choose_the_family() -> None:
    config = Config()
    assert estimate(config, "pynq-z2") == estimate(config, "xc7")
    assert estimate(config, "ultra96") == estimate(config, "xcup")
    assert estimate(config, "ultra96").mhz > estimate(config, "pynq-z2").mhz
    assert estimate(config, "zcu104").mhz > estimate(config, "ultra96").mhz  # a faster grade
    with pytest.raises(ClockError, match="de10: no delays for it; there are some for xc7, xcup, pynq-z1"):
        estimate(config, "de10")
