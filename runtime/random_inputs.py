"""Inputs for a network where nobody gives any."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.executable import element_shape
from tilewright.runtime.steps import TensorSpec

_MOST = 8  #: sample inputs
_USUAL_WORK = 1_000_000_000  #: multiply-accumulates of all of them: some 2 s of LiteRT's reference kernels
_UNKNOWN = 1 / 64  #: scale of a float input that nothing quantises: values up to 2, as of images of variance 1


def random_inputs(
    tensors: tuple[TensorSpec, ...], seed: int, count: int, limits: Mapping[str, int] = MappingProxyType({})
) -> list[NDArray[Any]]:
    """Seeded inputs over the whole range of each tensor (floats: over the range that its quantisation covers; texts: of
    a digit; indices: below the ``limits`` of their tensors, by name)."""
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
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            if tensor.name in limits:
                low, high = 0, min(high, max(0, limits[tensor.name] - 1))
            arrays.append(rng.integers(low, high, shape, dtype=dtype, endpoint=True))
    return arrays


def probing_inputs(tensors: tuple[TensorSpec, ...], seed: int, count: int) -> list[NDArray[Any]]:
    """Seeded inputs that show what a network computes: noise, the ends of each tensor's range, waves, and small values
    about the middle, in turn. Floats lie between the steps of their quantisation, and somewhat beyond its range; texts
    are of a digit."""
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in tensors:
        dtype, shape = np.dtype(tensor.dtype), element_shape(tensor)
        places = np.stack([_places(k % 4, shape, rng) for k in range(count)])
        if dtype.kind == "b":
            arrays.append(places >= 0.5)
        elif dtype.kind == "O":
            arrays.append(np.rint(places).astype(int).astype(str).astype(dtype))
        elif dtype.kind == "f":
            scale = _UNKNOWN if (tensor.scale, tensor.zero_point) == (1.0, 0) else tensor.scale
            values = 127.5 * (2.2 * places - 1.1) - 0.5 - tensor.zero_point
            arrays.append((values * scale).astype(dtype))
        else:
            low, high = (
                int(np.clip(limit, -(2.0**53), 2.0**53)) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max)
            )
            arrays.append(np.rint(low + (high - low) * places).astype(dtype))
    return arrays


def sample_inputs(tensors: tuple[TensorSpec, ...], seed: int, work: int) -> list[NDArray[Any]]:
    """As :func:`probing_inputs`, as many as an interpreter computes in seconds, of ``work`` multiply-accumulates each.

    Integers of more than 16 bits are 0 and 1: they may be indices, sizes, or how often a loop goes round.
    """
    count = max(1, min(_MOST, _USUAL_WORK // max(1, work)))
    wide = [np.dtype(t.dtype).kind in "iu" and np.dtype(t.dtype).itemsize > 2 for t in tensors]
    drawn = probing_inputs(tensors, seed, count)
    return [np.abs(x % 2) if large else x for x, large in zip(drawn, wide)]


def _places(kind: int, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Where in its range, from 0 to 1, each element of an input lies."""
    noise = rng.random(shape)
    if kind == 1:
        return np.rint(noise)
    if kind == 2:
        wave = np.sin(np.linspace(0, 9, noise.size)).reshape(shape)
        return np.clip(0.5 + 0.45 * wave + 0.05 * (noise - 0.5), 0, 1)
    return 0.45 + 0.1 * noise if kind == 3 else noise
