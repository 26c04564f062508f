"""Small problems are interpreted, with the numbers of compiled code, and large ones or many compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.isa import compiled
from tilewright.isa.machine_code import MachineCode


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    code = MachineCode("test")
    monkeypatch.setattr(code, "folder", None)

    @compiled.compiler(None)
    def half(x: int) -> int:
        return x // 2

    @compiled.compiler(code, interpretable=True, error_model="numpy")
    def sum_of_halves(values: NDArray[np.int64], divisor: int = 1) -> int:
        total = 0
        for value in values:
            total += half(value) // divisor
        return total

    return sum_of_halves


def test_small_arguments_are_interpreted_and_large_ones_compiled(kernel: Any) -> None:
    values = np.arange(100)
    assert kernel(values) == kernel(values=values, divisor=1) == 2450
    assert not kernel.overloads
    assert kernel(np.arange(compiled.SMALL_NUMBERS + 1), 1) == sum(k // 2 for k in range(compiled.SMALL_NUMBERS + 1))
    assert kernel.overloads
    assert kernel(values) == 2450  # by a signature of its own


def test_patience_ends(kernel: Any) -> None:
    kernel(np.arange(9))
    assert 0 < kernel._interpreted_seconds < compiled.PATIENCE_SECONDS
    kernel._interpreted_seconds = compiled.PATIENCE_SECONDS + 1
    assert kernel(np.arange(9)) == 16
    assert kernel.overloads


def test_arithmetic_is_compiled_code_s(kernel: Any) -> None:
    """A division of array elements by zero and an overflow say nothing, and give the same."""

    @compiled.compiler(None, error_model="numpy")
    def never(values: NDArray[np.int64]) -> int:
        return (values[0] * values[1]) ^ (values[2] // values[3])

    values = np.array([1 << 62, 12, 5, 0])
    small: Any = compiled.compiler(kernel._code, interpretable=True, error_model="numpy")(never.py_func)  # type: ignore[attr-defined]
    with np.errstate(all="raise"):
        assert small(values) == never(values)
    assert not small.overloads


def test_an_exception_ends_the_interpretation(kernel: Any) -> None:
    with pytest.raises(TypeError, match="half|int|NoneType"):
        kernel(np.array([None]))
    assert not compiled._python.here


def test_rows_have_their_fields_and_sums_are_of_64_bits(kernel: Any) -> None:
    """As compiled code has them, also where Python's numbers would be longer or a result comes from compiled code."""
    code = kernel._code

    @compiled.compiler(None, in_python=False)
    def large(x: int) -> int:
        return x << 62

    @compiled.compiler(code, interpretable=True)
    def total(rows: Any, seed: int) -> int:
        found = seed * 3
        for n in range(len(rows)):
            found += 3 * large(rows[n].step) ^ rows[n].count
        return found

    rows = np.array([(1, 7), (3, 5)], [("step", np.int64), ("count", np.int64)])
    interpreted = total(rows, (1 << 63) - 1)
    assert not total.overloads  # type: ignore[attr-defined]
    assert large.overloads  # type: ignore[attr-defined]
    total._interpreted_seconds = compiled.PATIENCE_SECONDS + 1  # type: ignore[attr-defined]
    assert interpreted == total(rows, (1 << 63) - 1)
    assert total.overloads  # type: ignore[attr-defined]


def test_what_would_take_long_is_compiled(kernel: Any) -> None:
    """By the kernel's own estimate, whatever the sizes of its arguments."""

    @compiled.compiler(kernel._code, interpretable=lambda rounds: rounds * 1e-3)
    def count(rounds: int) -> int:
        return rounds + 1

    assert count(10) == 11
    assert not count.overloads  # type: ignore[attr-defined]
    assert count(10_000) == 10_001
    assert count.overloads  # type: ignore[attr-defined]
