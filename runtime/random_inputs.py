"""Inputs for a network where nobody gives any."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.executable import element_shape
from tilewright.runtime.steps import TensorSpec


def random_inputs(tensors: tuple[TensorSpec, ...], seed: int, count: int) -> list[NDArray[Any]]:
    """Seeded inputs over the whole range of each tensor (floats: over the range that its quantisation covers; texts: of
    a digit)."""
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in tensors:
        shape, dtype = (count, *element_shape(tensor)), np.dtype(tensor.dtype)
        if dtype.kind == "f":
            values = (rng.integers(-128, 128, shape) - tensor.zero_point) * np.float32(tensor.scale)
            arrays.append(values.astype(dtype))
        elif dtype.kind == "b":
            arrays.append(rng.integers(0, 2, shape).astype(dtype))
        elif dtype.kind == "O":
            arrays.append(rng.integers(0, 2, shape).astype(str).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return arrays
