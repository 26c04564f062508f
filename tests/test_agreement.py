"""Models whose graph is not what the file means: seen when they are compiled, left to the interpreter, named."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder
from tests.jit.tflite_models import SAME, TfliteBuilder
from tilewright import agreement
from tilewright.agreement import Disagreement, Misread, culprits
from tilewright.checking import reference_outputs
from tilewright.cli.app import main
from tilewright.files import CACHE_VARIABLE
from tilewright.jit import graph as g
from tilewright.jit import network
from tilewright.jit.source.base import Source

LAYERS = 5
STEPS = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def tflite(path: Path) -> Path:
    b = TfliteBuilder(seed=1)
    x = b.tensor([1, 6, 6, 4], 0.05, 3)
    y = x
    for _ in range(LAYERS):
        w, scales = b.weights([4, 3, 3, 4], 0)
        result = b.tensor([1, 6, 6, 4], 0.05, 3)
        y = b.op("CONV_2D", [y, w, b.bias(y, scales, 4)], result, "Conv2DOptions", Padding=SAME, **STEPS)
    return b.save(path, [x], [y])


def onnx(path: Path, layers: int = LAYERS) -> Path:
    b = QdqBuilder(seed=1)
    y = b.input([1, 4, 6, 6], "int8", 0.05, 3)
    for _ in range(layers):
        y = b.quantised(b.conv(y, (4, 4, 3, 3), pads=[1, 1, 1, 1]), 0.05, 3)
    return b.save(path, y, [1, 4, 6, 6])


def misread(monkeypatch: pytest.MonkeyPatch, positions: Collection[int]) -> None:
    """Of what lies at these positions in the file the graph has another zero point."""
    lowered = network.lower_source

    def lower(source: Source, *rest: Any) -> Any:
        model = lowered(source, *rest)
        for k, op in enumerate(model.graph.ops):
            if isinstance(op, g.Conv2D) and set(op.covers) & set(positions):
                other = replace(op.requant, zero_point=op.requant.zero_point - 2)
                model.graph.ops[k] = replace(op, requant=other)
        return model

    monkeypatch.setattr(network, "lower_source", lower)


def images(path: Path) -> np.ndarray[Any, Any]:
    shape = (3, 6, 6, 4) if path.suffix == ".tflite" else (3, 4, 6, 6)
    return np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)


def places(exe: Any) -> dict[str, str]:
    return {entry["name"]: entry["place"] for entry in exe.artifact.options["operators"]}


@pytest.mark.parametrize("build", [tflite, onnx])
def test_what_is_read_as_it_is_meant_stays_and_the_artifact_says_so(
    build: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = build(tmp_path / f"net.{build.__name__}")
    exe = tw.compile(path, "tiny")
    package = {"tflite": "ai-edge-litert", "onnx": "onnxruntime"}[build.__name__]
    assert exe.artifact.options["compared"] == f"equal to {package} on 8 inputs"
    assert "accelerator" in places(exe).values()
    assert main(["inspect", str(path), "--config", "tiny"]) == 0
    assert f"equal to {package} on 8 inputs" in capsys.readouterr().out


@pytest.mark.parametrize("build", [tflite, onnx])
@pytest.mark.parametrize("wrong", [[0], [2], [LAYERS - 1], [1, 3]])
def test_operators_that_are_misread_are_the_interpreters(
    build: Callable[[Path], Path], wrong: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build(tmp_path / f"net.{build.__name__}")
    convolutions = [name for name in places(tw.compile(path, "tiny", cache=False)) if "conv" in name.lower()]
    positions = [k for k, op in enumerate(network_operators(path)) if op in {convolutions[n] for n in wrong}]
    misread(monkeypatch, positions)
    names = [convolutions[n] for n in wrong]
    with pytest.warns(Misread, match=f"{names[0]}.*please report this defect with the file"):
        exe = tw.compile(path, "tiny", cache=False)
    found = {name for name, place in places(exe).items() if place == "interpreter" and name in convolutions}
    assert found == set(names)
    assert {name for name, reason in exe.artifact.options["moved"] if "computed otherwise" in reason} >= set(names)
    x = images(path)
    y, report = exe.run(x)
    np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])
    assert any(names[0] in note and "computed otherwise" in note for note in report.notes)


def network_operators(path: Path) -> list[str]:
    from tilewright.jit.source import open_source

    return [op.name for op in open_source(path).operators]


def test_without_the_comparison_the_misread_operator_gives_other_integers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tflite(tmp_path / "net.tflite")
    misread(monkeypatch, [2])
    exe = tw.compile(path, "tiny", cache=False, compare=False)
    x = images(path)
    assert (exe(x) != reference_outputs(path, [x])[0]).any()
    assert not exe.artifact.options.keys() & {"compared", "uncompared"}


@pytest.mark.filterwarnings("always::tilewright.agreement.Misread")
def test_the_command_line_says_it_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tflite(tmp_path / "net.tflite")
    misread(monkeypatch, [2])
    assert main(["compile", str(path), "--config", "tiny", "--no-cache", "-o", str(tmp_path / "net.twa")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tilewright: warning: {path}: op002_CONV_2D: computed otherwise than by ai-edge-litert")


def test_a_placement_of_what_is_misread_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tflite(tmp_path / "net.tflite")
    misread(monkeypatch, range(LAYERS))
    with pytest.warns(Misread):
        exe = tw.compile(path, "tiny", cache=False, objective="latency")
    x = images(path)
    np.testing.assert_array_equal(exe(x), reference_outputs(path, [x])[0])
    assert "accelerator" not in places(exe).values()


def test_a_model_that_differs_whatever_is_left_to_the_interpreter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tflite(tmp_path / "net.tflite")
    outputs_of = agreement.outputs_of
    monkeypatch.setattr(agreement, "outputs_of", lambda *given: [y + np.int8(1) for y in outputs_of(*given)])
    with pytest.raises(Disagreement, match=r"net\.tflite: .* differ .* of ai-edge-litert, even with all operators"):
        tw.compile(path, "tiny", cache=False)


def test_layers_that_are_not_proven_may_differ_and_nothing_else_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not proven is taken off to see whether the rest agrees; it stays where it was."""
    path = onnx(tmp_path / "net.onnx")
    sound = tw.compile(path, "tiny", cache=False).artifact
    misread(monkeypatch, [k for k, name in enumerate(network_operators(path)) if name.startswith("conv")])
    differing = tw.compile(path, "tiny", cache=False, compare=False).artifact
    entries = [{**e, "exact": "3 of 4 channels, the others within 1 LSB"} for e in sound.options["operators"]]
    first = replace(differing, options={**differing.options, "operators": entries})

    def agreed(of_proven: Any, within: bool) -> Any:
        made = lambda left, exact: of_proven if exact == "proven" else first  # noqa: E731
        return agreement.agreed(first, open_of(path), 1, made, lambda _: within, lambda *_: None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = agreed(sound, True)
    assert found.programs == first.programs
    assert "by operators that are not proven" in found.options["compared"]
    for of_proven, within in ((sound, False), (first, True)):
        with pytest.raises(Disagreement):
            agreed(of_proven, within)


def open_of(path: Path) -> Source:
    from tilewright.jit.source import open_source

    return open_source(path)


def test_what_takes_long_is_not_compared_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MOST_WORK", 1000)
    exe = tw.compile(tflite(tmp_path / "net.tflite"), "tiny", cache=False)
    words = "an inference takes long in ai-edge-litert's reference kernels"
    assert exe.artifact.options["uncompared"] == words
    _, report = exe.run(images(tmp_path / "net.tflite"))
    assert any(words in note for note in report.notes)


@pytest.mark.parametrize(("scale", "step", "equal"), [(1.0, 1e-7, True), (1.0, 1e-4, False), (0.5, 1e-7, False)])
def test_float_sums_may_differ_in_the_last_place_and_dequantised_integers_may_not(
    scale: float, step: float, equal: bool, tmp_path: Path
) -> None:
    artifact = tw.compile(onnx(tmp_path / "net.onnx"), "tiny", cache=False).artifact
    oracle = agreement.oracle_of(open_of(tmp_path / "net.onnx"), artifact, 1)
    assert not isinstance(oracle, str)
    other = replace(oracle, outputs=[(y * np.float32(1 + step)).astype(np.float32) for y in oracle.outputs])
    (spec,) = artifact.outputs
    artifact = replace(artifact, outputs=(replace(spec, scale=scale),))
    assert not oracle.difference(artifact)
    assert bool(other.difference(artifact)) != equal


def test_an_interpreter_that_gives_other_values_each_time_is_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(agreement, "outputs_of", lambda *_: [rng.integers(-128, 128, (2, 6, 6, 4)).astype(np.int8)])
    exe = tw.compile(tflite(tmp_path / "net.tflite"), "tiny", cache=False)
    assert exe.artifact.options["uncompared"] == "ai-edge-litert gives other values each time"


def test_indices_are_tried_small_where_their_type_allows_more(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=2)
    table = b.tensor([10, 4], 0.05, 3, data=b.rng.integers(-128, 128, (10, 4)).astype(np.int8))
    indices = b.tensor([1, 3], dtype="int32")
    picked = b.op("GATHER", [table, indices], b.tensor([1, 3, 4], 0.05, 3), "GatherOptions", Axis=0)
    path = b.save(tmp_path / "gather.tflite", [indices], [picked])
    exe = tw.compile(path, "tiny", cache=False)
    assert exe.artifact.options["compared"].startswith("equal to ai-edge-litert")


@pytest.mark.parametrize(
    ("wrong", "found"),
    [([], []), ([0], [0]), ([6], [6]), ([1, 4], [4, 1]), ([0, 1, 2, 3, 4], [*range(7)])],
)
def test_culprits(wrong: list[int], found: list[int]) -> None:
    assert culprits(7, lambda left: not set(wrong) <= set(left)) == found
    assert culprits(7, lambda left: True) is None
