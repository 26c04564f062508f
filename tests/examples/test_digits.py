"""The bundled digits network and the parts of its demonstration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tilewright as tw
from examples.digits import demo, train
from tilewright.checking import reference_outputs
from tilewright.isa.spec import Engine
from tilewright.runtime.report.report import Report

DIGITS = Path(demo.__file__).parent
LEAST_ACCURACY = 0.97


@pytest.fixture(scope="module")
def held_out():
    with np.load(DIGITS / "digits_test.npz") as data:
        return data["x"], data["labels"]


def accuracy(directory: Path, x: np.ndarray, labels: np.ndarray) -> float:
    outputs = reference_outputs(directory / "digits.onnx", [x])[0]
    assert outputs.shape == (len(x), 10)
    assert outputs.dtype == np.uint8
    return float((outputs.argmax(1) == labels).mean())


def test_committed_network_reads_held_out_digits(held_out):
    assert accuracy(DIGITS, *held_out) >= LEAST_ACCURACY


def test_committed_images_are_those_that_training_leaves_out(held_out):
    x, labels = held_out
    training, _, x_test, y_test = train.load_images()
    np.testing.assert_array_equal(x, train.quantized_images(x_test))
    np.testing.assert_array_equal(labels, y_test)
    assert (x.shape, x.dtype) == ((train.TEST_IMAGES, 1, 8, 8), np.uint8)
    assert len(training) + len(x) == 1797


def test_committed_network_is_of_eight_bits_from_end_to_end():
    model = onnx.load(DIGITS / "digits.onnx")
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == 4
    assert {"Add", "GlobalAveragePool", "Gemm"} < set(kinds)
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    for name, value in constants.items():
        if name.endswith("weight_quantized"):
            assert value.dtype == np.int8
            assert value.min() >= -127
            assert constants[name.replace("quantized", "scale")].shape == value.shape[:1]
        if name.endswith("bias_quantized"):
            assert value.dtype == np.int32


def test_every_layer_of_the_committed_network_is_proven_exact():
    operators = tw.compile(DIGITS / "digits.onnx", cache=False).artifact.options["operators"]
    assert {entry["exact"] for entry in operators} == {"proven", "by construction"}


def test_gradients_agree_with_finite_differences():
    rng = np.random.default_rng(0)
    network = train.Network(rng)
    x, weights = rng.random((3, 8, 8, 1)), rng.normal(size=(3, 10))
    gradients = network.backward(network.forward(x), weights)

    def loss() -> float:
        return float((network.forward(x)["logits"] * weights).sum())

    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert parameter.shape == gradient.shape
        place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        step = 1e-6
        parameter[place] += step
        above = loss()
        parameter[place] -= 2 * step
        below = loss()
        parameter[place] += step
        assert (above - below) / (2 * step) == pytest.approx(gradient[place], rel=1e-4)


@pytest.mark.slow
def test_training_reproduces_the_committed_network(tmp_path, held_out):
    subprocess.run([sys.executable, train.__file__, "--directory", tmp_path], check=True, timeout=600)
    assert abs(accuracy(tmp_path, *held_out) - accuracy(DIGITS, *held_out)) <= 0.01
    with np.load(tmp_path / "digits_test.npz") as data:
        np.testing.assert_array_equal(data["x"], held_out[0])


def fake_activity() -> SimpleNamespace:
    """Two layers over 100 cycles: GEMM works in the first half for layer 0, LOAD in every other cycle for layer 1."""
    spans = {
        Engine.GEMM: (np.array([0]), np.array([0]), np.array([50])),
        Engine.LOAD: (np.arange(1, 51), np.arange(0, 100, 2), np.arange(1, 101, 2)),
    }
    nothing = (np.array([], int), np.array([], np.int64), np.array([], np.int64))
    layer = np.array([0] + [1] * 50)
    return SimpleNamespace(cycles=100, layer=layer, spans=lambda engine: spans.get(engine, nothing))


def test_cycles_worked_divides_spans_over_cells():
    worked = demo.cycles_worked(np.array([1, 5]), np.array([4, 9]), np.array([0.0, 2, 6, 8, 20]))
    assert worked.tolist() == [1, 3, 2, 1]


def test_timeline_draws_every_engine_to_width():
    run = SimpleNamespace(activity=fake_activity(), layers=[{"name": "conv1"}, {"name": "conv2"}])
    lines = demo.timeline(cast(Report, SimpleNamespace(runs=[run])), width=demo.MARGIN + 10)
    rows = {line.plain[: demo.MARGIN].strip(): line for line in lines[: len(Engine)]}
    assert set(rows) == {engine.name for engine in Engine}
    assert rows["GEMM"].plain[demo.MARGIN :] == "█" * 5 + " " * 5
    assert rows["LOAD"].plain[demo.MARGIN :] == "▄" * 10
    assert rows["STORE"].plain[demo.MARGIN :] == " " * 10
    assert rows["GEMM"].spans[0].style != rows["LOAD"].spans[0].style
    assert lines[len(Engine)].plain.endswith("100 cycles")
    assert "conv1" in lines[len(Engine) + 1].plain


def test_legend_breaks_lines_between_names():
    lines = [line.plain for line in demo.legend(["first", "second", "third", "an-overlong-name-that-stands-alone"], 30)]
    assert [line.split() for line in lines] == [
        ["■", "first", "■", "second"],
        ["■", "third"],
        ["■", "an-overlong-name-that-stands-alone"],
    ]


def test_timeline_is_empty_without_events():
    run = SimpleNamespace(activity=None, layers=[])
    assert demo.timeline(cast(Report, SimpleNamespace(runs=[run])), width=80) == []


def test_demo_runs_from_end_to_end(tmp_path):
    """Bit-exact against ONNX Runtime (exit code 0), with a report file; the way ``make demo`` calls it."""
    command = [sys.executable, str(DIGITS / "demo.py"), "--html", str(tmp_path / "new" / "report.html")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3,600 of 3,600 output integers: all equal to ONNX Runtime" in result.stdout
    assert "held-out digits" in result.stdout
    assert "GEMM  " in result.stdout
    assert (tmp_path / "new" / "report.html").stat().st_size > 0


def test_demo_names_an_unknown_config(tmp_path):
    command = [sys.executable, str(DIGITS / "demo.py"), "--config", "no-such-board"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert "no-such-board" in result.stderr
    assert result.stderr.count("\n") == 1
