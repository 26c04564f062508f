"""A pytest plugin for NUMBA_DISABLE_JIT=1: the simulator's kernels as Python, in NumPy what they have written as IR.

``NUMBA_DISABLE_JIT=1 python -m pytest -p tests.campaigns.interpreted tests/sim``: a changed kernel is tried without the
minute that compiling takes, and ``coverage run`` sees its lines.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import Combine
from tilewright.sim import array, blocks, functional, move, scaling, vector

COMBINED = {Combine.ADD: np.add, Combine.MAX: np.maximum, Combine.MIN: np.minimum}


def at(address: int, kind: Any, count: int) -> NDArray[Any]:
    """The numbers at an address, to be written too."""
    return np.ctypeslib.as_array((kind * count).from_address(int(address)))


def copy_bytes(target: int, source: int, count: int) -> None:
    ctypes.memmove(int(target), int(source), int(count))


def copy_pair(target: int, source: int) -> None:
    copy_bytes(target, source, 2)


def read_int32(address: int) -> np.int64:
    return np.int64(at(address, ctypes.c_int32, 1)[0])


def read_int8(address: int) -> np.int64:
    return np.int64(at(address, ctypes.c_int8, 1)[0])


def add_pair(acc: NDArray[Any], x: Any, y: Any, weights: NDArray[Any]) -> None:
    acc += (x * weights[::2] + y * weights[1::2]).astype(np.int32)


def dense(lanes: int, acc: int, act: int, wgt: int, stride: int, keep: int) -> None:
    total, x = at(acc, ctypes.c_int32, lanes), at(act, ctypes.c_int8, lanes).astype(np.int64)
    total *= bool(keep)
    for k in range(0, lanes, 2):
        add_pair(total, x[k], x[k + 1], at(wgt + stride * (k // 2), ctypes.c_int8, 2 * lanes).astype(np.int64))


def window(lanes: int, acc: int, newest: int, back: int, wgt: int, keep: int) -> None:
    total = at(acc, ctypes.c_int32, lanes)
    total *= bool(keep)
    first, second = (at(a, ctypes.c_int8, lanes).astype(np.int64) for a in (newest, newest - back))
    add_pair(total, first, second, at(wgt, ctypes.c_int8, 2 * lanes).astype(np.int64))


def scaled(lanes: int, x: NDArray[Any], prm: int, stride: int, added: int, even: int) -> NDArray[np.int64]:
    """``isa.arithmetic.scale_round`` of x + bias, with a prm entry as the kernels lay it out."""
    rows = {row: at(prm + row * stride, ctypes.c_int64, lanes) for row in (*range(scaling.ADDED), added, added + 1)}
    biased = (x + rows[scaling.BIAS]).astype(np.int32).astype(np.int64)
    total = biased * rows[scaling.MULTIPLIER] + np.where(biased < 0, rows[added + 1], rows[added])
    result = total >> rows[scaling.SHIFT]
    tie = total & rows[scaling.TIE_MASK] == 0
    return np.asarray(result - np.where(tie, result & rows[scaling.TIE_BIT] & even, 0))


def requantize(
    lanes: int, act: int, acc: int, prm: int, stride: int, added: int, even: int, zero: int, low: int, high: int
) -> None:
    y = scaled(lanes, at(acc, ctypes.c_int32, lanes).astype(np.int64), prm, stride, added, even) + zero
    at(act, ctypes.c_int8, lanes)[:] = np.minimum(np.maximum(y, low), high).astype(np.int8)


def rescale(lanes: int, acc: int, act: int, prm: int, stride: int, added: int, even: int, combine: int) -> None:
    x = at(act, ctypes.c_int8, lanes).astype(np.int64) << RESCALE_LEFT_SHIFT
    r, old = scaled(lanes, x, prm, stride, added, even).astype(np.int32), at(acc, ctypes.c_int32, lanes)
    old[:] = r if combine == Combine.WRITE else COMBINED[Combine(combine)](old, r)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Tests of speed say nothing of code that is not compiled, and whole networks take hours."""
    return True if collection_path.name == "test_speed.py" else None


def pytest_configure() -> None:
    """Put the above in place of what only compiled code can call; a row of a table gets its fields as attributes."""
    run: Any = functional._run
    fill = functional.fill
    if hasattr(run, "py_func"):
        raise pytest.UsageError("tests.campaigns.interpreted needs NUMBA_DISABLE_JIT=1")

    def fill_wrapped(row: Any, memories: Any, shape: Any) -> None:
        """NumPy refuses numbers that compiled code cuts off."""
        if row.memory == move.ACT:
            row = row.copy()
            row.value = (row.value + 128 & 255) - 128
        fill(row, memories, shape)

    replaced: list[tuple[Any, str, Any]] = [
        (module, function.__name__, function)
        for function in (copy_bytes, copy_pair, read_int32, read_int8)
        for module in (array, move, vector)
        if hasattr(module, function.__name__)
    ]
    replaced += [(blocks, "_dense", dense), (blocks, "_window", window), (scaling, "_requantize", requantize)]
    replaced += [(scaling, "_rescale", rescale), (functional, "fill", fill_wrapped)]
    replaced += [(functional, "_run", lambda table, *others: run(table.view(np.recarray), *others))]
    for module, name, function in replaced:
        setattr(module, name, function)
