"""Operators of :class:`OnnxNet` without weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.fuzz.onnx_base import OnnxBase
from tilewright.fuzz.tensors import BuildError, Range, Tensor, broadcast, pair

Size = int | tuple[int, int]


class Operators(OnnxBase):
    """Arithmetic, activations, pooling, and operators that move values."""

    # -- arithmetic --------------------------------------------------------------------------------

    def add(self, a: Tensor, b: Tensor, activation: str = "none", form: str = "qdq", **out: Any) -> Tensor:
        """Add, or QLinearAdd with ``form="qlinear"``; with a Relu behind it where ``activation`` says so."""
        values = Range(a.mean + b.mean, math.hypot(a.std, b.std))
        return self._binary("Add", a, b, values, activation, form, **out)

    def sub(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """Sub."""
        return self._binary("Sub", a, b, Range(a.mean - b.mean, math.hypot(a.std, b.std)), activation, "qdq", **out)

    def mul(self, a: Tensor, b: Tensor, activation: str = "none", form: str = "qdq", **out: Any) -> Tensor:
        """Mul, or QLinearMul."""
        mean = a.mean * b.mean
        values = Range(mean, math.sqrt(max(a.rms**2 * b.rms**2 - mean**2, 1e-12)))
        return self._binary("Mul", a, b, values, activation, form, **out)

    def _binary(self, kind: str, a: Tensor, b: Tensor, values: Range, activation: str, form: str, **out: Any) -> Tensor:
        shape = broadcast(kind, a.shape, b.shape)
        if form == "qlinear":
            scale, zero, numbers = self.chosen(values, **out)
            if a.dtype != self.dtype or b.dtype != self.dtype:
                raise BuildError(f"QLinear{kind}: {a.dtype} with {b.dtype}")
            name = self.contrib(f"QLinear{kind}", [*self.numbers(a), *self.numbers(b), *numbers])
            return self._dequantised(name, shape, self.dtype, values, scale, zero)
        name = self.node(kind, [self.read(a), self.read(b)])
        low = -math.inf
        if activation == "relu":
            name, low = self.node("Relu", [name]), 0.0
        return self.finish(name, shape, Range(values.mean, values.std, low), **out)

    # -- activations -------------------------------------------------------------------------------

    def relu(self, x: Tensor, **out: Any) -> Tensor:
        """Relu."""
        return self._unary("Relu", x, Range(x.mean, x.std, 0.0), **out)

    def clip(self, x: Tensor, low: float = 0.0, high: float = 6.0, **out: Any) -> Tensor:
        """Clip."""
        limits = [self.constant(np.float32(v)) for v in (low, high)]
        name = self.node("Clip", [self.read(x), *limits])
        return self.finish(name, x.shape, Range(x.mean, x.std, low, high), **out)

    def leaky_relu(self, x: Tensor, alpha: float = 0.1, **out: Any) -> Tensor:
        """LeakyRelu."""
        return self._unary("LeakyRelu", x, Range(x.mean, x.std), {"alpha": alpha}, **out)

    def prelu(self, x: Tensor, **out: Any) -> Tensor:
        """PRelu with one float slope per channel."""
        slope = self.rng.uniform(-0.2, 0.5, (x.shape[1], *(1 for _ in x.shape[2:]))).astype(np.float32)
        name = self.node("PRelu", [self.read(x), self.constant(slope)])
        return self.finish(name, x.shape, Range(x.mean, x.std), **out)

    def hard_swish(self, x: Tensor, **out: Any) -> Tensor:
        """HardSwish (opset 14)."""
        return self._unary("HardSwish", x, Range(x.mean / 2, x.std, -0.375), **out)

    def hard_sigmoid(self, x: Tensor, **out: Any) -> Tensor:
        """HardSigmoid with a slope of 1/6."""
        return self._unary("HardSigmoid", x, Range(0.5, 0.3, 0.0, 1.0), {"alpha": 1 / 6, "beta": 0.5}, **out)

    def sigmoid(self, x: Tensor, **out: Any) -> Tensor:
        """Sigmoid."""
        return self._unary("Sigmoid", x, Range(0.5, 0.25, 0.0, 1.0), **out)

    def tanh(self, x: Tensor, **out: Any) -> Tensor:
        """Tanh."""
        return self._unary("Tanh", x, Range(0.0, 0.5, -1.0, 1.0), **out)

    def softmax(self, x: Tensor, axis: int = -1, **out: Any) -> Tensor:
        """Softmax."""
        return self._unary("Softmax", x, Range(0.5, 0.25, 0.0, 1.0), {"axis": axis}, **out)

    def requantise(self, x: Tensor, **out: Any) -> Tensor:
        """A QuantizeLinear and DequantizeLinear pair of their own."""
        return self.quantised(x, Range(x.mean, x.std), **out)

    def _unary(
        self, kind: str, x: Tensor, values: Range, attributes: dict[str, Any] | None = None, **out: Any
    ) -> Tensor:
        return self.finish(self.node(kind, [self.read(x)], **(attributes or {})), x.shape, values, **out)

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
        values = Range(x.mean, max(x.std / math.sqrt(math.prod(x.shape[2:])), 1e-4))
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
        chosen = {a % len(x.shape) for a in axes}
        shape = tuple(1 if a in chosen else d for a, d in enumerate(x.shape) if keep_dims or a not in chosen)
        count = math.prod(x.shape[a] for a in chosen)
        values = Range(x.mean, max(x.std / math.sqrt(count), 1e-4))
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
        known = math.prod(d for d in shape if d >= 0)
        result = tuple(x.size // max(known, 1) if d < 0 else int(d) for d in shape)
        if math.prod(result) != x.size:
            raise BuildError(f"Reshape: {x.shape} to {tuple(shape)}")
        return self._moved("Reshape", x, result, [self.constant(np.array(shape, np.int64))], **out)

    def flatten(self, x: Tensor, axis: int = 1, **out: Any) -> Tensor:
        """Flatten."""
        shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        return self._moved("Flatten", x, shape, [], {"axis": axis}, **out)

    def transpose(self, x: Tensor, permutation: Sequence[int], **out: Any) -> Tensor:
        """Transpose."""
        if sorted(permutation) != list(range(len(x.shape))):
            raise BuildError(f"Transpose: {permutation} of {x.shape}")
        shape = tuple(x.shape[a] for a in permutation)
        return self._moved("Transpose", x, shape, [], {"perm": list(permutation)}, **out)

    def squeeze(self, x: Tensor, axes: Sequence[int], **out: Any) -> Tensor:
        """Squeeze."""
        if any(x.shape[a] != 1 for a in axes):
            raise BuildError(f"Squeeze: axes {axes} of {x.shape}")
        shape = tuple(d for a, d in enumerate(x.shape) if a not in axes)
        return self._moved("Squeeze", x, shape, [self.constant(np.array(axes, np.int64))], **out)

    def unsqueeze(self, x: Tensor, axis: int, **out: Any) -> Tensor:
        """Unsqueeze of one axis."""
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self._moved("Unsqueeze", x, shape, [self.constant(np.array([axis], np.int64))], **out)

    def slice(
        self, x: Tensor, begin: Sequence[int], end: Sequence[int], axes: Sequence[int], steps: Sequence[int], **out: Any
    ) -> Tensor:
        """Slice."""
        shape = list(x.shape)
        for b, e, a, s in zip(begin, end, axes, steps, strict=True):
            shape[a] = len(range(x.shape[a])[b:e:s])
        tables = [self.constant(np.array(v, np.int64)) for v in (begin, end, axes, steps)]
        return self._moved("Slice", x, tuple(shape), tables, **out)

    def split(self, x: Tensor, parts: int, axis: int = 1, **out: Any) -> list[Tensor]:
        """Split into equal parts, each with its pair."""
        if x.shape[axis] % parts:
            raise BuildError(f"Split: {x.shape} in {parts} along {axis}")
        size = x.shape[axis] // parts
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        sizes = self.constant(np.full(parts, size, np.int64))
        names = self.node("Split", [self.read(x), sizes], outputs=parts, axis=axis)
        listed = names if isinstance(names, list) else [names]
        return [self.finish(name, shape, Range(x.mean, x.std), keep=x, **out) for name in listed]

    def concat(self, *xs: Tensor, axis: int = 1, **out: Any) -> Tensor:
        """Concat; the output has the first part's numbers unless others are given."""
        first, shape = xs[0], list(xs[0].shape)
        for x in xs[1:]:
            rest = [d for a, d in enumerate(x.shape) if a != axis]
            if len(x.shape) != len(shape) or rest != [d for a, d in enumerate(shape) if a != axis]:
                raise BuildError(f"Concat: {first.shape} and {x.shape} along {axis}")
        shape[axis] = sum(x.shape[axis] for x in xs)
        values = Range(first.mean, max(abs(x.mean - first.mean) + x.std for x in xs))
        name = self.node("Concat", [self.read(x) for x in xs], axis=axis)
        return self.finish(name, tuple(shape), values, keep=first, **out)

    def resize(
        self, x: Tensor, size: Size, mode: str = "nearest", coordinates: str = "asymmetric", **out: Any
    ) -> Tensor:
        """Resize to (height, width)."""
        self._need_rank("Resize", x, 4)
        sizes = (*x.shape[:2], *pair(size))
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
        tables = ["", "", self.constant(np.array(sizes, np.int64))]
        return self._moved("Resize", x, sizes, tables, attributes, **out)

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
        return self._moved("Tile", x, shape, [self.constant(np.array(repeats, np.int64))], **out)

    def gather(self, x: Tensor, places: Sequence[int], axis: int = 1, **out: Any) -> Tensor:
        """Gather of constant indices."""
        shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
        return self._moved("Gather", x, shape, [self.constant(np.array(places, np.int64))], {"axis": axis}, **out)

    def _moved(
        self,
        kind: str,
        x: Tensor,
        shape: tuple[int, ...],
        operands: Sequence[str],
        attributes: dict[str, Any] | None = None,
        **out: Any,
    ) -> Tensor:
        name = self.node(kind, [self.read(x), *operands], **(attributes or {}))
        return self.finish(name, shape, Range(x.mean, x.std), keep=x, **out)
