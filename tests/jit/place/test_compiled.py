"""``objective`` of :func:`tilewright.compile`: the best placement where it beats the greedy one, and how it runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from bench.networks import build
from tests.fuzz.cases import case_inputs
from tests.fuzz.tflite_net import TfliteNet
from tests.jit.place.test_placed import CONFIG, DIGITS, Fixed
from tilewright.checking import reference_outputs
from tilewright.cli.app import main
from tilewright.compiling import CompileError
from tilewright.config import PRESETS
from tilewright.jit.errors import PlaceError
from tilewright.jit.place import placed
from tilewright.jit.place.energy import Power
from tilewright.jit.place.execute import compile_placed, simulate_placed
from tilewright.jit.place.placed import place_source
from tilewright.jit.place.problem import PlacementError
from tilewright.jit.place.settle import settle
from tilewright.jit.source import open_source
from tilewright.jit.tiled import build as tiled_build
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.records import OBJECTIVES, Objective


def compiled(monkeypatch: pytest.MonkeyPatch, nanoseconds: int, **options: Any) -> tw.Executable:
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(nanoseconds))
    return tw.compile(DIGITS, CONFIG, cache=False, **options)


def test_a_fast_cpu_gets_work_and_the_integers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, best = compiled(monkeypatch, 1), compiled(monkeypatch, 1, objective="latency")
    reasons = [reason for _, reason in best.artifact.options["moved"]]
    assert any("placed on the CPU for latency" in reason for reason in reasons)
    (spec,) = best.artifact.inputs
    x = np.random.default_rng(0).normal(size=(5, *spec.shape[1:])).astype(spec.dtype)
    assert np.array_equal(best.run(x)[0], greedy.run(x)[0])


def test_a_slow_cpu_leaves_the_greedy_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, best = compiled(monkeypatch, 10**9), compiled(monkeypatch, 10**9, objective="latency")
    assert best.artifact.programs == greedy.artifact.programs
    assert best.artifact.options["moved"] == greedy.artifact.options["moved"]


@pytest.mark.parametrize("nanoseconds", [10_000, 10**9])
@pytest.mark.parametrize("cores", [1, 2])
def test_throughput_is_no_worse_than_greedy_and_the_integers_stay(
    monkeypatch: pytest.MonkeyPatch, cores: int, nanoseconds: int
) -> None:
    # one port and a CPU of 10 us: with two ports, or from 20 us on, two cores take less than the CPU's part, and
    # there is nothing better than greedy to find
    one, times = CONFIG.replace(cores=cores, axi_ports=1), Fixed(nanoseconds)
    config = one.replace(dram_bandwidth=2 * one.beat_bytes)
    monkeypatch.setattr(placed, "HostTimes", lambda: times)
    greedy = tw.compile(DIGITS, config, cache=False)
    found = tw.compile(DIGITS, config, cache=False, objective="throughput", jobs=2)
    assert found.jobs == 2
    x = np.random.default_rng(0).normal(size=(40, *found.inputs[0].shape[1:])).astype(found.inputs[0].dtype)
    (y, report), (expected, _) = found.run(x), greedy.run(x)
    assert np.array_equal(y, expected)
    steady = report.to_dict()["steady"]
    assert (steady["jobs"], steady["in_flight"]) == (2, 4 * (2 // cores) * cores)
    source = open_source(DIGITS)
    settled, made = settle(source, place_source(source, config, "throughput", times, jobs=2))
    best, plain = (
        simulate_placed(settled, solution, model.compiled.programs, side_by_side=True).interval
        for solution, model in (
            (settled.best, made), (settled.greedy, compile_placed(source, settled, settled.greedy)),
        )
    )  # fmt: skip
    assert best <= plain
    assert best < plain or nanoseconds == 10**9
    assert [p.instructions for p in made.compiled.programs] == [p.instructions for p in found.artifact.programs]
    assert settled.best.cost == pytest.approx(best, rel=0.02)


def test_a_network_that_keeps_state_is_exact_in_flight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "lstm.tflite"
    build(path, "lstm", "small")
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(10))
    found = tw.compile(path, CONFIG, cache=False, objective="throughput", jobs=3)
    x = random_inputs(found.inputs, 0, 24)
    assert all(map(np.array_equal, found.run(x)[0], reference_outputs(path, x)))


def test_where_no_placement_can_be_sought_inferences_are_in_flight_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PlacementError("write: shares a state with others")

    monkeypatch.setattr(placed, "place_source", refuse)
    found = tw.compile(DIGITS, CONFIG, cache=False, objective="throughput")
    greedy = tw.compile(DIGITS, CONFIG, cache=False)
    assert found.artifact.programs == greedy.artifact.programs
    report = found.run(random_inputs(found.inputs, 0, 3))[1]
    assert report.steady is not None
    assert any("write: shares a state with others" in note for note in report.notes)
    with pytest.raises(PlacementError, match="shares a state"):
        tw.compile(DIGITS, CONFIG, cache=False, objective="latency")


def test_the_command_runs_inferences_in_flight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(10**6))
    config, artifact = tmp_path / "two.toml", tmp_path / "d.twa"
    config.write_text("cores = 2\n")
    model = [str(DIGITS), "--config", str(config), "--objective", "throughput", "--no-cache"]
    assert main(["run", *model, "--jobs", "3", "--check", "--report", str(tmp_path / "r.json")]) == 0
    assert re.search(r"steady  [\d,]+/s with 10 in flight: .* 3 threads", capsys.readouterr().out)
    assert json.loads((tmp_path / "r.json").read_text())["steady"]["jobs"] == 3
    assert main(["compile", *model, "--jobs", "2", "-o", str(artifact)]) == 0
    assert main(["run", str(artifact), "--inputs", "9"]) == 0
    assert "CPU, 2 threads" in capsys.readouterr().out
    assert main(["run", str(DIGITS), "--device", "rtl", "--jobs", "2"]) == 2
    assert "--jobs: only the sim device" in capsys.readouterr().err


def test_what_it_cannot_do_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CompileError, match="objective 'speed': must be one of latency, throughput, energy"):
        compiled(monkeypatch, 1, objective="speed")
    with pytest.raises(CompileError, match="jobs = 0: must be an integer from 1 to"):
        compiled(monkeypatch, 1, objective="throughput", jobs=0)
    with pytest.raises(CompileError, match="keep_intermediates stores every operator's output"):
        compiled(monkeypatch, 1, objective="latency", keep_intermediates=True)
    assert main(["run", str(DIGITS), "--config", "tiny", "--objective", "energy"]) == 2  # without --host-watts
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("cores", [1, 2])
def test_what_fits_in_no_program_is_the_cpu_s(
    objective: Objective, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the greedy placement too, which the best is compared with: it is not a reason for having none."""

    def refuse(*_: object) -> None:
        raise PlaceError("a product that fits in no tiles")

    monkeypatch.setattr(tiled_build, "product_layer", refuse)
    net = TfliteNet(1)
    a, b = (net.input((1, 1, 16, 512)) for _ in range(2))
    product = net.batch_matmul(a, b, turned_b=True)
    path = net.save(tmp_path / "m.tflite", [net.conv(net.input((1, 1, 8, 32)), 32, kernel=1), product])
    config = PRESETS["tiny"].replace(act_bytes=4096, cores=cores)
    watts = 1.0 if objective == "energy" else None
    found = place_source(open_source(path), config, objective, Fixed(10), power=Power(watts) if watts else None)
    product_at = next(k for k, op in enumerate(found.costs.graph.ops) if op.kind == "MatMul")
    for solution in (found.greedy, found.best):
        (part,) = (part for part in solution.parts if part.operators >> product_at & 1)
        assert not part.replicas
    layer = next(k for k, op in enumerate(found.costs.graph.ops) if op.kind == "Conv2D")
    assert next(part for part in found.greedy.parts if part.operators >> layer & 1).replicas
    inputs = case_inputs(net.inputs)
    executable = tw.compile(path, config, cache=False, objective=objective, host_watts=watts)
    results, _ = executable.run(inputs)
    assert all(map(np.array_equal, results, reference_outputs(path, inputs)))
