"""What convolutions have in common: weights over windows of an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.base import Graph, Op, Padding, of_windows
from tilewright.jit.ir.regions import Array, Range, Sides, image_shape, pad, windows


def selects(weights: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(C,): whether the sums with weights (C, terms) are a single int8 value, or none: one weight of 1 at most."""
    used = np.count_nonzero(weights, axis=1)
    return (used == 0) | ((used == 1) & (weights.sum(axis=1, dtype=np.int64) == 1))


@dataclass(kw_only=True)
class Convolution(Op):
    """``acc = sum x * w`` over windows, where padding is ``pad_value``; ``padding`` is (top, left, bottom, right)."""

    weight: NDArray[np.int8]
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    pad_value: int = 0

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of the kernel."""
        raise NotImplementedError(f"{self.kind} declares no kernel")

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns that a window spans."""
        (kh, kw), (down, across) = self.kernel, self.dilation
        return (kh - 1) * down + 1, (kw - 1) * across + 1

    @property
    def row_spread(self) -> int:
        """How many rows of what windows run over there are for one of the image."""
        return 1

    @property
    def window_rows(self) -> int:
        return (self.kernel[0] - 1) * self.dilation[0] // self.row_spread + 1

    def view(self, x: Array) -> Array:
        """The windows, (1, OH, OW, C, KH, KW)."""
        return windows(pad(x, self.padding, self.pad_value), self.kernel, self.strides, self.dilation)

    def macs(self, graph: Graph) -> int:
        _, height, width, _ = image_shape(graph.tensors[self.output].shape)
        return height * width * int(np.prod(self.weight.shape))

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Self, list[Range]]:
        return of_windows(self, rows, heights[0], self.extent[0], self.strides[0], self.row_spread)

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return self.kernel == self.strides == (1, 1) and not any(self.padding)

    def with_pad(self, pad: Padding) -> Self | None:
        """None where its own padding has another value, or a window would reach no element."""
        if pad.value != self.pad_value and any(self.padding):
            return None
        padding = top, left, bottom, right = pad.around(self.padding)
        if max(top, bottom) >= self.extent[0] or max(left, right) >= self.extent[1]:
            return None
        return replace(self, inputs=pad.inputs, padding=padding, pad_value=pad.value)
