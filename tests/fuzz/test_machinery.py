"""Seeds, outcomes, shrinking and campaigns, without regard to what the compiler can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from tests.fuzz import OnnxNet, Outcome, Recipe, TfliteNet, build, check_case, draw_network, seed_config, shrink
from tests.fuzz.__main__ import app
from tests.fuzz.bounds import stated_bounds
from tests.fuzz.campaign import RESULTS, Summary, finished, run_campaign
from tests.fuzz.cases import EXACT, REFUSED, TRACEBACK, WRONG, case_inputs
from tests.fuzz.compare import first_difference
from tests.fuzz.expose import computed_in_float, expose
from tests.fuzz.recipe import Step
from tests.fuzz.seeds import RANDOM, input_tensors, seed_bits
from tests.fuzz.shrink import failure_class, write_shrunk
from tests.fuzz.workers import Result, Task
from tilewright.config import PRESETS
from tilewright.jit.source import open_source

FRONTENDS = ("tflite", "onnx")


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_a_seed_gives_one_network(frontend: str, tmp_path: Path) -> None:
    for seed in range(8):
        recipe, path, _ = draw_network(frontend, seed, "full", tmp_path)
        content = path.read_bytes()
        again, path, _ = draw_network(frontend, seed, "full", tmp_path)
        assert again == recipe
        assert path.read_bytes() == content
        read = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
        build(read, tmp_path / f"read.{frontend}")
        assert (tmp_path / f"read.{frontend}").read_bytes() == content


def test_random_configs_are_valid_and_differ() -> None:
    configs = [seed_config(RANDOM, "tflite", seed) for seed in range(60)]
    assert configs[3] == seed_config(RANDOM, "tflite", 3)
    assert len({c.fingerprint for c in configs}) > 30
    assert {c.block_in for c in configs} >= {4, 8, 16, 32}
    assert seed_config("tiny", "onnx", 5) == PRESETS["tiny"]


@pytest.mark.parametrize("frontend", ["tflite", "onnx"])
def test_one_network_in_seven_has_weights_of_four_or_two_bits(frontend: str, tmp_path: Path) -> None:
    """Mostly on a Config that packs them."""
    bits = {seed: seed_bits(frontend, seed) for seed in range(200)}
    assert 0.08 < np.mean([b < 8 for b in bits.values()]) < 0.25
    assert set(bits.values()) == {8, 4, 2}
    narrow = [seed for seed in bits if bits[seed] < 8]
    assert sum(seed_config(RANDOM, frontend, seed).weight_bits < 8 for seed in narrow) > len(narrow) / 2
    stored = set()
    for seed in narrow:
        recipe, path, _ = draw_network(frontend, seed, "small", tmp_path)
        if frontend == "tflite":
            stored |= {t.dtype for t in build(recipe, path).net.tensors}
        else:
            stored |= {t.data_type for t in onnx.load(str(path)).graph.initializer}
    assert stored >= ({"int4"} if frontend == "tflite" else {onnx.TensorProto.INT4, onnx.TensorProto.UINT4})


def test_networks_are_of_many_kinds(tmp_path: Path) -> None:
    kinds = set()
    for seed in range(60):
        kinds |= set(draw_network("tflite", seed, "full", tmp_path)[0].kinds())
    assert len(kinds) > 35


@pytest.mark.parametrize("frontend", ["tflite", "onnx"])
def test_large_networks_are_of_large_images_and_long_signals(frontend: str, tmp_path: Path) -> None:
    sides = []
    for seed in range(30):
        recipe, path, _ = draw_network(frontend, seed, "large", tmp_path)
        for x in input_tensors(build(recipe, path).net):
            if len(x.shape) == 4:
                sides.append(sorted(x.shape[1:3] if frontend == "tflite" else x.shape[2:]))
    assert max(short for short, _ in sides) > 100
    assert max(long for short, long in sides if short == 1) > 8192


def test_differences() -> None:
    y = np.array([[1, 2, 3]], np.int8)
    assert first_difference([y], [y]) is None
    assert "1 of 3 elements differ, by at most 4; the first at 2: 3" in str(
        first_difference([y], [y + np.array([[0, 0, 4]], np.int8)])
    )
    assert "int8(1, 3), the reference gives int8(3,)" in str(first_difference([y], [y[0]]))
    assert "2 outputs, the reference gives 1" in str(first_difference([y, y], [y]))
    z = np.array([[np.nan, 1.0]], np.float32)
    assert first_difference([z], [z.copy()]) is None
    almost = z + np.float32(3e-7)
    assert "1 of 2 elements differ" in str(first_difference([z], [almost]))
    assert first_difference([z], [almost], [True]) is None
    assert first_difference([z], [z + np.float32(1e-5)], [True]) is not None


def test_floats_behind_a_dequantisation_are_compared_bit_for_bit(tmp_path: Path) -> None:
    net = TfliteNet(seed=1)
    y = net.relu(net.input((1, 6, 6, 3)))
    path = net.save(tmp_path / "net.tflite", [y, net.dequantize(y), net.neg(net.dequantize(y))])
    assert computed_in_float(path) == [False, False, True]
    other = OnnxNet(seed=1)
    z = other.relu(other.input((1, 3, 6, 6)))
    path = other.save(tmp_path / "net.onnx", [z, other.sigmoid(z, pair=False)])
    assert computed_in_float(path) == [False, True]


def test_statements_are_found_by_the_operators_own_names(tmp_path: Path) -> None:
    net = OnnxNet(seed=1, dtype="int8")
    path = net.save(tmp_path / "net.onnx", [net.conv(net.relu(net.input((1, 30, 6, 6))), 4)])
    kinds = {operator.index: operator.kind for operator in open_source(path).operators}
    stated = {kinds[number]: bound for number, bound in stated_bounds(path, "tiny").items()}
    assert stated == {"DequantizeLinear": 0, "Conv": 0}


def test_outcomes(tmp_path: Path) -> None:
    net = TfliteNet(seed=1)
    x = net.input((1, 6, 6, 3))
    path = net.save(tmp_path / "net.tflite", [net.conv(x, 4)])
    outcome = check_case(path, "tiny", case_inputs(net.inputs))
    assert (outcome.kind, outcome.macs, outcome.host_operators) == (EXACT, net.macs, [])
    assert not outcome.failed
    path.write_bytes(b"nothing")
    assert check_case(path, "tiny", case_inputs(net.inputs)).kind == "reference-refused"


def test_wrong_integers_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.runtime.executable import Executable

    run = Executable.run

    def off_by_one(self: Executable, x: object, **options: object) -> object:
        y, report = run(self, x, **options)  # type: ignore[arg-type]
        outputs = y if isinstance(y, list) else [y]
        outputs[0] = outputs[0] ^ 1
        return (outputs if isinstance(y, list) else outputs[0]), report

    monkeypatch.setattr(Executable, "run", off_by_one)
    net = TfliteNet(seed=1)
    y = net.conv(net.relu(net.input((1, 6, 6, 3))), 4)
    outcome = check_case(net.save(tmp_path / "net.tflite", [y]), "tiny", case_inputs(net.inputs))
    assert (outcome.kind, outcome.where) == (WRONG, "CONV_2D")
    assert outcome.failed
    assert failure_class(outcome) == "wrong integers: CONV_2D, stated to be exact"


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_exposed_tensors(frontend: str, tmp_path: Path) -> None:
    net: TfliteNet | OnnxNet = TfliteNet(seed=1) if frontend == "tflite" else OnnxNet(seed=1)
    x = net.input((1, 6, 6, 6))
    y = net.conv(x, 6)
    path = net.save(tmp_path / f"net.{frontend}", [net.add(x, y)])
    exposed = expose(path, tmp_path / f"all.{frontend}")
    by_kind = {kind: entry for entry in exposed for kind in entry.operators.values()}
    last = by_kind["ADD" if frontend == "tflite" else "Add"]
    first = by_kind["CONV_2D" if frontend == "tflite" else "Conv"]
    assert len(exposed) == (2 if frontend == "tflite" else 3)
    assert first.name in last.sources
    assert first is not last


def fails_if_concatenated(recipe: Recipe, config: object) -> Outcome:
    """Stands for a compiler that cannot concatenate more than 4 channels."""
    from tests.fuzz.recipe import Assembly

    assembly = Assembly(recipe.frontend, recipe.seed, recipe.options)
    for step in recipe.steps:
        assembly.apply(step)
        if step.kind == "concatenation" and assembly.results[str(step.number)].shape[-1] > 4:
            return Outcome(TRACEBACK, f"ValueError: {step.number} channels")
    return Outcome(EXACT)


def test_shrinking_keeps_the_failure_and_nothing_else(tmp_path: Path) -> None:
    steps = (
        Step(0, "input", (), {"shape": [1, 9, 8, 6], "scale": 0.1}),
        Step(1, "conv", ("0",), {"channels": 20, "kernel": [3, 5], "activation": "relu"}),
        Step(2, "relu", ("0",), {}),
        Step(3, "concatenation", ("0", "2", "1"), {"axis": 3}),
        Step(4, "mean", ("3",), {}),
        Step(5, "softmax", ("4",), {}),
    )
    recipe = Recipe("tflite", 7, {"dtype": "uint8", "power_of_two": True}, steps, ("5", "2"))
    found = shrink(recipe, PRESETS["zcu104"], fails_if_concatenated(recipe, None), 20.0, fails_if_concatenated)
    assert found.config == PRESETS["pynq-z2"]
    assert [s.kind for s in found.recipe.steps if s.kind != "input"] == ["concatenation"]
    assert failure_class(found.outcome) == failure_class(fails_if_concatenated(recipe, None))
    written = write_shrunk(found, tmp_path, "small")
    assert Recipe.load(written) == found.recipe
    assert (tmp_path / "small.tflite").exists()


def test_classes_of_failures() -> None:
    a = Outcome(REFUSED, "PlaceError: op011_CONCATENATION: input 0 has 65 channels, no multiple of 16")
    b = Outcome(REFUSED, "PlaceError: op2_CONCATENATION: input 1 has 7 channels, no multiple of 8")
    c = Outcome(TRACEBACK, "KeyError: 'lv3'", "compiler.py:31 compile_graph > emitter.py:20 emit")
    assert failure_class(a) == failure_class(b)
    assert failure_class(a) != failure_class(c)
    assert "emit" in failure_class(c)


def test_a_campaign_resumes(tmp_path: Path) -> None:
    tasks = [Task("tflite", seed, "tiny", "small") for seed in range(3)]
    first = list(run_campaign(tasks[:2], tmp_path))
    file = tmp_path / RESULTS
    file.write_text(file.read_text() + '{"key": "cut sh')
    assert set(finished(tmp_path)) == {task.key for task in tasks[:2]}
    second = list(run_campaign(tasks, tmp_path))
    assert [r.task.seed for r in first] == [0, 1]
    assert [r.task.seed for r in second] == [2]
    assert set(finished(tmp_path)) == {task.key for task in tasks}


def test_summary() -> None:
    summary = Summary()
    task = Task("onnx", 4, "tiny")
    summary.add(Result(task, Outcome(EXACT, macs=30, host_operators=["op1"]), {"conv": 2}, 40, "tiny"))
    summary.add(Result(task, Outcome(WRONG), {"conv": 1, "add": 1}, 40, "tiny", "wrong integers: Add"))
    assert summary.failed == 1
    assert summary.operators["conv"] == {EXACT: 1, WRONG: 1}
    assert (summary.macs, summary.network_macs, summary.on_host) == (30, 80, 1)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(tasks: list[Task], *_: object) -> list[Result]:
        kinds = [EXACT, WRONG]
        return [Result(t, Outcome(k), {"conv": 1}, 1, "tiny", k if k == WRONG else "") for t, k in zip(tasks, kinds)]

    def ran(seeds: str) -> Any:
        command = ["networks", "onnx", "--config", "tiny", "-o", str(tmp_path), "--no-shrink", "--seeds", seeds]
        return CliRunner().invoke(app, command)

    monkeypatch.setattr("tests.fuzz.__main__.run_campaign", results)
    assert (found := ran("0:2")).exit_code == 1
    assert "wrong" in found.output
    assert "conv" in found.output
    assert ran("0:1").exit_code == 0
    assert "must be A:B" in str(ran("5:5").exception)
