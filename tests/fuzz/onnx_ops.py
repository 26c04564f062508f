"""Operators of :class:`OnnxNet` without weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.fuzz.onnx_base import OnnxBase
from tests.fuzz.tensors import (
    BuildError,
    Range,
    Tensor,
    broadcast,
    joined,
    mean_of,
    pair,
    part_of,
    product_of,
    reduced,
    reshaped,
    resized,
    squeezed,
    sum_of,
    transposed,
)

Size = int | tuple[int, int]


def _unary(kind: str, values: Callable[[Tensor], Range], **attributes: Any) -> Callable[..., Tensor]:
    """A method for an operator of one operand: ``(x, **out)``, where ``out`` may have other ``attributes`` too."""

    def method(self: OnnxBase, x: Tensor, **out: Any) -> Tensor:
        given = {name: out.pop(name, value) for name, value in attributes.items()}
        return self.finish(self.node(kind, [self.read(x)], **given), x.shape, values(x), **out)

    method.__doc__ = f"{kind}."
    return method


class Operators(OnnxBase):
    """Arithmetic, activations, pooling, and operators that move values."""

    # -- arithmetic --------------------------------------------------------------------------------

    def add(self, a: Tensor, b: Tensor, activation: str = "none", form: str = "qdq", **out: Any) -> Tensor:
        """Add, or QLinearAdd with ``form="qlinear"``; with a Relu behind it where ``activation`` says so."""
        return self._binary("Add", a, b, sum_of(a, b), activation, form, **out)

    def sub(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Sub."""
        return self._binary("Sub", a, b, sum_of(a, b, -1), activation, "qdq", **out)

    def mul(self, a: Tensor, b: Tensor, activation: str = "none", form: str = "qdq", **out: Any) -> Tensor:
        """Mul, or QLinearMul."""
        return self._binary("Mul", a, b, product_of(a, b), activation, form, **out)

    def maximum(self, a: Tensor, b: Tensor, *more: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Max of two or more."""
        return self._binary("Max", a, b, sum_of(a, b), activation, "qdq", more, **out)

    def minimum(self, a: Tensor, b: Tensor, *more: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Min of two or more."""
        return self._binary("Min", a, b, sum_of(a, b), activation, "qdq", more, **out)

    def sum(self, a: Tensor, b: Tensor, *more: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Sum of two or more."""
        return self._binary("Sum", a, b, sum_of(a, b), activation, "qdq", more, **out)

    def mean(self, a: Tensor, b: Tensor, *more: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Mean of two or more."""
        values = sum_of(a, b)
        return self._binary("Mean", a, b, Range(values.mean / 2, values.std / 2), activation, "qdq", more, **out)

    def _binary(
        self, kind: str, a: Tensor, b: Tensor, values: Range, activation: str, form: str, more: Sequence[Tensor] = (),
        **out: Any,
    ) -> Tensor:  # fmt: skip
        shape = broadcast(kind, a.shape, b.shape)
        for other in more:
            shape = broadcast(kind, shape, other.shape)
        if form == "qlinear":
            scale, zero, numbers = self.chosen(values, **out)
            if a.dtype != self.dtype or b.dtype != self.dtype:
                raise BuildError(f"QLinear{kind}: {a.dtype} with {b.dtype}")
            name = self.contrib(f"QLinear{kind}", [*self.numbers(a), *self.numbers(b), *numbers])
            return self._dequantised(name, shape, self.dtype, values, scale, zero)
        name = self.node(kind, [self.read(x) for x in (a, b, *more)])
        low = -math.inf
        if activation == "relu":
            name, low = self.node("Relu", [name]), 0.0
        return self.finish(name, shape, Range(values.mean, values.std, low), **out)

    # -- activations -------------------------------------------------------------------------------

    relu = _unary("Relu", lambda x: Range(x.mean, x.std, 0.0))
    leaky_relu = _unary("LeakyRelu", lambda x: Range(x.mean, x.std), alpha=0.1)
    hard_swish = _unary("HardSwish", lambda x: Range(x.mean / 2, x.std, -0.375))
    hard_sigmoid = _unary("HardSigmoid", lambda x: Range(0.5, 0.3, 0.0, 1.0), alpha=1 / 6, beta=0.5)
    sigmoid = _unary("Sigmoid", lambda x: Range(0.5, 0.25, 0.0, 1.0))
    tanh = _unary("Tanh", lambda x: Range(0.0, 0.5, -1.0, 1.0))
    softmax = _unary("Softmax", lambda x: Range(0.5, 0.25, 0.0, 1.0), axis=-1)

    def clip(self, x: Tensor, low: float = 0.0, high: float = 6.0, **out: Any) -> Tensor:
        """Clip."""
        limits = [self.constant(np.float32(v)) for v in (low, high)]
        name = self.node("Clip", [self.read(x), *limits])
        return self.finish(name, x.shape, Range(x.mean, x.std, low, high), **out)

    def where(self, x: Tensor, threshold: float = 0.3, other: float = -0.1, **out: Any) -> Tensor:
        """Greater and Where: what is not above a threshold becomes another number."""
        name = self.read(x)
        above = self.node("Greater", [name, self.constant(np.float32(threshold))])
        name = self.node("Where", [above, name, self.constant(np.float32(other))])
        return self.finish(name, x.shape, Range(x.mean, x.std, other), **out)

    def prelu(self, x: Tensor, **out: Any) -> Tensor:
        """PRelu with one float slope per channel."""
        slope = self.rng.uniform(-0.2, 0.5, (x.shape[1], *(1 for _ in x.shape[2:]))).astype(np.float32)
        name = self.node("PRelu", [self.read(x), self.constant(slope)])
        return self.finish(name, x.shape, Range(x.mean, x.std), **out)

    def requantise(self, x: Tensor, **out: Any) -> Tensor:
        """A QuantizeLinear and DequantizeLinear pair of their own."""
        return self.quantised(x, Range(x.mean, x.std), **out)

    # -- pooling and reductions --------------------------------------------------------------------

    def max_pool(self, x: Tensor, **window: Any) -> Tensor:
        """MaxPool; the output has the input's numbers unless others are given."""
        return self._pool("MaxPool", x, Range(x.mean + x.std / 2, x.std), **window)

    def average_pool(self, x: Tensor, count_include_pad: bool = False, **window: Any) -> Tensor:
        """AveragePool."""
        return self._pool("AveragePool", x, Range(x.mean, x.std), count=count_include_pad, **window)

    def _pool(
        self,
        kind: str,
        x: Tensor,
        values: Range,
        kernel: Size = 2,
        stride: Size = 2,
        pads: Sequence[int] = (0, 0, 0, 0),
        ceil_mode: bool = False,
        count: bool | None = None,
        **out: Any,
    ) -> Tensor:
        self._need_rank(kind, x, 4)
        kernels, strides = pair(kernel), pair(stride)
        sizes = []
        for a, n in enumerate(x.shape[2:]):
            span = n + pads[a] + pads[a + 2] - kernels[a]
            if span < 0 or max(pads[a], pads[a + 2]) >= kernels[a]:
                raise BuildError(f"{kind}: windows of {kernels} with pads {list(pads)} on {x.shape}")
            size = (-(-span // strides[a]) if ceil_mode else span // strides[a]) + 1
            # a window that would start in the padding behind the data is left out
            sizes.append(size - 1 if ceil_mode and (size - 1) * strides[a] >= n + pads[a] else size)
        attributes: dict[str, Any] = {"ceil_mode": int(ceil_mode)} if ceil_mode else {}
        if count is not None:
            attributes["count_include_pad"] = int(count)
        name = self.node(
            kind, [self.read(x)], kernel_shape=kernels, strides=strides, pads=[int(p) for p in pads], **attributes
        )
        return self.finish(name, (*x.shape[:2], *sizes), values, keep=x, **out)

    def global_average_pool(self, x: Tensor, form: str = "qdq", **out: Any) -> Tensor:
        """GlobalAveragePool, or QLinearGlobalAveragePool."""
        self._need_rank("GlobalAveragePool", x, 4)
        shape = (*x.shape[:2], 1, 1)
        values = mean_of(x, math.prod(x.shape[2:]))
        if form == "qlinear":
            scale, zero, numbers = self.chosen(values, **out)
            name = self.contrib("QLinearGlobalAveragePool", [*self.numbers(x), *numbers], channels_last=0)
            return self._dequantised(name, shape, self.dtype, values, scale, zero)
        return self.finish(self.node("GlobalAveragePool", [self.read(x)]), shape, values, **out)

    def global_max_pool(self, x: Tensor, **out: Any) -> Tensor:
        """GlobalMaxPool."""
        self._need_rank("GlobalMaxPool", x, 4)
        return self._moved("GlobalMaxPool", x, (*x.shape[:2], 1, 1), [], **out)

    def reduce_mean(
        self, x: Tensor, axes: Sequence[int] = (2, 3), keep_dims: bool = True, operator: str = "ReduceMean", **out: Any
    ) -> Tensor:
        """ReduceMean, or with another ``operator`` ReduceSum, ReduceMax or ReduceMin."""
        shape, count = reduced(x, axes, keep_dims), math.prod(x.shape[a] for a in axes)
        values = mean_of(x, count)
        if operator == "ReduceSum":
            values = Range(x.mean * count, x.std * math.sqrt(count))
        given = [int(a) for a in axes]
        if self.opset >= 18 or operator == "ReduceSum":
            name = self.node(operator, [self.read(x), self.constant(np.array(given))], keepdims=int(keep_dims))
        else:
            name = self.node(operator, [self.read(x)], axes=given, keepdims=int(keep_dims))
        return self.finish(name, shape, values, keep=x if operator in ("ReduceMax", "ReduceMin") else None, **out)

    # -- values on the move: the output has the input's numbers unless others are given ----------------

    def pad(self, x: Tensor, pads: Sequence[int], mode: str = "constant", value: float = 0.0, **out: Any) -> Tensor:
        """Pad; ``pads`` as ONNX has them: all begins, then all ends."""
        rank = len(x.shape)
        shape = tuple(d + pads[a] + pads[a + rank] for a, d in enumerate(x.shape))
        if mode != "constant" and any(max(pads[a], pads[a + rank]) >= d for a, d in enumerate(x.shape)):
            raise BuildError(f"Pad: {list(pads)} of {x.shape}, {mode}")
        operands = [self.read(x), self.constant(np.array(pads, np.int64))]
        if value:
            operands.append(self.constant(np.float32(value)))
        return self.finish(self.node("Pad", operands, mode=mode), shape, Range(x.mean, x.std), keep=x, **out)

    def reshape(self, x: Tensor, shape: Sequence[int], **out: Any) -> Tensor:
        """Reshape; one -1 stands for the rest."""
        return self._moved("Reshape", x, reshaped("Reshape", x, shape), [shape], **out)

    def flatten(self, x: Tensor, axis: int = 1, **out: Any) -> Tensor:
        """Flatten."""
        shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        return self._moved("Flatten", x, shape, [], {"axis": axis}, **out)

    def transpose(self, x: Tensor, permutation: Sequence[int], **out: Any) -> Tensor:
        """Transpose."""
        shape = transposed("Transpose", x, permutation)
        return self._moved("Transpose", x, shape, [], {"perm": list(permutation)}, **out)

    def squeeze(self, x: Tensor, axes: Sequence[int], **out: Any) -> Tensor:
        """Squeeze."""
        return self._moved("Squeeze", x, squeezed("Squeeze", x, axes), [axes], **out)

    def unsqueeze(self, x: Tensor, axis: int, **out: Any) -> Tensor:
        """Unsqueeze of one axis."""
        return self._moved("Unsqueeze", x, (*x.shape[:axis], 1, *x.shape[axis:]), [[axis]], **out)

    def slice(
        self, x: Tensor, begin: Sequence[int], end: Sequence[int], axes: Sequence[int], steps: Sequence[int], **out: Any
    ) -> Tensor:
        """Slice."""
        shape = list(x.shape)
        for b, e, a, s in zip(begin, end, axes, steps, strict=True):
            shape[a] = len(range(x.shape[a])[b:e:s])
        return self._moved("Slice", x, tuple(shape), (begin, end, axes, steps), **out)

    def split(self, x: Tensor, parts: int, axis: int = 1, **out: Any) -> list[Tensor]:
        """Split into equal parts, each with its pair."""
        shape = part_of("Split", x, parts, axis)
        sizes = self.constant(np.full(parts, shape[axis], np.int64))
        names = self.node("Split", [self.read(x), sizes], outputs=parts, axis=axis)
        listed = names if isinstance(names, list) else [names]
        return [self.finish(name, shape, Range(x.mean, x.std), keep=x, **out) for name in listed]

    def concat(self, *xs: Tensor, axis: int = 1, form: str = "qdq", **out: Any) -> Tensor:
        """Concat, whose output has the first part's numbers unless others are given, or QLinearConcat."""
        shape, values = joined("Concat", xs, axis)
        if form == "qlinear":
            scale, zero, numbers = self.chosen(values, **out)
            operands = [name for x in xs for name in self.numbers(x)]
            name = self.contrib("QLinearConcat", [*numbers, *operands], axis=axis)
            return self._dequantised(name, shape, self.dtype, values, scale, zero)
        name = self.node("Concat", [self.read(x) for x in xs], axis=axis)
        return self.finish(name, shape, values, keep=xs[0], **out)

    def resize(
        self, x: Tensor, size: Size, mode: str = "nearest", coordinates: str = "asymmetric", **out: Any
    ) -> Tensor:
        """Resize to (height, width)."""
        self._need_rank("Resize", x, 4)
        sizes = (*x.shape[:2], *pair(size))
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
        return self._moved("Resize", x, sizes, ["", "", sizes], attributes, **out)

    def depth_to_space(self, x: Tensor, block: int = 2, mode: str = "DCR", **out: Any) -> Tensor:
        """DepthToSpace."""
        n, c, h, w = x.shape
        if c % (block * block):
            raise BuildError(f"DepthToSpace: {x.shape} in blocks of {block}")
        shape = (n, c // (block * block), h * block, w * block)
        return self._moved("DepthToSpace", x, shape, [], {"blocksize": block, "mode": mode}, **out)

    def space_to_depth(self, x: Tensor, block: int = 2, **out: Any) -> Tensor:
        """SpaceToDepth."""
        n, c, h, w = x.shape
        if h % block or w % block:
            raise BuildError(f"SpaceToDepth: {x.shape} in blocks of {block}")
        shape = (n, c * block * block, h // block, w // block)
        return self._moved("SpaceToDepth", x, shape, [], {"blocksize": block}, **out)

    def tile(self, x: Tensor, repeats: Sequence[int], **out: Any) -> Tensor:
        """Tile."""
        shape = tuple(d * r for d, r in zip(x.shape, repeats, strict=True))
        return self._moved("Tile", x, shape, [repeats], **out)

    def gather(self, x: Tensor, places: Sequence[int], axis: int = 1, **out: Any) -> Tensor:
        """Gather of constant indices."""
        return self._moved("Gather", x, resized(x, axis, len(places)), [places], {"axis": axis}, **out)

    def _moved(
        self,
        kind: str,
        x: Tensor,
        shape: tuple[int, ...],
        tables: Sequence[str | Sequence[int]],
        attributes: dict[str, Any] | None = None,
        **out: Any,
    ) -> Tensor:
        """``tables``: constant operands, as int64; an empty text leaves one out."""
        operands = [table if isinstance(table, str) else self.constant(np.array(table, np.int64)) for table in tables]
        name = self.node(kind, [self.read(x), *operands], **(attributes or {}))
        return self.finish(name, shape, Range(x.mean, x.std), keep=x, **out)
