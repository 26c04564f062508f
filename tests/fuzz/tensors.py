"""Tensors of a network under construction, and the choice of their quantisation.

Each tensor carries an estimate of its real values (mean and standard deviation), which every operator carries on,
so that scales fit: with the default ``gain`` few values saturate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError

Array = NDArray[Any]

#: real values that each fused activation lets through
ACTIVATION_RANGES = {
    "none": (-math.inf, math.inf),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}
SPAN = 3.0  #: standard deviations that a scale covers


class BuildError(TilewrightError):
    """An operator does not fit the tensors it is given; names the operator and the shapes."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the network. ``key`` is the builder's own handle; ``scale`` is None where it is not quantised."""

    key: Any
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int = 0
    mean: float = 0.0
    std: float = 1.0
    stored: Any = None  #: ONNX: the quantised tensor behind ``key``, None where there is none

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def rms(self) -> float:
        """Root of the mean square of the values."""
        return math.hypot(self.mean, self.std)


@dataclass(frozen=True)
class Range:
    """What is known of the values that a scale must cover: estimate and hard limits."""

    mean: float
    std: float
    low: float = -math.inf
    high: float = math.inf


#: smallest and largest value of the types that NumPy lacks; arrays of them are of int8 or uint8
_NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1)}


def limits(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    if dtype in _NARROW:
        return _NARROW[dtype]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


class Builder:
    """What builders of both kinds of files share. ``dtype``: int8 or uint8, that of activations."""

    def __init__(self, seed: int, dtype: str, power_of_two: bool, weight_bits: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype, self.power_of_two, self.weight_bits = dtype, power_of_two, weight_bits
        self.inputs: list[Tensor] = []
        self.macs = 0

    def _random_constant(self, shape: Sequence[int], scale: float, zero_point: int, dtype: str) -> tuple[Array, Range]:
        """Stored values over all of a type, and what is known of the real ones."""
        low, high = limits(dtype)
        data = self.rng.integers(low, high + 1, tuple(shape)).astype(dtype)
        real = scale * (data.astype(np.float64) - zero_point)
        return data, Range(float(real.mean()), max(float(real.std()), scale))

    @staticmethod
    def _spread(dtype: str, scale: float, zero_point: int | None) -> tuple[int, Range]:
        """The zero point of an input, the middle where none is given, and the range of its values."""
        low, high = limits(dtype)
        zero = (low + high + 1) // 2 if zero_point is None else zero_point
        return zero, Range(scale * ((low + high) / 2 - zero), scale * (high - low) / 3.46)

    @staticmethod
    def _need_rank(name: str, x: Tensor, rank: int) -> None:
        if len(x.shape) != rank:
            raise BuildError(f"{name}: takes a tensor of {rank} axes, not {x.shape}")


def choose_quantisation(
    values: Range, dtype: str, gain: float = 1.0, zero_point: int | None = None, power_of_two: bool = False
) -> tuple[float, int]:
    """Scale and zero point that cover the values; ``gain`` below 1 saturates, above 1 wastes bits."""
    smallest, largest = limits(dtype)
    low = min(0.0, max(values.low, values.mean - SPAN * values.std))
    high = max(0.0, min(values.high, values.mean + SPAN * values.std))
    if high - low < 1e-6:
        low, high = -0.5, 0.5
    if zero_point is None:
        scale = (high - low) / (largest - smallest)
        zero_point = min(largest, max(smallest, round(smallest - low / scale)))
    above, below = largest - zero_point, zero_point - smallest
    needed = [high / above if above else 0.0, -low / below if below else 0.0]
    scale = max(needed) if max(needed) > 0 else (high - low) / (largest - smallest)
    scale *= gain
    if power_of_two:
        scale = 2.0 ** round(math.log2(scale))
    return float(np.float32(scale)), zero_point


def clipped(values: Range, scale: float | None, zero_point: int, dtype: str) -> tuple[float, float]:
    """Mean and standard deviation of what is left of the values in the range of a quantised tensor."""
    low, high = values.low, values.high
    if scale is not None:
        smallest, largest = limits(dtype)
        low, high = max(low, scale * (smallest - zero_point)), min(high, scale * (largest - zero_point))
    if math.isinf(low) and math.isinf(high):
        return values.mean, values.std
    # a normal distribution at nine equally likely places is close enough
    places = values.mean + values.std * np.array([-1.6, -0.97, -0.59, -0.28, 0.0, 0.28, 0.59, 0.97, 1.6])
    kept = np.clip(places, low, high)
    return float(kept.mean()), float(max(kept.std(), 1e-6, 0.01 * (scale or 0.0)))


def pair(value: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """``3`` as (3, 3)."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def broadcast(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an element-wise operator's result."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise BuildError(f"{name}: shapes {shapes} do not go together") from error


def same_output(size: int, stride: int) -> int:
    """Positions of a window over a padded axis ("same")."""
    return -(-size // stride)


def window_output(name: str, size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Positions of a window over an axis."""
    count = (size - ((kernel - 1) * dilation + 1)) // stride + 1
    if count < 1:
        raise BuildError(f"{name}: a window of {kernel} (dilation {dilation}) does not fit {size}")
    return count


def reshaped(name: str, x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a reshape; one -1 stands for the rest."""
    known = math.prod(d for d in shape if d >= 0)
    result = tuple(x.size // max(known, 1) if d < 0 else int(d) for d in shape)
    if math.prod(result) != x.size:
        raise BuildError(f"{name}: {x.shape} to {tuple(shape)}")
    return result


def transposed(name: str, x: Tensor, permutation: Sequence[int]) -> tuple[int, ...]:
    """The shape of a transpose."""
    if sorted(permutation) != list(range(len(x.shape))):
        raise BuildError(f"{name}: {permutation} of {x.shape}")
    return tuple(x.shape[a] for a in permutation)


def squeezed(name: str, x: Tensor, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape without axes of size 1."""
    if any(x.shape[a] != 1 for a in axes):
        raise BuildError(f"{name}: axes {axes} of {x.shape}")
    return tuple(d for a, d in enumerate(x.shape) if a not in axes)


def resized(x: Tensor, axis: int, *sizes: int) -> tuple[int, ...]:
    """The shape with other sizes, or none, in the place of one axis."""
    return (*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


def joined(name: str, xs: Sequence[Tensor], axis: int) -> tuple[tuple[int, ...], Range]:
    """The shape of a concatenation, and the range of its values."""
    first = xs[0]
    for x in xs[1:]:
        if len(x.shape) != len(first.shape) or resized(x, axis) != resized(first, axis):
            raise BuildError(f"{name}: {first.shape} and {x.shape} along {axis}")
    values = Range(first.mean, max(abs(x.mean - first.mean) + x.std for x in xs))
    return resized(first, axis, sum(x.shape[axis] for x in xs)), values


def part_of(name: str, x: Tensor, parts: int, axis: int) -> tuple[int, ...]:
    """The shape of one of so many equal parts."""
    if x.shape[axis] % parts:
        raise BuildError(f"{name}: {x.shape} in {parts} along {axis}")
    return resized(x, axis, x.shape[axis] // parts)


def reduced(x: Tensor, axes: Sequence[int], keep: bool) -> tuple[int, ...]:
    """The shape of a reduction over some axes."""
    chosen = {a % len(x.shape) for a in axes}
    return tuple(1 if a in chosen else d for a, d in enumerate(x.shape) if keep or a not in chosen)


def sum_of(a: Tensor, b: Tensor, sign: int = 1) -> Range:
    """The range of a sum, or of a difference."""
    return Range(a.mean + sign * b.mean, math.hypot(a.std, b.std))


def product_of(a: Tensor, b: Tensor) -> Range:
    """The range of an element-wise product."""
    mean = a.mean * b.mean
    return Range(mean, math.sqrt(max(a.rms**2 * b.rms**2 - mean**2, 1e-12)))


def mean_of(x: Tensor, count: int) -> Range:
    """The range of a mean of ``count`` values."""
    return Range(x.mean, max(x.std / math.sqrt(count), 1e-4))


def random_weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, zero_point: int = 0) -> Array:
    """Stored weights (int8 or uint8): mostly bell-shaped, sometimes flat, sparse, or at the ends of the range."""
    low, high = limits(dtype)
    if dtype == "int8":
        low = -127
    style = rng.choice(["normal", "flat", "sparse", "ends"], p=[0.7, 0.15, 0.1, 0.05])
    if style == "normal":
        values = np.rint(rng.normal(zero_point, 40 if dtype in ("int8", "uint8") else (high - low) / 4, shape))
    elif style == "flat":
        values = rng.integers(low, high + 1, shape).astype(np.float64)
    elif style == "sparse":
        values = np.where(rng.random(shape) < 0.7, zero_point, rng.integers(low, high + 1, shape))
    else:
        values = np.where(rng.random(shape) < 0.5, low, high)
    return np.clip(values, low, high).astype("uint8" if dtype.startswith("u") else "int8")


def weight_scales(
    rng: np.random.Generator, real: Array, taps: int, x: Tensor, channels: int, power_of_two: bool
) -> NDArray[np.float32]:
    """Scales (one, or one per channel) that bring ``taps`` products of ``x`` to a standard deviation of about 2."""
    rms = max(float(np.sqrt(np.mean(np.square(real)))), 1.0)
    base = 2.0 / (rms * math.sqrt(taps) * max(x.rms, 1e-6))
    scales = base * np.exp(rng.uniform(-0.7, 0.7, channels))
    if power_of_two:
        scales = 2.0 ** np.rint(np.log2(scales))
    return scales.astype(np.float32)


def products(x: Tensor, sums: Array, squares: Array, bias: Array, dtype_range: tuple[float, float]) -> Range:
    """The range of sums of products: ``sums`` and ``squares`` of the real weights per channel."""
    means = x.mean * sums + bias
    std = math.sqrt(float(np.mean(squares)) * x.std**2 + float(np.var(means)))
    return Range(float(np.mean(means)), std, *dtype_range)
