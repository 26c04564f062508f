"""Requantize: a function of single elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Op
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts, rescaled
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Channels, Requant, Scale
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.lowering import Lowering


@dataclass(kw_only=True)
class Requantize(Op):
    """Element-wise int8 -> int8: ``requant(scale(x))``: QUANTIZE, ReLU, clip, a rescale; by a table any function."""

    scale: Scale
    requant: Requant
    per_channel = True

    def meaning(self, d: Domain, x: Any) -> Any:
        return d.rescaled(x, self.scale, self.requant)

    def facts(self, *inputs: Facts) -> Facts:
        return rescaled(self.scale, self.requant, inputs[0])

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Requantize, list[Range]]:
        return self, [rows]

    def of_channels(self, channels: Channels) -> Requantize:
        return replace(self, requant=self.requant.of(channels))

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return True

    def lower(self, at: Lowering) -> None:
        at.elementwise(self, self.inputs, at.output(self), [Term(0, self.scale, Combine.WRITE)], self.requant)
