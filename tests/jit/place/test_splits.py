"""Parts that cores share: planned, corrected by the simulator, compiled by ``compile`` and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.place.test_placed import Fixed
from tests.jit.tflite_models import SAME, TfliteBuilder, litert
from tilewright.cli.app import main
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.place import placed as placed_module
from tilewright.jit.place.exchange import exchanged, launch_cycles
from tilewright.jit.place.execute import compile_placed, simulate_latency
from tilewright.jit.place.placed import place_source
from tilewright.jit.place.problem import Part
from tilewright.jit.place.settle import settle
from tilewright.jit.place.splits import LAUNCH_NANOSECONDS
from tilewright.jit.source import open_source
from tilewright.runtime.steps import LaunchStep

ONE = PRESETS["tiny"]
FOUR = ONE.replace(cores=4)


class Slow(Fixed):
    """A machine whose CPU takes a second for each operator of a file, and no time to move what cores take and give."""

    def __init__(self) -> None:
        super().__init__(10**9)

    def of(self, key: str, prepare: Callable[[], Callable[[], object]]) -> int:
        return self.file if key.startswith("litert") else 0


def convolutions(path: Path, layers: tuple[tuple[int, int], ...]) -> Path:
    """3x3 convolutions of 24x24 pixels of 8 channels, each of so many channels and with such a stride."""
    b = TfliteBuilder(3)
    x = first = b.tensor([1, 24, 24, 8], 0.05, 3)
    for channels, stride in layers:
        size = -(-b.tensors[x]["shape"][1] // stride)
        weights, scales = b.weights([channels, 3, 3, b.tensors[x]["shape"][3]], 0)
        bias = b.bias(x, scales, channels)
        y = b.tensor([1, size, size, channels], 0.9, -4)
        fields = {"StrideH": stride, "StrideW": stride, "Padding": SAME, "DilationHFactor": 1, "DilationWFactor": 1}
        x = b.op("CONV_2D", [x, weights, bias], y, "Conv2DOptions", **fields)
    return b.save(path, [first], [x])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convolutions(tmp_path_factory.mktemp("splits") / "convolutions.tflite", ((16, 1), (16, 1), (32, 1)))


def test_what_is_settled_on_is_as_simulated(model: Path) -> None:
    source = open_source(model)
    alone, planned = (place_source(source, config, "latency", Slow()) for config in (ONE, FOUR))
    assert planned.greedy.cost == alone.greedy.cost
    assert planned.best.cost < alone.best.cost / 2
    assert any(part.way == "rows" for part in planned.best.parts)
    settled, made = settle(source, planned)
    simulated = simulate_latency(settled, settled.best, made.compiled.programs)
    assert settled.best.cost == simulated
    assert simulated == pytest.approx(planned.best.cost, rel=0.1)
    greedy = compile_placed(source, settled, settled.greedy)
    assert settled.greedy.cost == simulate_latency(settled, settled.greedy, greedy.compiled.programs)
    assert simulated < settled.greedy.cost / 2


def test_parts_that_exchange_cost_what_their_launches_take(model: Path) -> None:
    """Here the host moves at no cost, so what is left of it are the launches."""
    source, slow = open_source(model), Slow()
    apart, _ = settle(source, place_source(source, FOUR, "latency", slow))
    settled, made = settle(source, place_source(source, FOUR, "latency", slow), shares=True)
    launches = [step.programs for step in made.compiled.steps if isinstance(step, LaunchStep)]
    programs = made.compiled.programs
    host = settled.costs.cycles(LAUNCH_NANOSECONDS * sum(len(launch) for launch in launches if len(launch) > 1))
    cores = sum(launch_cycles(FOUR, [programs[k] for k in launch]) for launch in launches)
    assert settled.best.cost == host + cores
    assert settled.best.cost <= apart.best.cost


def test_exchanging_parts_take_what_was_planned(tmp_path: Path) -> None:
    """Of each part the ends that nothing covers count, of which a network in one program has two."""
    path = convolutions(tmp_path / "narrowing.tflite", ((32, 1), (32, 2), (64, 2), (64, 1)))
    source, config = open_source(path), PRESETS["pynq-z2"].replace(cores=2)
    placed = place_source(source, config, "latency", Slow())
    assert placed.exchanging is not None
    assert sum(part.replicas > 1 for part in placed.exchanging.parts) > 1
    made, saved = exchanged(placed.costs, compile_placed(source, placed, placed.exchanging))
    launches = [step.programs for step in made.compiled.steps if isinstance(step, LaunchStep)]
    assert len(launches) == 1
    assert saved > 0
    together = launch_cycles(config, made.compiled.programs)
    host = placed.costs.cycles(LAUNCH_NANOSECONDS * len(launches[0]))
    assert placed.exchanging.cost == pytest.approx(together + host, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_random_networks_take_what_was_planned(seed: int, tmp_path: Path) -> None:
    """With barriers and by exchange, on two cores whose units are 8, 16 or 32 channels."""
    rng = np.random.default_rng(700 + seed)
    layers = [(int(rng.choice([8, 24, 32, 64])), int(rng.choice([1, 1, 2]))) for _ in range(rng.integers(2, 6))]
    source = open_source(convolutions(tmp_path / "random.tflite", tuple(layers)))
    placed = place_source(source, PRESETS[("pynq-z2", "zcu104", "tiny")[seed % 3]].replace(cores=2), "latency", Slow())
    assert placed.exchanging is not None
    for solution in (placed.best, placed.exchanging):
        made = compile_placed(source, placed, solution)
        simulated = simulate_latency(placed, solution, made.compiled.programs)
        if solution is placed.exchanging:
            simulated -= exchanged(placed.costs, made)[1]
        assert solution.cost == pytest.approx(simulated, rel=0.05), layers


def test_pieces_of_a_layer_are_the_same_in_every_part(model: Path) -> None:
    """So what is worked out from their weights is found again."""
    costs = place_source(open_source(model), FOUR, "latency", Slow()).costs
    last, more = (costs.splits.rounds(Part(mask, 4, "channels"))[0].graphs for mask in (0b100, 0b110))
    weights = [[id(op.weight) for graph in graphs for op in graph.ops[-1:] if isinstance(op, g.Conv2D)]
               for graphs in (last, more)]  # fmt: skip
    assert weights[0] == weights[1]
    assert len(set(weights[0])) == 4


def test_compile_lets_cores_share_and_the_integers_stay(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    x = np.random.default_rng(0).integers(-128, 128, (3, 24, 24, 8)).astype(np.int8)
    shared = tw.compile(model, FOUR, objective="latency", cache=False)
    alone = tw.compile(model, ONE, objective="latency", cache=False)
    assert any(step.beside for step in shared.artifact.steps if isinstance(step, LaunchStep))
    assert len(alone.artifact.programs) == 1
    y, report = shared.run(x)
    one, report_of_one = alone.run(x)
    np.testing.assert_array_equal(y, one)
    np.testing.assert_array_equal(y, np.concatenate([litert(model, [image[None]])[0] for image in x]))
    assert report.cycles < report_of_one.cycles / 2


def test_an_artifact_for_one_core_is_not_taken_for_four(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    programs = [len(tw.compile(model, config, objective="latency").artifact.programs) for config in (ONE, FOUR, ONE)]
    assert programs[0] == programs[2] == 1 < programs[1]


def test_inspect_says_who_shares_what(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    config = tmp_path / "four.toml"
    config.write_text(FOUR.to_toml())
    assert main(["inspect", str(model), "--placement", "--objective", "latency", "--config", str(config)]) == 0
    text = capsys.readouterr().out
    assert "4 cores by rows: " in text
    assert "on 4 cores of" in text
