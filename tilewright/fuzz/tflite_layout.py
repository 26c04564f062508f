"""Operators of :class:`TfliteNet` that move, join or reduce values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.fuzz.tensors import BuildError, Range, Tensor, pair, same_output, window_output
from tilewright.fuzz.tflite_base import TfliteBase
from tilewright.fuzz.tflite_layers import PADDINGS, Size


class Layout(TfliteBase):
    """Pooling, reductions, padding, reshaping, joining, cutting and resizing."""

    def average_pool(
        self, x: Tensor, kernel: Size = 2, stride: Size = 2, padding: str = "valid", activation: str = "none"
    ) -> Tensor:
        """AVERAGE_POOL_2D; the output has the numbers of the input."""
        return self._pool("AVERAGE_POOL_2D", x, kernel, stride, padding, activation)

    def max_pool(
        self, x: Tensor, kernel: Size = 2, stride: Size = 2, padding: str = "valid", activation: str = "none"
    ) -> Tensor:
        """MAX_POOL_2D; the output has the numbers of the input."""
        return self._pool("MAX_POOL_2D", x, kernel, stride, padding, activation)

    def mean(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False, **out: Any) -> Tensor:
        """MEAN over some axes."""
        count = math.prod(x.shape[a] for a in axes)
        return self._reduce("MEAN", x, axes, keep_dims, Range(x.mean, max(x.std / math.sqrt(count), 1e-4)), **out)

    def sum(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False, **out: Any) -> Tensor:
        """SUM over some axes."""
        count = math.prod(x.shape[a] for a in axes)
        return self._reduce("SUM", x, axes, keep_dims, Range(x.mean * count, x.std * math.sqrt(count)), **out)

    def reduce_max(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False) -> Tensor:
        """REDUCE_MAX over some axes; the output has the numbers of the input."""
        numbers = {"scale": x.scale, "zero_point": x.zero_point} if x.scale is not None else {}
        return self._reduce("REDUCE_MAX", x, axes, keep_dims, Range(x.mean + x.std, x.std / 2), **numbers)

    def reduce_min(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False) -> Tensor:
        """REDUCE_MIN over some axes; the output has the numbers of the input."""
        numbers = {"scale": x.scale, "zero_point": x.zero_point} if x.scale is not None else {}
        return self._reduce("REDUCE_MIN", x, axes, keep_dims, Range(x.mean - x.std, x.std / 2), **numbers)

    def reverse(self, x: Tensor, axis: int) -> Tensor:
        """REVERSE_V2 of one axis."""
        y = self._like(x, x.shape)
        self.op("REVERSE_V2", [x, self.constant(np.array([axis], np.int32))], [y], "ReverseV2Options")
        return y

    def tile(self, x: Tensor, times: Sequence[int]) -> Tensor:
        """TILE, each axis so many times."""
        y = self._like(x, tuple(d * n for d, n in zip(x.shape, times, strict=True)))
        self.op("TILE", [x, self.constant(np.array(times, np.int32))], [y], "TileOptions")
        return y

    def pad(self, x: Tensor, paddings: Sequence[Sequence[int]]) -> Tensor:
        """PAD with zeros; a (before, after) for each axis."""
        y = self._like(x, self._padded(x, paddings))
        self.op("PAD", [x, self.constant(np.array(paddings, np.int32))], [y], "PadOptions")
        return y

    def pad_value(self, x: Tensor, paddings: Sequence[Sequence[int]], value: int = 0) -> Tensor:
        """PADV2: padding with a stored value."""
        y = self._like(x, self._padded(x, paddings))
        filler = self.constant_tensor((1,), x.scale or 1.0, x.zero_point, x.dtype)
        self.tensors[filler.key].data = np.array([value], x.dtype)
        self.op("PADV2", [x, self.constant(np.array(paddings, np.int32)), filler], [y], "PadV2Options")
        return y

    def mirror_pad(self, x: Tensor, paddings: Sequence[Sequence[int]], symmetric: bool = False) -> Tensor:
        """MIRROR_PAD, reflecting or symmetric."""
        for size, (before, after) in zip(x.shape, paddings, strict=True):
            if max(before, after) > size - (0 if symmetric else 1):
                raise BuildError(f"MIRROR_PAD: {paddings} of {x.shape}")
        y = self._like(x, self._padded(x, paddings))
        table = self.constant(np.array(paddings, np.int32))
        self.op("MIRROR_PAD", [x, table], [y], "MirrorPadOptions", mode=int(symmetric))
        return y

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """RESHAPE; one -1 stands for the rest."""
        y = self._like(x, self._filled(x, shape))
        stored = self.constant(np.array(shape, np.int32))
        self.op("RESHAPE", [x, stored], [y], "ReshapeOptions", newShape=[int(d) for d in shape])
        return y

    def flatten_by_shape(self, x: Tensor) -> Tensor:
        """SHAPE, STRIDED_SLICE, PACK and RESHAPE to (batch, rest), as Keras' Flatten is converted."""
        rest = x.size // x.shape[0]
        shape = self._plain((len(x.shape),), "int32")
        self.op("SHAPE", [x], [shape], "ShapeOptions", outType=2)
        batch = self._plain((), "int32")
        ends = [self.constant(np.array([n], np.int32)) for n in (0, 1, 1)]
        self.op("STRIDED_SLICE", [shape, *ends], [batch], "StridedSliceOptions", shrinkAxisMask=1)
        wanted = self._plain((2,), "int32")
        self.op("PACK", [batch, self.constant(np.int32(rest))], [wanted], "PackOptions", valuesCount=2, axis=0)
        y = self._like(x, (x.shape[0], rest))
        self.op("RESHAPE", [x, wanted], [y], "ReshapeOptions")
        return y

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """SQUEEZE of axes of size 1."""
        if any(x.shape[a] != 1 for a in axes):
            raise BuildError(f"SQUEEZE: axes {axes} of {x.shape}")
        y = self._like(x, tuple(d for a, d in enumerate(x.shape) if a not in axes))
        self.op("SQUEEZE", [x], [y], "SqueezeOptions", squeezeDims=list(axes))
        return y

    def expand_dims(self, x: Tensor, axis: int) -> Tensor:
        """EXPAND_DIMS."""
        y = self._like(x, (*x.shape[:axis], 1, *x.shape[axis:]))
        self.op("EXPAND_DIMS", [x, self.constant(np.int32(axis))], [y], "ExpandDimsOptions")
        return y

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """TRANSPOSE."""
        if sorted(permutation) != list(range(len(x.shape))):
            raise BuildError(f"TRANSPOSE: {permutation} of {x.shape}")
        y = self._like(x, tuple(x.shape[a] for a in permutation))
        self.op("TRANSPOSE", [x, self.constant(np.array(permutation, np.int32))], [y], "TransposeOptions")
        return y

    def concatenation(self, *xs: Tensor, axis: int = 3, **out: Any) -> Tensor:
        """CONCATENATION; the output has the numbers of the first part unless ``scale`` or ``gain`` are given."""
        first = xs[0]
        shape = list(first.shape)
        for x in xs[1:]:
            rest = [d for a, d in enumerate(x.shape) if a != axis]
            if len(x.shape) != len(shape) or rest != [d for a, d in enumerate(shape) if a != axis]:
                raise BuildError(f"CONCATENATION: {first.shape} and {x.shape} along {axis}")
        shape[axis] = sum(x.shape[axis] for x in xs)
        if out:
            spread = max(abs(x.mean - first.mean) + x.std for x in xs)
            y = self._output(tuple(shape), Range(first.mean, spread), first.dtype, **out)
        else:
            y = self._like(first, tuple(shape))
        self.op("CONCATENATION", xs, [y], "ConcatenationOptions", axis=axis)
        return y

    def split(self, x: Tensor, parts: int, axis: int = 3) -> list[Tensor]:
        """SPLIT into equal parts."""
        if x.shape[axis] % parts:
            raise BuildError(f"SPLIT: {x.shape} in {parts} along {axis}")
        shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
        ys = [self._like(x, shape) for _ in range(parts)]
        self.op("SPLIT", [self.constant(np.int32(axis)), x], ys, "SplitOptions", numSplits=parts)
        return ys

    def strided_slice(
        self, x: Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], shrink: int = 0
    ) -> Tensor:
        """STRIDED_SLICE; ``shrink`` is the mask of axes that are dropped."""
        shape = []
        for axis, (size, b, e, s) in enumerate(zip(x.shape, begin, end, strides, strict=True)):
            if shrink >> axis & 1:
                continue
            shape.append(len(range(size)[b:e:s]))
        y = self._like(x, tuple(shape))
        ends = [self.constant(np.array(v, np.int32)) for v in (begin, end, strides)]
        self.op("STRIDED_SLICE", [x, *ends], [y], "StridedSliceOptions", shrinkAxisMask=shrink)
        return y

    def slice(self, x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        """SLICE; a size of -1 stands for the rest of the axis."""
        shape = tuple(d - b if n < 0 else n for d, b, n in zip(x.shape, begin, size, strict=True))
        if any(n < 1 or b + n > d for d, b, n in zip(x.shape, begin, shape, strict=True)):
            raise BuildError(f"SLICE: {begin}, {size} of {x.shape}")
        y = self._like(x, shape)
        ends = [self.constant(np.array(v, np.int32)) for v in (begin, size)]
        self.op("SLICE", [x, *ends], [y], "SliceOptions")
        return y

    def pack(self, *xs: Tensor, axis: int = 1) -> Tensor:
        """PACK along a new axis."""
        if any(x.shape != xs[0].shape for x in xs):
            raise BuildError("PACK: the parts have different shapes")
        shape = (*xs[0].shape[:axis], len(xs), *xs[0].shape[axis:])
        y = self._like(xs[0], shape)
        self.op("PACK", xs, [y], "PackOptions", valuesCount=len(xs), axis=axis)
        return y

    def unpack(self, x: Tensor, axis: int = 1) -> list[Tensor]:
        """UNPACK of an axis into its members."""
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        ys = [self._like(x, shape) for _ in range(x.shape[axis])]
        self.op("UNPACK", [x], ys, "UnpackOptions", num=len(ys), axis=axis)
        return ys

    def gather(self, x: Tensor, indices: Sequence[int], axis: int = 3) -> Tensor:
        """GATHER of members of an axis."""
        if any(not 0 <= i < x.shape[axis] for i in indices):
            raise BuildError(f"GATHER: {indices} of {x.shape} along {axis}")
        y = self._like(x, (*x.shape[:axis], len(indices), *x.shape[axis + 1 :]))
        self.op("GATHER", [x, self.constant(np.array(indices, np.int32))], [y], "GatherOptions", axis=axis)
        return y

    def arg_max(self, x: Tensor, axis: int = -1) -> Tensor:
        """ARG_MAX, as int64 or int32 positions."""
        axis %= len(x.shape)
        y = self._plain((*x.shape[:axis], *x.shape[axis + 1 :]), "int64")
        self.op("ARG_MAX", [x, self.constant(np.int32(axis))], [y], "ArgMaxOptions", outputType=4)
        return y

    def resize_bilinear(
        self, x: Tensor, size: Size, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Tensor:
        """RESIZE_BILINEAR to (height, width)."""
        return self._resize("RESIZE_BILINEAR", "ResizeBilinearOptions", x, size, align_corners, half_pixel_centers)

    def resize_nearest(
        self, x: Tensor, size: Size, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Tensor:
        """RESIZE_NEAREST_NEIGHBOR to (height, width)."""
        options = "ResizeNearestNeighborOptions"
        return self._resize("RESIZE_NEAREST_NEIGHBOR", options, x, size, align_corners, half_pixel_centers)

    def space_to_batch(self, x: Tensor, block: Size, paddings: Sequence[Sequence[int]]) -> Tensor:
        """SPACE_TO_BATCH_ND over height and width."""
        (bh, bw), (n, h, w, c) = pair(block), x.shape
        h, w = h + sum(paddings[0]), w + sum(paddings[1])
        if h % bh or w % bw:
            raise BuildError(f"SPACE_TO_BATCH_ND: {h} x {w} in blocks of {block}")
        y = self._like(x, (n * bh * bw, h // bh, w // bw, c))
        tables = [self.constant(np.array(v, np.int32)) for v in ((bh, bw), paddings)]
        self.op("SPACE_TO_BATCH_ND", [x, *tables], [y], "SpaceToBatchNDOptions")
        return y

    def batch_to_space(self, x: Tensor, block: Size, crops: Sequence[Sequence[int]]) -> Tensor:
        """BATCH_TO_SPACE_ND over height and width."""
        (bh, bw), (n, h, w, c) = pair(block), x.shape
        if n % (bh * bw):
            raise BuildError(f"BATCH_TO_SPACE_ND: {x.shape} in blocks of {block}")
        shape = (n // (bh * bw), h * bh - sum(crops[0]), w * bw - sum(crops[1]), c)
        y = self._like(x, shape)
        tables = [self.constant(np.array(v, np.int32)) for v in ((bh, bw), crops)]
        self.op("BATCH_TO_SPACE_ND", [x, *tables], [y], "BatchToSpaceNDOptions")
        return y

    def dilated_by_batches(self, x: Tensor, dilation: int, channels: int, **layer: Any) -> Tensor:
        """SPACE_TO_BATCH_ND, CONV_2D, BATCH_TO_SPACE_ND: how dilated convolutions used to be converted."""
        pads = [[0, -d % dilation] for d in x.shape[1:3]]
        y = self.space_to_batch(x, dilation, pads)
        y = self.conv(y, channels, padding="same", **layer)  # type: ignore[attr-defined]
        return self.batch_to_space(y, dilation, pads)

    def space_to_depth(self, x: Tensor, block: int = 2) -> Tensor:
        """SPACE_TO_DEPTH."""
        n, h, w, c = x.shape
        if h % block or w % block:
            raise BuildError(f"SPACE_TO_DEPTH: {x.shape} in blocks of {block}")
        y = self._like(x, (n, h // block, w // block, c * block * block))
        self.op("SPACE_TO_DEPTH", [x], [y], "SpaceToDepthOptions", blockSize=block)
        return y

    def depth_to_space(self, x: Tensor, block: int = 2) -> Tensor:
        """DEPTH_TO_SPACE."""
        n, h, w, c = x.shape
        if c % (block * block):
            raise BuildError(f"DEPTH_TO_SPACE: {x.shape} in blocks of {block}")
        y = self._like(x, (n, h * block, w * block, c // (block * block)))
        self.op("DEPTH_TO_SPACE", [x], [y], "DepthToSpaceOptions", blockSize=block)
        return y

    # -- shared ------------------------------------------------------------------------------------

    def _pool(self, name: str, x: Tensor, kernel: Size, stride: Size, padding: str, activation: str) -> Tensor:
        self._rank(name, x, 4)
        (kh, kw), (sh, sw) = pair(kernel), pair(stride)
        sizes = [
            same_output(n, s) if padding == "same" else window_output(name, n, k, s)
            for n, k, s in zip(x.shape[1:3], (kh, kw), (sh, sw), strict=True)
        ]
        y = self._like(x, (x.shape[0], sizes[0], sizes[1], x.shape[3]))
        code, _ = self._fused(activation)
        self.op(
            name, [x], [y], "Pool2DOptions", padding=PADDINGS[padding], strideW=sw, strideH=sh, filterWidth=kw,
            filterHeight=kh, fusedActivationFunction=code,
        )  # fmt: skip
        return y

    def _reduce(self, name: str, x: Tensor, axes: Sequence[int], keep_dims: bool, values: Range, **out: Any) -> Tensor:
        chosen = {a % len(x.shape) for a in axes}
        shape = tuple(1 if a in chosen else d for a, d in enumerate(x.shape) if keep_dims or a not in chosen)
        y = self._plain(shape, x.dtype, values) if x.scale is None else self._output(shape, values, x.dtype, **out)
        self.op(name, [x, self.constant(np.array(axes, np.int32))], [y], "ReducerOptions", keepDims=keep_dims)
        return y

    def _resize(self, name: str, options: str, x: Tensor, size: Size, align: bool, half: bool) -> Tensor:
        self._rank(name, x, 4)
        h, w = pair(size)
        y = self._like(x, (x.shape[0], h, w, x.shape[3]))
        table = self.constant(np.array([h, w], np.int32))
        self.op(name, [x, table], [y], options, alignCorners=align, halfPixelCenters=half)
        return y

    @staticmethod
    def _padded(x: Tensor, paddings: Sequence[Sequence[int]]) -> tuple[int, ...]:
        if len(paddings) != len(x.shape):
            raise BuildError(f"PAD: {paddings} of {x.shape}")
        return tuple(d + b + a for d, (b, a) in zip(x.shape, paddings, strict=True))

    @staticmethod
    def _filled(x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
        known = math.prod(d for d in shape if d >= 0)
        result = tuple(x.size // max(known, 1) if d < 0 else int(d) for d in shape)
        if math.prod(result) != x.size:
            raise BuildError(f"RESHAPE: {x.shape} to {tuple(shape)}")
        return result
