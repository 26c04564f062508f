"""What a file calls a state, and operators or the network's user set or read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.jit.tflite_models import litert
from tilewright.jit.errors import ModelError
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.file import File
from tilewright.runtime.litert.schema import read_model, written

pytest.importorskip("ai_edge_litert")


def lstm(path: Path) -> tuple[int, int]:
    """A file with one LSTM on (1, 4, 6), of five units; its hidden state and its cell."""
    net = TfliteNet(seed=5)
    x = net.input((1, 4, 6), scale=1 / 64)
    net.save(path, [net.lstm(x, 5, hidden_zero_point=3)])
    hidden, cell = (k for k, tensor in enumerate(net.tensors) if tensor.variable)
    return hidden, cell


def svdf(path: Path) -> tuple[int]:
    """A file with one SVDF on (1, 6), of four units; its state."""
    net = TfliteNet(seed=5)
    net.save(path, [net.svdf(net.input((1, 6)), 4)])
    (state,) = (k for k, tensor in enumerate(net.tensors) if tensor.variable)
    return (state,)


def change(path: Path, edit: Callable[[Any, Any], None]) -> None:
    """A file with its model and main subgraph changed."""
    model = read_model(path.read_bytes())
    edit(model, model.subgraphs[0])
    path.write_bytes(written(model))


def drawn(path: Path) -> list[NDArray[Any]]:
    """Numbers over the whole range of each input."""
    rng = np.random.default_rng(1)
    kinds = ((t.shape, np.iinfo(t.dtype)) for t in (File(path).tensors[i] for i in File(path).inputs))
    return [rng.integers(info.min, info.max + 1, shape).astype(info.dtype) for shape, info in kinds]


def assert_as_litert(path: Path) -> tw.Executable:
    exe = tw.compile(path, config="tiny", cache=False)
    inputs = drawn(path)
    found = exe(inputs[0] if len(inputs) == 1 else inputs)
    wanted = litert(path, inputs)
    for y, reference in zip(found if isinstance(found, list) else [found], wanted, strict=True):
        np.testing.assert_array_equal(y.reshape(reference.shape), reference)
    return exe


@pytest.mark.parametrize(("made", "which"), [(lstm, 0), (lstm, 1), (svdf, 0)], ids=["hidden", "cell", "svdf"])
def test_a_state_that_is_an_input_is_taken_from_it(made: Callable[[Path], Any], which: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    state = made(path)[which]
    change(path, lambda _, main: setattr(main, "inputs", [*main.inputs, state]))
    exe = assert_as_litert(path)
    (operator,) = exe.artifact.options["operators"]
    assert (operator["place"], "something else sets or reads" in operator["reason"]) == ("interpreter", True)


@pytest.mark.parametrize(("made", "which"), [(lstm, 0), (lstm, 1), (svdf, 0)], ids=["hidden", "cell", "svdf"])
def test_a_state_that_is_an_output_is_given(made: Callable[[Path], Any], which: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    state = made(path)[which]
    change(path, lambda _, main: setattr(main, "outputs", [*main.outputs, state]))
    assert len(assert_as_litert(path).outputs) == 2


def test_a_state_that_is_given_and_read_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    hidden, _ = lstm(path)

    def edit(_: Any, main: Any) -> None:
        main.inputs, main.outputs = [*main.inputs, hidden], [*main.outputs, hidden]

    change(path, edit)
    with pytest.raises(ModelError, match=rf"operator 0 \(UNI.*LSTM\) changes tensor {hidden} .* read elsewhere, too"):
        tw.compile(path, config="tiny", cache=False)


@pytest.mark.parametrize("which", ["given", "computed", "computed by the interpreter"])
def test_what_is_given_or_computed_is_no_state(which: str, tmp_path: Path) -> None:
    """It goes from one operator to the next, wherever these run."""
    path = tmp_path / "m.tflite"
    net = TfliteNet(seed=2)
    x = net.input((1, 4, 4, 8))
    y = net.conv(x, 8, kernel=3)
    z = net.space_to_batch(y, 2, [[0, 0], [0, 0]])  # which stays with the interpreter
    net.save(path, [net.conv(z, 4, kernel=1)])
    chosen = int({"given": x, "computed": y}.get(which, z).key)
    change(path, lambda _, main: setattr(main.tensors[chosen], "isVariable", True))
    exe = assert_as_litert(path)
    assert not exe.stateful
    assert "interpreter" in {o["place"] for o in exe.artifact.options["operators"]}


def test_parts_do_not_call_a_state_what_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    net = TfliteNet(seed=2)
    y = net.space_to_batch(net.input((1, 4, 4, 8)), 2, [[0, 0], [0, 0]])
    net.save(path, [net.batch_to_space(y, 2, [[0, 0], [0, 0]])])
    change(path, lambda _, main: setattr(main.tensors[int(y.key)], "isVariable", True))
    file = File(path)
    part = read_model(cut(file, [0, 1], file.inputs, file.outputs, {}, {}))
    assert not any(tensor.isVariable for tensor in part.subgraphs[0].tensors)
    states = set(lstm(path))
    file = File(path)
    part = read_model(cut(file, [0], file.inputs, file.outputs, {}, {}))
    assert sum(bool(tensor.isVariable) for tensor in part.subgraphs[0].tensors) == len(states)
