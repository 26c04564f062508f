"""Pad: pixels of a constant around an image."""

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


@dataclass(kw_only=True)
class Pad(Op):
    """Spatial padding with a constant: ``padding`` is (top, left, bottom, right)."""

    padding: Sides
    pad_value: int
    per_channel = True

    def meaning(self, d: Domain, x: Any) -> Any:
        return pad(x, self.padding, self.pad_value)

    def facts(self, *inputs: Facts) -> Facts:
        return inputs[0].padded(self.padding, self.pad_value)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Pad, list[Range]]:
        return of_windows(self, rows, heights[0], 1, 1)

    def with_pad(self, pad: Padding) -> Pad | None:
        """None where its own padding has another value."""
        if pad.value != self.pad_value and any(self.padding):
            return None
        return replace(self, inputs=pad.inputs, padding=pad.around(self.padding), pad_value=pad.value)

    def lower(self, at: Lowering) -> None:
        out = at.output(self)
        term = Term(0, IDENTITY_SCALE, Combine.WRITE, -self.padding[0], -self.padding[1])
        requant = identity_requant(out.shape[3])
        at.elementwise(self, self.inputs, out, [term], requant, pad=self.padding, pad_constant=self.pad_value)
