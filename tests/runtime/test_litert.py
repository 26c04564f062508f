"""LiteRT runs sound models, and a damaged one is an error here whatever it does there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.litert_models import DAMAGED, SOUND, Net, edited, numbers, tensor
from tilewright.config import PRESETS
from tilewright.errors import TilewrightError
from tilewright.runtime import interpreters
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.litert.schema import schema
from tilewright.runtime.steps import InterpreterStep, TensorSpec

pytest.importorskip("ai_edge_litert")


def _ids(nets: list[Net]) -> list[str]:
    return [f"{net.kind}-{k}" for k, net in enumerate(nets)]


def _given(net: Net) -> list[np.ndarray]:
    """Ones for each input of the graph."""
    inputs = [t for k, t in enumerate(net.inputs) if t.data is None and not t.variable and k not in net.left_out]
    return [np.ones(t.shape, t.dtype) for t in inputs]


@pytest.mark.parametrize("net", SOUND, ids=_ids(SOUND))
@pytest.mark.parametrize("fast", [False, True])
def test_a_sound_operator_runs(net: Net, fast: bool, tmp_path: Path) -> None:
    model = net.save(tmp_path / "m.tflite")
    results = interpreters.load("litert", model, net.kind, fast=fast)(_given(net))
    assert [(y.shape, y.dtype.name) for y in results] == [(t.shape, t.dtype) for t in net.outputs]


@pytest.mark.parametrize("net", DAMAGED, ids=_ids(DAMAGED))
def test_a_damaged_operator_is_an_error_that_names_the_model(net: Net, tmp_path: Path) -> None:
    model = net.save(tmp_path / "m.tflite")
    with pytest.raises(InterpreterError) as refused:
        interpreters.load("litert", model, "m.tflite")(_given(net))
    message = str(refused.value)
    assert message.startswith("m.tflite: "), message
    assert "\n" not in message
    with contextlib.suppress(InterpreterError):  # the faster kernels take some of them
        interpreters.load("litert", model, "m.tflite", fast=True)(_given(net))


@pytest.mark.parametrize("net", DAMAGED, ids=_ids(DAMAGED))
def test_compiling_and_running_a_damaged_operator_is_an_error(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(net.save(path))
    with pytest.raises(TilewrightError, match=rf"m\.tflite|op000_{net.kind}"):
        tw.compile(path, "tiny", cache=False).run([x if x.shape[:1] == (1,) else x[None] for x in _given(net)])


def test_a_model_that_ends_litert_is_refused_with_its_count_of_operators(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    _sum = next(net for net in DAMAGED if net.kind == "ADD")
    path.write_bytes(_sum.save(path))
    with pytest.raises(TilewrightError, match=r"m\.tflite: LiteRT cannot run it: .* by SIGABRT \(it has 1 operators\)"):
        tw.compile(path, "tiny", cache=False)


def _sparse(folder: Path) -> bytes:
    """DENSIFY of 2 x 4 floats, the second dimension compressed."""

    def edit(model: Any, _: Any) -> None:
        s = schema()
        sparsity = s.SparsityParametersT()
        sparsity.traversalOrder, levels = [0, 1], [s.DimensionMetadataT() for _ in range(2)]
        levels[0].denseSize = 2
        levels[1].format = 1
        for name, values in (("Segments", [0, 1, 2]), ("Indices", [3, 0])):
            vector = s.Int32VectorT()
            vector.values = values
            setattr(levels[1], f"array{name}Type", s.SparseIndexVector.Int32Vector)
            setattr(levels[1], f"array{name}", vector)
        sparsity.dimMetadata = levels
        model.subgraphs[0].tensors[0].sparsity = sparsity
        model.subgraphs[0].tensors[0].shape = [2, 4]

    return Net("DENSIFY", [tensor([2], data=[5, 7])], [tensor([2, 4])], edit=edit).save(folder / "s.tflite")


def test_a_sparse_constant_runs(tmp_path: Path) -> None:
    run = interpreters.load("litert", _sparse(tmp_path), "sparse")
    assert run([])[0].tolist() == [[0, 0, 0, 5], [7, 0, 0, 0]]


def test_bytes_that_are_no_model_are_refused_in_words(tmp_path: Path) -> None:
    sound = SOUND[0].save(tmp_path / "m.tflite")
    far = edited(sound, lambda model, op: setattr(op, "inputs", [0, 99]))
    for content in (b"", b"TFL3", sound[: len(sound) // 2], far):
        with pytest.raises(InterpreterError, match="x: ai-edge-litert cannot load them: ."):
            interpreters.load("litert", content, "x")


# -- artifacts -------------------------------------------------------------------------------------------


def _artifact(model: bytes) -> Artifact:
    step = InterpreterStep(("x",), ("y",), "part", "litert", ("op000_FAKE_QUANT",))
    x, y = (TensorSpec(name, (4,), "float32") for name in "xy")
    return Artifact("net", PRESETS["tiny"], (), (step,), (x,), (y,), blobs={"part": model})


def test_a_damaged_part_of_an_artifact_is_an_error_when_it_runs(tmp_path: Path) -> None:
    net = Net("FAKE_QUANT", [tensor([4])], [tensor([4])], "FakeQuantOptions", {"max": 1.0, "numBits": 8})
    wrong = Net("RESHAPE", [tensor([4]), numbers(4)], [tensor([4])], "ReshapeOptions", left_out=(1,))
    sound, damaged = (n.save(tmp_path / "m.tflite") for n in (net, wrong))
    again = Artifact.from_bytes(_artifact(sound).to_bytes())
    assert Executable(again).run(np.ones((1, 4), np.float32))[0].tolist() == [[1.0] * 4]
    loaded = Executable(Artifact.from_bytes(_artifact(damaged).to_bytes()))
    with pytest.raises(InterpreterError, match="op000_FAKE_QUANT: .* ended the process of the kernels"):
        loaded.run(np.ones((1, 4), np.float32))
