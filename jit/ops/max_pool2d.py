"""MaxPool2D: the greatest value of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Op, Padding, of_windows
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts
from tilewright.jit.ir.regions import Range, Sides, pad
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant

LOWEST = -128  #: what padding is, which never wins


@dataclass(kw_only=True)
class MaxPool2D(Op):
    """Maximum over the window's valid elements, then clamp to [lo, hi]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: Sides
    lo: int = -128
    hi: int = 127
    per_channel = True

    @property
    def window_rows(self) -> int:
        return self.kernel[0]

    def meaning(self, d: Domain, x: Any) -> Any:
        x, clamp = pad(x, self.padding, LOWEST), identity_requant(1, self.lo, self.hi)
        if self.kernel == (1, 1):
            return d.requantize(x[:, :: self.strides[0], :: self.strides[1]], clamp, "value")
        return d.requantize(d.window_maximum(x, self.kernel, self.strides), clamp, "greatest")

    def facts(self, *inputs: Facts) -> Facts:
        (x,) = inputs
        top, left, bottom, right = self.padding
        if max(top, bottom) >= self.kernel[0] or max(left, right) >= self.kernel[1]:
            x = x.padded(self.padding, LOWEST)  # there are windows of padding alone
        return Facts(x.lo.clip(self.lo, self.hi), x.hi.clip(self.lo, self.hi), x.same)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[MaxPool2D, list[Range]]:
        return of_windows(self, rows, heights[0], self.kernel[0], self.strides[0])

    def with_pad(self, pad: Padding) -> MaxPool2D | None:
        """Only of the least value, and where every window still reaches an element."""
        padding = top, left, bottom, right = pad.around(self.padding)
        if pad.value != LOWEST or max(top, bottom) >= self.kernel[0] or max(left, right) >= self.kernel[1]:
            return None
        return replace(self, inputs=pad.inputs, padding=padding)

    def lower(self, at: Lowering) -> None:
        taps = [(dy, dx) for dy in range(self.kernel[0]) for dx in range(self.kernel[1])]
        terms = [
            Term(0, IDENTITY_SCALE, Combine.MAX if n else Combine.WRITE, dy - self.padding[0], dx - self.padding[1])
            for n, (dy, dx) in enumerate(taps)
        ]
        out = at.output(self)
        requant = identity_requant(out.shape[3], self.lo, self.hi)
        at.elementwise(
            self, self.inputs, out, terms, requant, strides=self.strides, pad=self.padding, pad_constant=LOWEST
        )
