"""Operators of :class:`TfliteNet` that move, join or reduce values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.tensors import (
    BuildError,
    Range,
    Tensor,
    joined,
    mean_of,
    pair,
    part_of,
    reduced,
    reshaped,
    resized,
    same_output,
    squeezed,
    transposed,
    window_output,
)
from tests.fuzz.tflite_base import TfliteBase
from tests.fuzz.tflite_layers import PADDINGS, Size

#: operators whose kernels do not look at scales
_UNCOMPARED = frozenset({
    "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "GATHER", "TILE", "REVERSE_V2",
    "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
})  # fmt: skip


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
        return self._reduce("MEAN", x, axes, keep_dims, mean_of(x, math.prod(x.shape[a] for a in axes)), **out)

    def sum(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False, **out: Any) -> Tensor:
        """SUM over some axes."""
        count = math.prod(x.shape[a] for a in axes)
        return self._reduce("SUM", x, axes, keep_dims, Range(x.mean * count, x.std * math.sqrt(count)), **out)

    def reduce_max(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False, sign: int = 1) -> Tensor:
        """REDUCE_MAX, or with a ``sign`` of -1 REDUCE_MIN; the output has the numbers of the input."""
        numbers = {"scale": x.scale, "zero_point": x.zero_point} if x.scale is not None else {}
        name = "REDUCE_MAX" if sign > 0 else "REDUCE_MIN"
        return self._reduce(name, x, axes, keep_dims, Range(x.mean + sign * x.std, x.std / 2), **numbers)

    def reduce_min(self, x: Tensor, axes: Sequence[int] = (1, 2), keep_dims: bool = False) -> Tensor:
        """REDUCE_MIN over some axes; the output has the numbers of the input."""
        return self.reduce_max(x, axes, keep_dims, -1)

    def reverse(self, x: Tensor, axis: int) -> Tensor:
        """REVERSE_V2 of one axis."""
        return self._moved("REVERSE_V2", x, x.shape, [[axis]], "ReverseV2Options")

    def tile(self, x: Tensor, times: Sequence[int]) -> Tensor:
        """TILE, each axis so many times."""
        shape = tuple(d * n for d, n in zip(x.shape, times, strict=True))
        return self._moved("TILE", x, shape, [times], "TileOptions")

    def pad(self, x: Tensor, paddings: Sequence[Sequence[int]]) -> Tensor:
        """PAD with zeros; a (before, after) for each axis."""
        return self._moved("PAD", x, self._padded(x, paddings), [paddings], "PadOptions")

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
        shape = self._padded(x, paddings)
        return self._moved("MIRROR_PAD", x, shape, [paddings], "MirrorPadOptions", mode=int(symmetric))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """RESHAPE; one -1 stands for the rest."""
        result, stored = reshaped("RESHAPE", x, shape), [int(d) for d in shape]
        return self._moved("RESHAPE", x, result, [stored], "ReshapeOptions", newShape=stored)

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
        return self._moved("SQUEEZE", x, squeezed("SQUEEZE", x, axes), (), "SqueezeOptions", squeezeDims=list(axes))

    def expand_dims(self, x: Tensor, axis: int) -> Tensor:
        """EXPAND_DIMS."""
        return self._moved("EXPAND_DIMS", x, (*x.shape[:axis], 1, *x.shape[axis:]), [axis], "ExpandDimsOptions")

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """TRANSPOSE."""
        shape = transposed("TRANSPOSE", x, permutation)
        return self._moved("TRANSPOSE", x, shape, [permutation], "TransposeOptions")

    def concatenation(self, *xs: Tensor, axis: int = 3, **out: Any) -> Tensor:
        """CONCATENATION; the output has the numbers of the first part unless ``scale`` or ``gain`` are given."""
        shape, values = joined("CONCATENATION", xs, axis)
        y = self._output(shape, values, xs[0].dtype, **out) if out else self._like(xs[0], shape)
        self.op("CONCATENATION", xs, [y], "ConcatenationOptions", axis=axis)
        return y

    def split(self, x: Tensor, parts: int, axis: int = 3) -> list[Tensor]:
        """SPLIT into equal parts."""
        shape = part_of("SPLIT", x, parts, axis)
        ys = [self._like(x, shape) for _ in range(parts)]
        self.op("SPLIT", [self.constant(np.int32(axis)), x], ys, "SplitOptions", numSplits=parts)
        return ys

    def strided_slice(
        self, x: Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], shrink: int = 0,
        masks: tuple[int, int] = (0, 0),
    ) -> Tensor:  # fmt: skip
        """STRIDED_SLICE; ``shrink`` is the mask of axes that are dropped, ``masks`` those of axes whose begin, and
        whose end, does not count."""
        ends = [[None if mask >> k & 1 else at for k, at in enumerate(to)] for mask, to in zip(masks, (begin, end))]
        sizes = [len(range(n)[b:e:s]) for n, b, e, s in zip(x.shape, *ends, strides, strict=True)]
        shape = tuple(n for axis, n in enumerate(sizes) if not shrink >> axis & 1)
        fields = {"shrinkAxisMask": shrink, "beginMask": masks[0], "endMask": masks[1]}
        return self._moved("STRIDED_SLICE", x, shape, (begin, end, strides), "StridedSliceOptions", **fields)

    def slice(self, x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        """SLICE; a size of -1 stands for the rest of the axis."""
        shape = tuple(d - b if n < 0 else n for d, b, n in zip(x.shape, begin, size, strict=True))
        if any(n < 1 or b + n > d for d, b, n in zip(x.shape, begin, shape, strict=True)):
            raise BuildError(f"SLICE: {begin}, {size} of {x.shape}")
        return self._moved("SLICE", x, shape, (begin, size), "SliceOptions")

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
        ys = [self._like(x, resized(x, axis)) for _ in range(x.shape[axis])]
        self.op("UNPACK", [x], ys, "UnpackOptions", num=len(ys), axis=axis)
        return ys

    def gather(self, x: Tensor, indices: Sequence[int], axis: int = 3) -> Tensor:
        """GATHER of members of an axis."""
        if any(not 0 <= i < x.shape[axis] for i in indices):
            raise BuildError(f"GATHER: {indices} of {x.shape} along {axis}")
        return self._moved("GATHER", x, resized(x, axis, len(indices)), [indices], "GatherOptions", axis=axis)

    def arg_max(self, x: Tensor, axis: int = -1) -> Tensor:
        """ARG_MAX, as int64 or int32 positions."""
        axis %= len(x.shape)
        y = self._plain(resized(x, axis), "int64")
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
        shape = (n * bh * bw, h // bh, w // bw, c)
        return self._moved("SPACE_TO_BATCH_ND", x, shape, ((bh, bw), paddings), "SpaceToBatchNDOptions")

    def batch_to_space(self, x: Tensor, block: Size, crops: Sequence[Sequence[int]]) -> Tensor:
        """BATCH_TO_SPACE_ND over height and width."""
        (bh, bw), (n, h, w, c) = pair(block), x.shape
        if n % (bh * bw):
            raise BuildError(f"BATCH_TO_SPACE_ND: {x.shape} in blocks of {block}")
        shape = (n // (bh * bw), h * bh - sum(crops[0]), w * bw - sum(crops[1]), c)
        return self._moved("BATCH_TO_SPACE_ND", x, shape, ((bh, bw), crops), "BatchToSpaceNDOptions")

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
        shape = (n, h // block, w // block, c * block * block)
        return self._moved("SPACE_TO_DEPTH", x, shape, (), "SpaceToDepthOptions", blockSize=block)

    def depth_to_space(self, x: Tensor, block: int = 2) -> Tensor:
        """DEPTH_TO_SPACE."""
        n, h, w, c = x.shape
        if c % (block * block):
            raise BuildError(f"DEPTH_TO_SPACE: {x.shape} in blocks of {block}")
        shape = (n, h * block, w * block, c // (block * block))
        return self._moved("DEPTH_TO_SPACE", x, shape, (), "DepthToSpaceOptions", blockSize=block)

    # -- shared ------------------------------------------------------------------------------------

    def _moved(
        self, name: str, x: Tensor, shape: tuple[int, ...], tables: Sequence[Any], options: str, **fields: Any
    ) -> Tensor:
        """An operator whose output has the numbers of the input, or another scale; ``tables`` are constant operands, as
        int32."""
        y = self._like(x, shape)
        if self.relabels and x.scale is not None and name in _UNCOMPARED and self.rng.random() < 0.4:
            gain = float(self.rng.uniform(0.4, 2.5))
            y = self._quantised(shape, x.dtype, Range(gain * x.mean, gain * x.std), gain * x.scale, x.zero_point)
        self.op(name, [x, *(self.constant(np.array(table, np.int32)) for table in tables)], [y], options, **fields)
        return y

    def _pool(self, name: str, x: Tensor, kernel: Size, stride: Size, padding: str, activation: str) -> Tensor:
        self._need_rank(name, x, 4)
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
        shape = reduced(x, axes, keep_dims)
        y = self._plain(shape, x.dtype, values) if x.scale is None else self._output(shape, values, x.dtype, **out)
        self.op(name, [x, self.constant(np.array(axes, np.int32))], [y], "ReducerOptions", keepDims=keep_dims)
        return y

    def _resize(self, name: str, options: str, x: Tensor, size: Size, align: bool, half: bool) -> Tensor:
        self._need_rank(name, x, 4)
        shape = (x.shape[0], *pair(size), x.shape[3])
        return self._moved(name, x, shape, [pair(size)], options, alignCorners=align, halfPixelCenters=half)

    @staticmethod
    def _padded(x: Tensor, paddings: Sequence[Sequence[int]]) -> tuple[int, ...]:
        if len(paddings) != len(x.shape):
            raise BuildError(f"PAD: {paddings} of {x.shape}")
        return tuple(d + b + a for d, (b, a) in zip(x.shape, paddings, strict=True))
