"""Placements in which cores add up each other's sums: found where they win, settled on the simulator, exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from bench.bench_reduction_split import layer, layer_cycles
from tests.jit.place.test_splits import Slow
from tests.jit.tflite_models import SAME, TfliteBuilder, litert
from tilewright.cli.app import main
from tilewright.config import PRESETS
from tilewright.jit.place import placed as placed_module
from tilewright.jit.place import splits as splits_module
from tilewright.jit.place.execute import compile_placed, simulate_latency
from tilewright.jit.place.placed import exchanges, place_source
from tilewright.jit.place.settle import settle
from tilewright.jit.place.solve import best_latency
from tilewright.jit.source import open_source
from tilewright.jit.split.pieces import AXES
from tilewright.runtime.steps import LaunchStep

ZCU104 = PRESETS["zcu104"].replace(cores=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bottlenecks of 7x7 pixels: 3x3 convolutions to one block of channels, and 1x1 ones back to many."""
    b = TfliteBuilder(3)
    x = first = b.tensor([1, 7, 7, 512], 0.05, 3)
    for channels, kernel in ((32, 3), (512, 1), (32, 3)):
        weights, scales = b.weights([channels, kernel, kernel, b.tensors[x]["shape"][3]], 0)
        bias = b.bias(x, scales, channels)
        y = b.tensor([1, 7, 7, channels], 0.9, -4)
        fields = {"StrideH": 1, "StrideW": 1, "Padding": SAME, "DilationHFactor": 1, "DilationWFactor": 1}
        x = b.op("CONV_2D", [x, weights, bias], y, "Conv2DOptions", **fields)
    return b.save(tmp_path_factory.mktemp("reduction") / "bottlenecks.tflite", [first], [x])


def test_settled_with_sums_it_is_faster_than_without(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(model)
    found, made = settle(source, place_source(source, ZCU104, "latency", Slow()), shares=True)
    assert [part.way for part in found.best.parts].count("inputs") == 2
    assert len([step for step in made.compiled.steps if isinstance(step, LaunchStep)]) == 1
    monkeypatch.setattr(splits_module, "WAYS", AXES)
    without, _ = settle(source, place_source(source, ZCU104, "latency", Slow()), shares=True)
    assert "inputs" not in [part.way for part in without.best.parts]
    assert found.best.cost < 0.9 * without.best.cost


def test_its_estimate_is_near_with_the_host_between_rounds_too(model: Path) -> None:
    source = open_source(model)
    placed = place_source(source, ZCU104, "latency", Slow())
    with exchanges(placed.costs, reduces=True):
        solution = best_latency(placed.costs.problem)
    made = compile_placed(source, placed, solution)
    assert len([s for s in made.compiled.steps if isinstance(s, LaunchStep)]) == len(solution.parts) + 2
    predicted = sum(placed.costs.part_time(part) or 0 for part in solution.parts)
    assert predicted == pytest.approx(simulate_latency(placed, solution, made.compiled.programs), rel=0.05)


def test_placements_that_the_host_carries_between_have_none(model: Path) -> None:
    placed = place_source(open_source(model), ZCU104, "latency", Slow())
    assert "inputs" not in [part.way for part in placed.best.parts]
    assert placed.exchanging is not None
    assert "inputs" in [part.way for part in placed.exchanging.parts]
    alone = place_source(open_source(model), ZCU104.replace(cores=1), "latency", Slow())
    assert alone.exchanging is None


def test_compile_chooses_it_and_the_integers_stay(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    x = np.random.default_rng(0).integers(-128, 128, (2, 7, 7, 512)).astype(np.int8)
    found = tw.compile(model, ZCU104, objective="latency", cache=False)
    names = [layer["name"] for program in found.artifact.programs for layer in program.meta["layers"]]
    assert any("sums 4 of 4" in name for name in names)
    y, _ = found.run(x)
    np.testing.assert_array_equal(y, np.concatenate([litert(model, [image[None]])[0] for image in x]))


def test_inspect_says_whose_sums_are_added_up(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    config = tmp_path / "four.toml"
    config.write_text(ZCU104.to_toml())
    assert main(["inspect", str(model), "--placement", "--objective", "latency", "--config", str(config)]) == 0
    assert "4 cores by input channels, whose sums they exchange and add up: " in capsys.readouterr().out


def test_the_bench_measures_layers_by_their_shape() -> None:
    config = PRESETS["tiny"].replace(cores=2)
    cycles = {way: layer_cycles(layer("1x2048->4x1"), config, way) for way in ("rows", "channels", "inputs")}
    assert cycles["inputs"] < cycles["rows"] == cycles["channels"]
    with pytest.raises(ValueError, match="must be PIXELSxCHANNELS->RESULTSxKERNEL"):
        layer("7x7")
