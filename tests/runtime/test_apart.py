"""Interpreters in processes of their own: what ends or hangs those is an error here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.litert_models import SOUND, Net, tensor
from tests.runtime.test_litert_subgraphs import loop
from tilewright.runtime import apart
from tilewright.runtime.apart import Apart, Ended
from tilewright.runtime.interpreters import InterpreterError, load
from tilewright.runtime.litert.kernels import Kernels

pytest.importorskip("ai_edge_litert")


def softmax(classes: int, tmp_path: Path, scale: float = 0.1) -> bytes:
    x, y = tensor([1, classes], "int8", scale), tensor([1, classes], "int8", 1 / 256, zero=-128)
    return Net("SOFTMAX", [x], [y], "SoftmaxOptions", {"beta": 1.0}).save(tmp_path / "softmax.tflite")


def is_gone(process: int) -> bool:
    """Within ten seconds."""
    for _ in range(1000):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


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
def test_a_division_that_ends_the_process_is_an_error(dtype: str, tmp_path: Path) -> None:
    x = tensor([2], dtype)
    run = load("litert", Net("FLOOR_MOD", [x, x], [x], "FloorModOptions").save(tmp_path / "m.tflite"), "m")
    least = np.iinfo(dtype).min
    (y,) = run([np.array([7, least], dtype), np.array([-4, 3], dtype)])
    np.testing.assert_array_equal(y, np.array([7, least]) % np.array([-4, 3]))
    with pytest.raises(InterpreterError, match="by SIGFPE"):
        run([np.full(2, least, dtype), np.full(2, -1, dtype)])


def test_a_loop_without_end_is_an_error_behind_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load("litert", loop(tmp_path), "while")
    monkeypatch.setattr(apart, "LIMIT", 1.0)
    with pytest.raises(InterpreterError, match="while: these numbers took the kernels longer than 1 s"):
        run([np.zeros(1, np.float32)])
    assert is_gone(run.run._process.number)  # type: ignore[attr-defined]


def test_what_is_said_there_is_said_here(tmp_path: Path) -> None:
    run = load("litert", softmax(1000, tmp_path), "m")
    with pytest.raises(InterpreterError, match="m: takes 1 inputs, 2 given"):
        run([np.zeros((1, 1000), np.int8)] * 2)
    with pytest.raises(RuntimeError, match="model"):
        Apart(Kernels, b"no model", False)


def test_a_model_has_a_process_that_the_same_is_made_in_anew(tmp_path: Path) -> None:
    first, other = (Apart(Kernels, SOUND[k].save(tmp_path / "m.tflite"), False) for k in (0, 1))
    assert first._process.number != other._process.number
    assert Apart(Kernels, SOUND[0].save(tmp_path / "m.tflite"), False)._process.number != first._process.number
    number = first._process.number
    del first
    assert number in {process.number for _, process in apart._IDLE}


def test_processes_that_are_long_idle_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_KEPT", 0)
    run = Apart(Kernels, softmax(8, tmp_path), False)
    number = run._process.number
    del run
    assert is_gone(number)


def test_processes_end_with_the_one_that_asked_for_them() -> None:
    code = "from tilewright.runtime.apart import *; import os, time; a = Apart(time.sleep, 0); print(a._process.number)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_gone(int(done.stdout))


def test_a_server_that_is_ended_is_started_again(tmp_path: Path) -> None:
    run = Apart(Kernels, softmax(8, tmp_path), False)
    assert apart._server is not None
    apart._server[2].kill()
    apart._server[2].wait()
    os.kill(run._process.number, 9)
    x = np.zeros((1, 8), np.int8)
    with pytest.raises(Ended, match="these numbers ended the process of the kernels, with what forked it"):
        run([x])
    assert Apart(Kernels, softmax(8, tmp_path), False)([x])[0].shape == (1, 8)


def test_a_forked_process_has_interpreters_of_its_own(tmp_path: Path) -> None:
    run = Apart(Kernels, softmax(8, tmp_path), False)
    x, said = np.zeros((1, 8), np.int8), os.pipe()
    if not (child := os.fork()):
        try:
            run([x])
        except Ended as error:
            os.write(said[1], f"{error}; {Apart(Kernels, softmax(8, tmp_path), False)([x])[0].shape}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(said[0], 200).decode() == "loaded before this process was forked; load the model again; (1, 8)"
    assert run([x])[0].shape == (1, 8)
