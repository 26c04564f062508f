"""The well-known networks of ``bench/networks``, small: exact on the simulator, and lively enough to say so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the check extra is not installed: pip install 'tilewright[check]'")

from bench import bench_networks, bench_recurrent
from bench.networks import NETWORKS, build

#: share of the multiply-accumulates that must run on the accelerator
SHARES = {"unet": 0.95}
SLOW = {"resnet50", "inception_v1", "shufflenet"}


def check(name: str, config: str) -> None:
    for case in bench_networks.built([name], "small", 0):
        row = bench_networks.measure(*case, config)
        assert row["differing"] == 0
        assert row["lively"], (row["distinct"], row["saturated"])
        assert row["share"] >= SHARES.get(name, 1.0)


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - SLOW))
def test_every_integer_is_that_of_litert(name: str) -> None:
    check(name, "pynq-z2")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_every_integer_of_the_deep_networks_is_that_of_litert(name: str) -> None:
    check(name, "pynq-z2")


@pytest.mark.slow
@pytest.mark.parametrize("config", ["tiny", "zcu104"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_every_integer_is_that_of_litert_on_other_configs(name: str, config: str) -> None:
    check(name, config)


@pytest.mark.parametrize("name", bench_recurrent.CELLS)
def test_recurrent_cells_are_litert_s_in_one_program(name: str) -> None:
    row = bench_recurrent.measure(name, dataclasses.replace(bench_recurrent.CELLS[name], steps=3), 24, ["pynq-z2"])
    assert row["chips"]["pynq-z2"]["bound"] >= 1


def test_a_file_depends_on_its_arguments_alone(tmp_path: Path) -> None:
    files = []
    for number, seed in enumerate((0, 0, 1)):
        build(tmp_path / f"{number}.tflite", "mobilenet_v3", "small", seed)
        files.append((tmp_path / f"{number}.tflite").read_bytes())
    assert files[0] == files[1]
    assert files[0] != files[2]


def test_outputs_that_say_nothing_are_told() -> None:
    values = np.arange(-100, 100, dtype=np.int8)
    assert bench_networks.lively(*bench_networks.liveliness(values, 0), values.size)
    for dull in (np.full(200, 3, np.int8), np.repeat(np.array([-128, 127], np.int8), 100)):
        assert not bench_networks.lively(*bench_networks.liveliness(dull, 0), dull.size)
