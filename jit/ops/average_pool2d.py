"""AvgPool2D: sums of windows, each requantised by its number of valid elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.jit.ir.base import Graph, Op, of_windows
from tilewright.jit.ir.domain import Domain, Kind
from tilewright.jit.ir.facts import Facts, constants, first_equal, requantized
from tilewright.jit.ir.regions import Array, Range, Sides, image_shape, pad, windows
from tilewright.jit.ir.requant import Channels, Requant
from tilewright.jit.kernels.global_pool import GlobalPoolNode
from tilewright.jit.kernels.window import valid_counts
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.ops.conv2d import diagonal


@dataclass(kw_only=True)
class AvgPool2D(Op):
    """``requant_n(sum over the window's valid elements)``; padding contributes nothing to sum or count.

    ``requants`` maps the number of valid elements n to its requantisation.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: Sides
    requants: dict[int, Requant]
    per_channel = True

    @property
    def window_rows(self) -> int:
        return self.kernel[0]

    def meaning(self, d: Domain, x: Any) -> Any:
        acc = d.tap_sums(windows(pad(x, self.padding, 0), self.kernel, self.strides), None)
        counts = self.counts((x.shape[1], x.shape[2]))
        result = np.empty(acc.shape, d.dtype)
        for count in np.unique(counts).tolist():
            where = counts == count
            kind: Kind = "value" if self.kernel == (1, 1) else "sum"
            result[:, where] = d.requantize(acc[:, where], self.requants[count], kind)
        return result

    def counts(self, size: tuple[int, int]) -> Array:
        """Number of unpadded elements in each window, (OH, OW), for an input of ``size`` (H, W)."""
        ones = pad(np.ones((1, *size, 1), np.int64), self.padding, 0)
        return windows(ones, self.kernel, self.strides)[0, :, :, 0].sum(axis=(-1, -2))

    def additions(self, graph: Graph) -> int:
        return math.prod(self.kernel) * math.prod(image_shape(graph.tensors[self.output].shape))

    def facts(self, *inputs: Facts) -> Facts:
        (x,) = inputs
        ends = [requantized(requant, n * x.lo, n * x.hi) for n, requant in self.requants.items()]
        same = first_equal(x.same, *(constants(requant) for requant in self.requants.values()))
        return Facts(np.min([lo for lo, _ in ends], axis=0), np.max([hi for _, hi in ends], axis=0), same)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[AvgPool2D, list[Range]]:
        return of_windows(self, rows, heights[0], self.kernel[0], self.strides[0])

    def of_channels(self, channels: Channels) -> AvgPool2D:
        return replace(self, requants={n: r.of(channels) for n, r in self.requants.items()})

    def lower(self, at: Lowering) -> None:
        source, out = at.spec(self.inputs[0]), at.output(self)
        _, height, width, _ = source.shape
        if self.kernel == (height, width) and out.shape[1:3] == (1, 1) and not any(self.padding):
            at.nodes.append(
                GlobalPoolNode(
                    name=self.name, layer=at.layer, config=at.config, inputs=[at.resolve(self.inputs[0])],
                    output=self.output, out=out, requant=self.requants[height * width], in_height=height,
                    in_width=width,
                )
            )  # fmt: skip
            return
        if self.kernel[1] > at.config.block_in and not any(self.padding):  # more taps than a window has
            (requant,) = self.requants.values()
            diagonal(self, np.ones((*self.kernel, out.shape[3]), np.int8), requant, self.strides).lower(at)
            return
        rows = valid_counts(height, out.shape[1], self.kernel[0], self.strides[0], self.padding[0])
        columns = valid_counts(width, out.shape[2], self.kernel[1], self.strides[1], self.padding[1])
        taps = np.ones((*self.kernel, 1), np.int8)
        counts = rows[:, None] * columns[None, :]
        at.window(self, out, taps, self.requants, counts, self.strides, 1, self.padding, 0)
