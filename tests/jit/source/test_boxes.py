"""Operators are asked where they have the elements of their results from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.boxes import asked

Bytes = NDArray[np.uint8]


@pytest.mark.parametrize("count", [1, 2, 256, 257, 70_000])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_elements_are_followed_however_many_there_are(kind: type[Any], count: int) -> None:
    order = np.random.default_rng(0).integers(0, count, (5, 7))
    (found,) = asked(lambda x: [x.astype(kind)[order]], count)
    np.testing.assert_array_equal(found, order)


@pytest.mark.parametrize("fill", [0, 127, 128, 255])
def test_what_an_operator_writes_itself_is_told_apart(fill: int) -> None:
    first, second = asked(lambda x: [np.pad(x, (1, 2), constant_values=fill), x[::-1]], 4)
    assert first.tolist() == [-1, 0, 1, 2, 3, -1, -1]
    assert second.tolist() == [3, 2, 1, 0]


def test_numbers_that_no_byte_holds_are_an_operator_s_own() -> None:
    (found,) = asked(lambda x: [np.concatenate([x.astype(np.float32), [np.inf, -np.inf, 3.5]])], 2)
    assert found.tolist() == [0, 1, -1, -1, -1]


@pytest.mark.parametrize("operator", [lambda x: np.maximum(x, x[::-1]), lambda x: x // 2 + x[::-1] // 2])
def test_what_is_computed_is_no_element(operator: Callable[[Bytes], Bytes]) -> None:
    (found,) = asked(lambda x: [operator(x)], 300)
    assert (found == -1).all()


def test_an_operator_whose_places_depend_on_the_numbers_is_refused() -> None:
    def operator(x: Bytes) -> list[Bytes]:
        return [x if np.ptp(np.diff(x[:4].astype(int))) == 0 else x[::-1]]

    with pytest.raises(Unsupported, match="more than elements at other places"):
        asked(operator, 300)
