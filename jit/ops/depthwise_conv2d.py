"""DepthwiseConv2D: a kernel for each channel by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.jit.ir.convolution import Convolution, selects
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts, constants, first_equal, requantized
from tilewright.jit.ir.requant import Channels, Requant
from tilewright.jit.kernels.weight_bits import fits
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.ops.conv2d import diagonal


@dataclass(kw_only=True)
class DepthwiseConv2D(Convolution):
    """Depthwise convolution, channel multiplier 1: ``weight`` is (KH, KW, C), as of :class:`Conv2D`. A multiplier
    above 1 is a grouped :class:`Conv2D`."""

    requant: Requant
    per_channel = True

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weight.shape[0], self.weight.shape[1]

    def meaning(self, d: Domain, x: Any) -> Any:
        values = selects(self.weight.reshape(-1, self.weight.shape[2]).T)
        return d.requantize(d.tap_sums(self.view(x), self.weight), self.requant, values=values)

    def facts(self, *inputs: Facts) -> Facts:
        x = inputs[0].padded(self.padding, self.pad_value)
        taps = self.weight.reshape(-1, self.weight.shape[2]).astype(np.int64)
        above, below = np.maximum(taps, 0).sum(0), np.minimum(taps, 0).sum(0)
        lo, hi = above * x.lo + below * x.hi, above * x.hi + below * x.lo
        return Facts(*requantized(self.requant, lo, hi), first_equal(x.same, taps.T, constants(self.requant)))

    def of_channels(self, channels: Channels) -> DepthwiseConv2D:
        weight = np.ascontiguousarray(self.weight[:, :, channels])
        return replace(self, weight=weight, requant=self.requant.of(channels))

    def lower(self, at: Lowering) -> None:
        # tiles have no second pass over a window
        wide = at.tiled and not fits(self.weight, at.config.weight_bits, 1)
        if self.dilation[1] > 1 or self.kernel[1] > at.config.block_in or wide:
            dense = diagonal(self, self.weight, self.requant, self.strides)
            replace(dense, dilation=self.dilation, padding=self.padding, pad_value=self.pad_value).lower(at)
            return
        out = at.output(self)
        at.window(
            self, out, self.weight, {0: self.requant}, np.zeros(out.shape[1:3], np.int64), self.strides,
            self.dilation[0], self.padding, self.pad_value,
        )  # fmt: skip
