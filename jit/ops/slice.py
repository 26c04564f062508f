"""Slice: some rows and columns of an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Op
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts
from tilewright.jit.ir.regions import Range
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant


@dataclass(kw_only=True)
class Slice(Op):
    """``size[0]`` rows, ``begin[0]``, ``begin[0] + strides[0]``, ...; columns likewise; all channels."""

    begin: tuple[int, int]
    size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    per_channel = True

    def meaning(self, d: Domain, x: Any) -> Any:
        rows, columns = (
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(self.begin, self.size, self.strides, strict=True)
        )
        return x[:, rows, columns]

    def facts(self, *inputs: Facts) -> Facts:
        return inputs[0]

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Slice, list[Range]]:
        first, last = (self.begin[0] + row * self.strides[0] for row in (rows[0], rows[1] - 1))
        size = (rows[1] - rows[0], self.size[1])
        return replace(self, begin=(0, self.begin[1]), size=size), [(first, last + 1)]

    def lower(self, at: Lowering) -> None:
        out = at.output(self)
        term = Term(0, IDENTITY_SCALE, Combine.WRITE, *self.begin)
        at.elementwise(self, self.inputs, out, [term], identity_requant(out.shape[3]), strides=self.strides)
