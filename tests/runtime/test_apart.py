"""Models whose numbers may end LiteRT's process: they run in another one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.litert_models import Net, tensor
from tilewright.runtime.apart import Apart
from tilewright.runtime.interpreters import InterpreterError, UnsafeModel, _Litert, _loaded, load

pytest.importorskip("ai_edge_litert")


def softmax(classes: int, tmp_path: Path, scale: float = 0.1) -> bytes:
    x, y = tensor([1, classes], "int8", scale), tensor([1, classes], "int8", 1 / 256, zero=-128)
    return Net("SOFTMAX", [x], [y], "SoftmaxOptions", {"beta": 1.0}).save(tmp_path / "softmax.tflite")


def runs_apart(model: bytes) -> bool:
    return isinstance(_loaded("litert", model, "m", False), Apart)


def test_a_sum_that_ends_the_reference_kernel_is_an_error_and_the_next_load_goes_on(tmp_path: Path) -> None:
    model = softmax(1000, tmp_path)
    flat = np.zeros((1, 1000), np.int8)
    run = load("litert", model, "m")
    for _ in range(2):  # and so it stays
        with pytest.raises(InterpreterError, match="m: these numbers ended the process of the kernels, by SIGABRT"):
            run([flat])
    peaked = np.where(np.arange(1000) == 7, 127, -128).astype(np.int8)[None]
    (y,) = load("litert", model, "m")([peaked])
    assert y.dtype == np.int8
    assert y[0, 7] == 127
    assert (np.delete(y[0], 7) == -128).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_numbers_that_only_an_inference_tells_are_not_taken_here(dtype: str, tmp_path: Path) -> None:
    x = tensor([2], dtype)
    run = load("litert", Net("FLOOR_MOD", [x, x], [x], "FloorModOptions").save(tmp_path / "m.tflite"), "m")
    least = np.iinfo(dtype).min
    (y,) = run([np.array([7, least], dtype), np.array([-4, 3], dtype)])
    np.testing.assert_array_equal(y, np.array([7, least]) % np.array([-4, 3]))
    with pytest.raises(InterpreterError, match="by SIGFPE"):
        run([np.full(2, least, dtype), np.full(2, -1, dtype)])


def test_only_what_may_end_it_runs_apart(tmp_path: Path) -> None:
    assert not runs_apart(softmax(511, tmp_path))
    assert runs_apart(softmax(512, tmp_path))
    x = tensor([2], "int32")
    divided = Net("FLOOR_MOD", [x, tensor([2], "int32", data=[3, 5])], [x], "FloorModOptions")
    assert not runs_apart(divided.save(tmp_path / "m.tflite"))


def test_what_is_said_there_is_said_here(tmp_path: Path) -> None:
    run = load("litert", softmax(1000, tmp_path), "m")
    with pytest.raises(InterpreterError, match="m: takes 1 inputs, 2 given"):
        run([np.zeros((1, 1000), np.int8)] * 2)
    with pytest.raises(RuntimeError, match="m: no sound .tflite model"):
        Apart(_Litert, b"no model", "m")


def test_what_is_unsound_in_itself_is_refused_here(tmp_path: Path) -> None:
    with pytest.raises(UnsafeModel, match="the scale 1e-09"):
        load("litert", softmax(1000, tmp_path, scale=1e-9), "m")


def test_the_process_ends_with_the_interpreter(tmp_path: Path) -> None:
    run = _loaded("litert", softmax(1000, tmp_path), "m", False)
    assert isinstance(run, Apart)
    process = run._process
    assert process.poll() is None
    del run
    assert process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
