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
from tilewright.jit.exactness import LayerDifference
from tilewright.jit.source.base import Built, Source
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.jit.source.tflite.source import TfliteSource

LAYERS = 5
AVERAGE = "averagepool5"  #: of :func:`ties`
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
    for kind in (OnnxSource, TfliteSource):

        def build(source: Source, host: Any, built: Callable[..., Built] = kind.build) -> Built:
            found = built(source, host)
            for k, op in enumerate(found.graph.ops):
                if isinstance(op, g.Conv2D) and set(op.covers) & set(positions):
                    other = replace(op.requant, zero_point=op.requant.zero_point - 2)
                    found.graph.ops[k] = replace(op, requant=other)
            return found

        monkeypatch.setattr(kind, "build", build)


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


def ties(path: Path) -> Path:
    """Averages of four, every fourth of which is a tie that float32 decides."""
    b = QdqBuilder(seed=5)
    x = b.input([1, 6, 12, 12], "int8", 0.03, 0)
    y = b.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    y = b.quantised(y, 0.03, 1)
    return b.save(path, y, [1, 6, 6, 6], "int8")


def test_close_results_may_differ_and_every_command_says_by_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ties(tmp_path / "net.onnx")
    exe = tw.compile(path, "tiny", exact="close")
    assert places(exe)[AVERAGE] == "accelerator"
    (entry,) = exe.artifact.options["measured"]
    x = agreement.oracle_of(open_of(path), exe.artifact, 1)
    assert not isinstance(x, str)
    wrong = exe.run(x.inputs)[0].astype(int) - x.outputs[0]
    signal = (x.outputs[0].astype(int) - exe.outputs[0].zero_point).astype(float)
    assert entry["differ"] == np.count_nonzero(wrong) > 0
    assert entry["largest"] == np.abs(wrong).max() == 1
    assert entry["mean"] == pytest.approx(np.abs(wrong).mean())
    assert entry["snr_db"] == pytest.approx(10 * np.log10((signal**2).sum() / (wrong**2).sum()))
    words = f"{entry['differ']:,} of {entry['elements']:,} elements differ, by at most 1 LSB and on average"
    commands = (["run", str(path)], ["inspect", str(path)], ["compile", str(path), "-o", str(tmp_path / "net.twa")])
    for command in commands:
        assert main([*command, "--config", "tiny", "--exact", "close"]) == 0
        assert words in capsys.readouterr().out
    assert main(["run", str(tmp_path / "net.twa")]) == 0
    assert words in capsys.readouterr().out


def test_by_default_what_is_measured_to_differ_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the averages count as layers with weights, so that they are on the accelerator first."""
    path = ties(tmp_path / "net.onnx")
    monkeypatch.setattr(OnnxSource, "_refuse_doubtful", lambda *_: None)
    source = open_of(path)
    x = np.random.default_rng(0).integers(-128, 128, (2, 6, 12, 12)).astype(np.int8)
    (layer,) = source.differing([x])
    assert (source.operators[layer.position].kind, layer.largest, layer.bound) == ("AveragePool", 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Misread)
        exe = tw.compile(path, "tiny", cache=False)
    assert places(exe)[AVERAGE] == "interpreter"
    assert "measured to differ from onnxruntime by 1 LSB" in dict(exe.artifact.options["moved"])[AVERAGE]
    assert exe.artifact.options["compared"].startswith("equal to onnxruntime on 8 inputs")


def test_what_differs_by_more_than_is_stated_was_misread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ties(tmp_path / "net.onnx")
    monkeypatch.setattr(OnnxSource, "_refuse_doubtful", lambda *_: None)
    positions = [op.index for op in open_of(path).operators if op.kind == "AveragePool"]
    monkeypatch.setattr(OnnxSource, "differing", lambda *_: [LayerDifference(positions[0], 7, 1)])
    with pytest.warns(Misread, match=f"{AVERAGE}: computed otherwise"):
        exe = tw.compile(path, "tiny", cache=False)
    assert places(exe)[AVERAGE] == "interpreter"


def open_of(path: Path) -> Source:
    from tilewright.jit.source import open_source

    return open_source(path)


def test_what_takes_long_is_not_compared_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MOST_WORK", 1000)
    exe = tw.compile(tflite(tmp_path / "net.tflite"), "tiny", cache=False)
    words = "an inference takes long in ai-edge-litert's reference kernels"
    assert exe.artifact.options["uncompared"] == words
    _, report = exe.run(images(tmp_path / "net.tflite"))
    assert any(words in line for line in report.to_dict()["measured"])


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
