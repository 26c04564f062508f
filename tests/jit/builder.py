"""Builds integer graphs with random constants, for tests of the compiler against the reference evaluator."""

from __future__ import annotations

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit import graph as g
from tilewright.jit.numbers.scales import IDENTITY_SCALE, exact_shift, identity_requant
from tilewright.jit.sampling import Sampling


def sampling(matrix: np.ndarray) -> Sampling:
    """Of a matrix (rows of the result, rows of the input) of weights."""
    out, size = matrix.shape
    return Sampling.of(size, np.tile(np.arange(size), (out, 1)), matrix)


class GraphBuilder:
    """Appends operators with plausible random constants; every method returns the output tensor's name."""

    def __init__(self, seed: int, shape: tuple[int, int, int], name: str = "random") -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors = {"x": g.TensorSpec("x", (1, *shape), zero_point=int(self.rng.integers(-128, 128)))}
        self.ops: list[g.Op] = []
        self.name = name

    def graph(self, *outputs: str) -> g.Graph:
        """The finished graph."""
        return g.Graph(self.name, ["x"], list(outputs), self.tensors, self.ops)

    def shape(self, tensor: str) -> tuple[int, ...]:
        return self.tensors[tensor].shape

    def requant(
        self, channels: int, magnitude: float, rounding: Rounding = Rounding.DOUBLE, clip: bool = True
    ) -> g.Requant:
        """Constants that bring accumulators of about ``magnitude`` to int8."""
        multiplier = self.rng.integers(1 << 30, 1 << 31, channels).astype(np.int32)
        shift = np.full(channels, int(np.clip(31 + np.round(np.log2(magnitude / 60)), 1, 62)), np.int32)
        bias = self.rng.integers(-int(magnitude) - 1, int(magnitude) + 1, channels).astype(np.int32)
        zero = int(self.rng.integers(-20, 20))
        low = int(self.rng.integers(-128, 0)) if clip else -128
        return g.Requant(bias, multiplier, shift, np.zeros(channels, np.int32), rounding, zero, low, 127)

    def scale(self) -> g.Scale:
        """An ADD input stage that keeps values near (x << 20) * m / 2^shift of a few thousand."""
        bias = -int(self.rng.integers(-128, 128)) << 20
        return g.Scale(bias, int(self.rng.integers(1 << 30, (1 << 31) - 1)), int(self.rng.integers(31, 34)))

    def conv(
        self, x, oc, kernel=(3, 3), strides=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1,
        rounding=Rounding.DOUBLE,
    ):  # fmt: skip
        _, h, w, ic = self.shape(x)
        weight = self.rng.integers(-127, 128, (oc, *kernel, ic // groups)).astype(np.int8)
        shape = _spatial(h, w, kernel, strides, padding, dilation)
        magnitude = 60.0 * 60.0 * np.sqrt(np.prod(kernel) * ic / groups)
        op = g.Conv2D(
            name=self._name("conv"), inputs=[x], output=self._new((1, *shape, oc)), weight=weight,
            requant=self.requant(oc, magnitude, rounding), strides=strides, dilation=dilation, padding=padding,
            pad_value=self.tensors[x].zero_point, groups=groups,
        )  # fmt: skip
        return self._add(op)

    def transposed(self, x, oc, kernel=(2, 2), spread=(2, 2), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1):
        """``padding`` is that of the spread image, negative where pixels are left out."""
        _, h, w, ic = self.shape(x)
        weight = self.rng.integers(-127, 128, (oc, *kernel, ic // groups)).astype(np.int8)
        wide = [(size - 1) * step + 1 for size, step in zip((h, w), spread, strict=True)]
        shape = _spatial(wide[0], wide[1], kernel, (1, 1), padding, dilation)
        magnitude = 60.0 * 60.0 * np.sqrt(max(1, np.prod(kernel) / np.prod(spread)) * ic / groups)
        op = g.Conv2D(
            name=self._name("transposed"), inputs=[x], output=self._new((1, *shape, oc)), weight=weight,
            requant=self.requant(oc, magnitude), dilation=dilation, padding=padding, spread=spread,
            pad_value=self.tensors[x].zero_point, groups=groups,
        )  # fmt: skip
        return self._add(op)

    def dense(self, x, oc):
        _, h, w, _ = self.shape(x)
        assert (h, w) == (1, 1)
        return self.conv(x, oc, (1, 1), padding=(0, 0, 0, 0), rounding=Rounding.SINGLE)

    def depthwise(self, x, kernel=(3, 3), strides=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1)):
        _, h, w, c = self.shape(x)
        weight = self.rng.integers(-127, 128, (*kernel, c)).astype(np.int8)
        op = g.DepthwiseConv2D(
            name=self._name("depthwise"), inputs=[x],
            output=self._new((1, *_spatial(h, w, kernel, strides, padding, dilation), c)), weight=weight,
            requant=self.requant(c, 3600.0 * np.sqrt(np.prod(kernel))), strides=strides, dilation=dilation,
            padding=padding, pad_value=self.tensors[x].zero_point,
        )  # fmt: skip
        return self._add(op)

    def add(self, a, b):
        shape = self.shape(a)
        op = g.Add(
            name=self._name("add"), inputs=[a, b], output=self._new(shape), scale_a=self.scale(), scale_b=self.scale(),
            requant=self._uniform(shape[3], float(1 << 26)),
        )  # fmt: skip
        return self._add(op)

    def pairwise(self, kind: type[g.Pairwise], a, b):
        """``b`` may have one row or one column."""
        shape = self.shape(a)
        extreme = kind in (g.Maximum, g.Minimum)
        scales = [
            IDENTITY_SCALE if extreme else exact_shift(int(self.rng.integers(-128, 128)))
            if kind is g.Multiply else self.scale() for _ in range(2)
        ]  # fmt: skip
        requant = (
            identity_requant(shape[3], -100, 110) if extreme
            else self._uniform(shape[3], float(1 << 12 if kind is g.Multiply else 1 << 26))
        )  # fmt: skip
        op = kind(
            name=self._name(kind.__name__.lower()), inputs=[a, b], output=self._new(shape), scale_a=scales[0],
            scale_b=scales[1], requant=requant,
        )  # fmt: skip
        return self._add(op)

    def average_pool(self, x, kernel, strides=(1, 1), padding=(0, 0, 0, 0)):
        _, h, w, c = self.shape(x)
        requants = {n: _mean(n, c) for n in range(1, kernel[0] * kernel[1] + 1)}
        op = g.AvgPool2D(
            name=self._name("average"), inputs=[x], output=self._new((1, *_spatial(h, w, kernel, strides, padding), c)),
            kernel=kernel, strides=strides, padding=padding, requants=requants,
        )  # fmt: skip
        used = _counts(op, h, w, self.shape(op.output))
        op.requants = {n: requants[n] for n in used}
        return self._add(op)

    def max_pool(self, x, kernel, strides=(2, 2), padding=(0, 0, 0, 0)):
        _, h, w, c = self.shape(x)
        op = g.MaxPool2D(
            name=self._name("max"), inputs=[x], output=self._new((1, *_spatial(h, w, kernel, strides, padding), c)),
            kernel=kernel, strides=strides, padding=padding, lo=-100, hi=110,
        )  # fmt: skip
        return self._add(op)

    def requantize(self, x):
        shape = self.shape(x)
        op = g.Requantize(
            name=self._name("requantize"), inputs=[x], output=self._new(shape), scale=self.scale(),
            requant=self._uniform(shape[3], float(1 << 26)),
        )  # fmt: skip
        return self._add(op)

    def pad(self, x, padding):
        _, h, w, c = self.shape(x)
        top, left, bottom, right = padding
        op = g.Pad(
            name=self._name("pad"), inputs=[x], output=self._new((1, h + top + bottom, w + left + right, c)),
            padding=padding, pad_value=self.tensors[x].zero_point,
        )  # fmt: skip
        return self._add(op)

    def slice(self, x, begin, size, strides=(1, 1)):
        op = g.Slice(
            name=self._name("slice"), inputs=[x], output=self._new((1, *size, self.shape(x)[3])), begin=begin,
            size=size, strides=strides,
        )  # fmt: skip
        return self._add(op)

    def resample(self, x, rows, columns):
        """``rows`` (OH, H), ``columns`` (OW, W): matrices of weights."""
        shape = (1, len(rows), len(columns), self.shape(x)[3])
        most = float(rows.sum(1).max() * columns.sum(1).max())
        op = g.Resample(
            name=self._name("resample"), inputs=[x], output=self._new(shape), rows=sampling(rows),
            columns=sampling(columns), offset=int(self.rng.integers(-128, 128)),
            requant=self._uniform(shape[3], 60 * most + 1),
        )  # fmt: skip
        return self._add(op)

    def concat(self, *parts, same=False):
        shape = self.shape(parts[0])
        channels = sum(self.shape(p)[3] for p in parts)
        scales = [
            None if k == 0 or same else (self.scale(), self._uniform(self.shape(p)[3], float(1 << 26)))
            for k, p in enumerate(parts)
        ]
        op = g.Concat(
            name=self._name("concat"), inputs=list(parts), output=self._new((*shape[:3], channels)), parts=scales
        )
        return self._add(op)

    def reshape(self, x, shape):
        op = g.Reshape(name=self._name("reshape"), inputs=[x], output=self._new(shape), shape=shape)
        return self._add(op)

    def _uniform(self, channels: int, magnitude: float) -> g.Requant:
        one = self.requant(1, magnitude)
        bias, multiplier, shift, offset = (
            np.repeat(a, channels) for a in (one.bias, one.multiplier, one.shift, one.offset)
        )
        return g.Requant(bias, multiplier, shift, offset, one.rounding, one.zero_point, one.lo, one.hi)

    def _name(self, kind: str) -> str:
        return f"op{len(self.ops):03d} {kind}"

    def _new(self, shape: tuple[int, ...]) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = g.TensorSpec(name, shape, zero_point=int(self.rng.integers(-128, 128)))
        return name

    def _add(self, op: g.Op) -> str:
        self.ops.append(op)
        return op.output


def _spatial(h, w, kernel, strides, padding, dilation=(1, 1)):
    top, left, bottom, right = padding
    return (
        (h + top + bottom - (kernel[0] - 1) * dilation[0] - 1) // strides[0] + 1,
        (w + left + right - (kernel[1] - 1) * dilation[1] - 1) // strides[1] + 1,
    )


def _mean(n: int, channels: int) -> g.Requant:
    shift = 30
    multiplier = np.full(channels, (1 << shift) // n + (n > 1), np.int32)
    zero = np.zeros(channels, np.int32)
    return g.Requant(zero, multiplier, np.full(channels, shift, np.int32), zero, Rounding.SINGLE, 0)


def _counts(op: g.AvgPool2D, h: int, w: int, out: tuple[int, ...]) -> set[int]:
    def axis(size: int, count: int, kernel: int, stride: int, before: int) -> list[int]:
        return [min(i * stride - before + kernel, size) - max(i * stride - before, 0) for i in range(count)]

    rows = axis(h, out[1], op.kernel[0], op.strides[0], op.padding[0])
    columns = axis(w, out[2], op.kernel[1], op.strides[1], op.padding[1])
    return {r * c for r in rows for c in columns}
