"""Writing int8 ``.tflite`` networks whose scales fit, from a seed: each layer is calibrated as it is added.

Beside the file, the values of one calibration input are carried along in real numbers (``bench/networks/real.py``).
Weights are normal, of a deviation that follows from their fan-in; then each output channel is brought to mean and
deviation of its own choice, as a folded batch normalisation does. Without that, channels of deep random networks end
up constant, or drown in one direction that all inputs share, and equal outputs would say little. Stored weights come
from the seed alone. Scales are measured and then rounded to three digits, so that a file does not depend on the
order in which a machine adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.networks import real
from bench.networks.real import Real
from tests.fuzz import Tensor, TfliteNet
from tests.fuzz.flatbuffer import StoredTensor
from tests.fuzz.tensors import Range

Array = NDArray[Any]
INPUT_SCALE = 1 / 32
REACH = 5.0  #: standard deviations that a range covers at most: a single far value does not cost resolution
FEW = 32  #: positions of a channel, below which its own deviation says nothing


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the network, and what it holds for the calibration input."""

    tensor: Tensor
    real: Real

    @property
    def channels(self) -> int:
        """Size of the last axis."""
        return self.tensor.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor, batch included."""
        return self.tensor.shape


class _Writer(TfliteNet):
    """The writer with weights that were chosen ahead of the layer: int8 values, scales, real biases."""

    chosen: tuple[Array, Array, Array]

    def _weights(self, x: Tensor, shape: tuple[int, ...], axis: int, *_: Any, **__: Any) -> tuple[int, int, Range]:
        stored, scales, biases = self.chosen
        assert stored.shape == shape
        w = self._store(StoredTensor(f"w{len(self.tensors)}", shape, "int8", scales, np.zeros(1), axis, stored))
        products = (np.float32(x.scale or 1.0) * scales).astype(np.float32)
        return w, self._bias(np.rint(biases / products.astype(np.float64)).astype(np.int32), products), Range(0, 1)


class Calibrated:
    """Operators one after another; every method returns the new tensor with its values.

    Layers take ``like``: a tensor whose scale and zero point the result shares, as those that are joined must.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.net = _Writer(seed)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers so far."""
        return self.net.macs

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of the network's input, without the batch."""
        return self.net.inputs[0].shape[1:]

    def save(self, path: str | Path, outputs: Sequence[Value]) -> Path:
        """Write the file."""
        return self.net.save(path, [y.tensor for y in outputs])

    def input(self, shape: Sequence[int]) -> Value:
        """The input of the network."""
        stored = example(tuple(shape), self.rng)
        tensor = self.net.input((1, *shape), scale=INPUT_SCALE, zero_point=0)
        return Value(tensor, stored[None].astype(np.float32) * np.float32(INPUT_SCALE))

    # -- layers ------------------------------------------------------------------------------------

    def conv(
        self, x: Value, channels: int, kernel: int = 1, stride: int = 1, activation: str = "relu", groups: int = 1,
        like: Value | None = None,
    ) -> Value:  # fmt: skip
        """CONV_2D, "same" padding."""
        shape = (channels, kernel, kernel, x.channels // groups)
        y = self._layer(shape, 0, activation, lambda w: real.conv(x.real, w, stride, groups))
        made = self.net.conv(
            x.tensor, channels, kernel, stride, activation=activation, groups=groups, **self._numbers(y, like)
        )
        return self._value(made, y)

    def depthwise(self, x: Value, kernel: int = 3, stride: int = 1, activation: str = "relu") -> Value:
        """DEPTHWISE_CONV_2D, "same" padding."""
        shape = (1, kernel, kernel, x.channels)
        y = self._layer(shape, 3, activation, lambda w: real.depthwise(x.real, w, stride))
        made = self.net.depthwise(x.tensor, 1, kernel, stride, activation=activation, **self._numbers(y))
        return self._value(made, y)

    def transpose_conv(
        self, x: Value, channels: int, kernel: int = 2, stride: int = 2, like: Value | None = None
    ) -> Value:
        """TRANSPOSE_CONV to ``stride`` times the size."""
        shape = (channels, kernel, kernel, x.channels)
        y = self._layer(shape, 0, "none", lambda w: real.transpose_conv(x.real, w, stride))
        made = self.net.transpose_conv(x.tensor, channels, kernel, stride, **self._numbers(y, like))
        return self._value(made, y)

    def dense(self, x: Value, channels: int, activation: str = "none", steps: bool = False) -> Value:
        """FULLY_CONNECTED over everything, or over the last axis at each of the ``steps``."""
        flat = x.real if steps else x.real.reshape(1, -1)
        y = self._layer(
            (channels, flat.shape[-1]), 0, activation, lambda w: (flat @ w.T).astype(np.float32), per_channel=False
        )
        made = self.net.fully_connected(
            x.tensor, channels, activation=activation, flatten=not steps, keep_num_dims=steps, **self._numbers(y)
        )
        return self._value(made, y)

    def lstm(self, x: Value, units: int) -> Value:
        """UNIDIRECTIONAL_SEQUENCE_LSTM on (1, time, features)."""
        made = self.net.lstm(x.tensor, units)
        inputs = self.net.operators[-1].inputs
        constants = [self._constant(inputs[k]) for k in (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15)]
        return self._value(made, real.lstm(x.real, constants[:4], constants[4:8], constants[8:]))

    # -- values one by one -------------------------------------------------------------------------

    def add(self, a: Value, b: Value, activation: str = "none") -> Value:
        """ADD."""
        y = real.activated(a.real + b.real, activation)
        return self._value(self.net.add(a.tensor, b.tensor, activation, **self._numbers(y)), y)

    def mul(self, a: Value, b: Value) -> Value:
        """MUL; shapes broadcast."""
        y = a.real * b.real
        return self._value(self.net.mul(a.tensor, b.tensor, **self._numbers(y)), y)

    def hard_swish(self, x: Value) -> Value:
        """HARD_SWISH."""
        y = real.hard_swish(x.real)
        return self._value(self.net.hard_swish(x.tensor, **self._numbers(y)), y)

    def logistic(self, x: Value) -> Value:
        """LOGISTIC, with the numbers that its kernels ask for."""
        return self._value(self.net.logistic(x.tensor), real.logistic(x.real))

    def hard_sigmoid(self, x: Value) -> Value:
        """relu6(x + 3) / 6, as converters write it: ADD with RELU6, and MUL."""
        y = real.activated(x.real + np.float32(3), "relu6")
        three, sixth = (self._number(v) for v in (3.0, 1 / 6))
        moved = self._value(self.net.add(x.tensor, three, "relu6", **self._numbers(y)), y)
        y = moved.real / np.float32(6)
        return self._value(self.net.mul(moved.tensor, sixth, **self._numbers(y)), y)

    def requantize(self, x: Value, like: Value) -> Value:
        """QUANTIZE to the numbers of another tensor."""
        return self._value(self.net.requantize(x.tensor, **self._numbers(x.real, like)), x.real)

    def softmax(self, x: Value) -> Value:
        """SOFTMAX over the last axis."""
        powers = np.exp(x.real - x.real.max(axis=-1, keepdims=True))
        return self._value(self.net.softmax(x.tensor), powers / powers.sum(axis=-1, keepdims=True))

    # -- pools and moves: the result has the numbers of the input -----------------------------------

    def max_pool(self, x: Value, kernel: int = 3, stride: int = 2) -> Value:
        """MAX_POOL_2D, "same" padding."""
        return Value(self.net.max_pool(x.tensor, kernel, stride, "same"), real.max_pool(x.real, kernel, stride))

    def average_pool(self, x: Value, kernel: int = 3, stride: int = 2) -> Value:
        """AVERAGE_POOL_2D, "same" padding."""
        return Value(self.net.average_pool(x.tensor, kernel, stride, "same"), real.average_pool(x.real, kernel, stride))

    def mean(self, x: Value, keep_dims: bool = False) -> Value:
        """MEAN over height and width, with a scale of its own."""
        y = x.real.mean(axis=(1, 2), keepdims=keep_dims)
        return self._value(self.net.mean(x.tensor, (1, 2), keep_dims, **self._numbers(y)), y)

    def concatenation(self, *xs: Value) -> Value:
        """CONCATENATION over channels; all have the numbers of the first."""
        assert len({(x.tensor.scale, x.tensor.zero_point) for x in xs}) == 1
        return Value(self.net.concatenation(*[x.tensor for x in xs]), np.concatenate([x.real for x in xs], axis=3))

    def split(self, x: Value, parts: int = 2) -> list[Value]:
        """SPLIT of the channels."""
        return [
            Value(y, r) for y, r in zip(self.net.split(x.tensor, parts), np.split(x.real, parts, axis=3), strict=True)
        ]

    def reshape(self, x: Value, *shape: int) -> Value:
        """RESHAPE."""
        return Value(self.net.reshape(x.tensor, shape), x.real.reshape(shape))

    def transpose(self, x: Value, *permutation: int) -> Value:
        """TRANSPOSE."""
        return Value(self.net.transpose(x.tensor, permutation), x.real.transpose(permutation))

    def last_step(self, x: Value) -> Value:
        """The last member of axis 1, by STRIDED_SLICE."""
        steps, features = x.shape[1:]
        made = self.net.strided_slice(x.tensor, (0, steps - 1, 0), (1, steps, features), (1, 1, 1), shrink=2)
        return Value(made, x.real[:, -1])

    # -- shared ------------------------------------------------------------------------------------

    def _layer(
        self,
        shape: tuple[int, ...],
        axis: int,
        activation: str,
        apply: Callable[[Real], Real],
        per_channel: bool = True,
    ) -> Real:
        """Choose weights and biases of a layer; returns its values."""
        weights = self.rng.normal(0, 1 / math.sqrt(math.prod(shape) / shape[axis]), shape)
        others = tuple(a for a in range(len(shape)) if a != axis) if per_channel else None
        steps = np.abs(weights).max(axis=others, keepdims=True) / 127
        stored = np.rint(weights / steps).astype(np.int8)
        sums = apply((stored * steps).astype(np.float32))
        rows = sums.reshape(-1, sums.shape[-1]).astype(np.float64)
        deviation = max(float(rows.std()), 1e-6)
        if per_channel and len(rows) >= FEW:
            means = rows.mean(axis=0)
            deviations = np.maximum(rows.std(axis=0), deviation / 10)
        else:
            means = np.full(rows.shape[1], rows.mean())
            deviations = np.full(rows.shape[1], deviation)
        count = rows.shape[1] if per_channel else 1
        scales = np.array([_rounded(v) for v in np.broadcast_to(steps.ravel(), count) / deviations[:count]])
        factors = scales / steps.ravel()
        biases = self.rng.normal(0, 0.3, rows.shape[1]) - means * factors
        self.net.chosen = stored, scales.astype(np.float32), biases
        return real.activated((sums * factors + biases).astype(np.float32), activation)

    def _numbers(self, y: Real, like: Value | None = None) -> dict[str, Any]:
        """Scale and zero point that cover the values."""
        if like is not None:
            return {"scale": like.tensor.scale, "zero_point": like.tensor.zero_point}
        mean, reach = float(y.mean()), REACH * float(y.std())
        low = min(0.0, max(float(y.min()), mean - reach))
        high = max(0.0, min(float(y.max()), mean + reach))
        scale = _rounded(max(high - low, 1e-3) / 255)
        return {"scale": scale, "zero_point": int(np.clip(round(-128 - low / scale), -128, 127))}

    @staticmethod
    def _value(tensor: Tensor, values: Real) -> Value:
        """The tensor with its measured mean and deviation in the place of the writer's estimate."""
        kind = Tensor(
            tensor.key, tensor.shape, tensor.dtype, tensor.scale, tensor.zero_point, float(values.mean()),
            max(float(values.std()), 1e-6),
        )  # fmt: skip
        return Value(kind, values.astype(np.float32))

    def _number(self, value: float) -> Tensor:
        """A constant of one value, at the end of its range as converters have it."""
        tensor = self.net.constant_tensor((1,), value / 255, -128)
        self.net.tensors[tensor.key].data = np.array([127], np.int8)
        return tensor

    def _constant(self, index: int) -> Real:
        """The real values of a stored constant."""
        stored = self.net.tensors[index]
        assert stored.data is not None
        assert stored.scales is not None
        return (stored.data * stored.scales.astype(np.float64)).astype(np.float32)


def example(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int8]:
    """An int8 input with structure at every scale, as pictures and spectrograms have: white noise averages out."""
    height, width = shape[-3:-1] if len(shape) == 3 else (shape[0], 1)
    channels = shape[-1]
    total = np.zeros((height, width, channels))
    cell = 1
    levels = 0
    while cell <= max(height, width):
        coarse = rng.normal(size=(-(-height // cell), -(-width // cell), channels))
        total += coarse.repeat(cell, axis=0)[:height].repeat(cell, axis=1)[:, :width]
        cell, levels = cell * 4, levels + 1
    return np.clip(np.rint(total / (math.sqrt(levels) * INPUT_SCALE)), -128, 127).astype(np.int8).reshape(shape)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
