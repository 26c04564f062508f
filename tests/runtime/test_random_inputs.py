"""Inputs that are drawn where none are given cover what their tensors can hold."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.steps import TensorSpec


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_integers_reach_both_ends(dtype: str) -> None:
    (drawn,) = random_inputs((TensorSpec("x", (1, 600, 1000), dtype),), 0, 2)
    assert (drawn.shape, drawn.dtype) == ((2, 600, 1000), np.dtype(dtype))
    assert (drawn.min(), drawn.max()) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


def test_floats_are_what_the_quantisation_covers() -> None:
    tensor = TensorSpec("x", (1, 100, 100), "float32", zero_point=28, scale=0.5)
    (drawn,) = random_inputs((tensor,), 0, 1)
    assert drawn.dtype == np.float32
    assert (drawn.min(), drawn.max()) == ((-128 - 28) * 0.5, (127 - 28) * 0.5)
    assert (drawn * 2 == np.round(drawn * 2)).all()
