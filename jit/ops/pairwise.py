"""Add, Multiply, Maximum and Minimum of two tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Op, same_pixels
from tilewright.jit.ir.domain import Domain, Kind
from tilewright.jit.ir.facts import Facts, constants, first_equal, requantized, scaled
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Channels, Requant, Scale
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.lowering import Lowering


@dataclass(kw_only=True)
class Pairwise(Op):
    """``requant(scale_a(a) JOIN scale_b(b))``, element by element. The requant arrays have shape (C,).

    ``a`` has the shape of the result, and so has ``b``, or a single row, a single column or both (a pixel), which
    then go with all of ``a``'s.
    """

    scale_a: Scale
    scale_b: Scale
    requant: Requant
    per_channel = True
    #: takes its extremes where its operands take theirs
    join: ClassVar[np.ufunc]
    combine: ClassVar[Combine] = Combine.WRITE
    product: ClassVar[bool] = False

    @property
    def terms(self) -> tuple[tuple[int, Scale], ...]:
        """(operand, its scale) of all that is joined."""
        return (0, self.scale_a), (1, self.scale_b)

    def joined(self, d: Domain, terms: list[Any]) -> tuple[Any, Kind]:
        """The accumulators of the terms together."""
        raise NotImplementedError(f"{self.kind} declares no join")

    def meaning(self, d: Domain, a: Any, b: Any) -> Any:
        terms = [np.broadcast_to(d.rescale((a, b)[k], scale), a.shape) for k, scale in self.terms]
        acc, kind = self.joined(d, terms)
        return d.requantize(acc, self.requant, kind)

    def facts(self, *inputs: Facts) -> Facts:
        first, second, *corrections = (scaled(scale, inputs[k]) for k, scale in self.terms)
        corners = [self.join(x, y) for x in first for y in second]
        ends = np.min(corners, axis=0), np.max(corners, axis=0)
        low, high = (end + sum(each[k] for each in corrections) for k, end in enumerate(ends))
        same = first_equal(*(x.same for x in inputs), constants(self.requant))
        return Facts(*requantized(self.requant, low, high), same)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Self, list[Range]]:
        """A single row goes with all of the others."""
        return self, [rows if height == out else (0, 1) for height in heights]

    def of_channels(self, channels: Channels) -> Self:
        return replace(self, requant=self.requant.of(channels))

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return same_pixels(shapes)

    def lower(self, at: Lowering) -> None:
        out, (height, width) = at.output(self), at.spec(self.inputs[1]).shape[1:3]
        moves = (height == out.shape[1], width == out.shape[2])
        terms = [
            Term(index, scale, self.combine if number else Combine.WRITE, moves=moves if index else (True, True))
            for number, (index, scale) in enumerate(self.terms)
        ]
        at.elementwise(self, self.inputs, out, terms, self.requant, product=self.product)


@dataclass(kw_only=True)
class Add(Pairwise):
    """The sum, wrapping. ``corrections``: (0 for a or 1 for b, a further scale of it that is added)."""

    corrections: tuple[tuple[int, Scale], ...] = ()
    join = np.add
    combine = Combine.ADD

    @property
    def terms(self) -> tuple[tuple[int, Scale], ...]:
        return (*super().terms, *self.corrections)

    def joined(self, d: Domain, terms: list[Any]) -> tuple[Any, Kind]:
        return sum(terms[1:], terms[0]), "sum"


class Multiply(Pairwise):
    """The product, wrapping."""

    join = np.multiply
    product = True

    def joined(self, d: Domain, terms: list[Any]) -> tuple[Any, Kind]:
        return d.multiply(terms[0], terms[1]), "sum"


class _Extreme(Pairwise):
    extreme: ClassVar[Literal["greatest", "least"]]

    def joined(self, d: Domain, terms: list[Any]) -> tuple[Any, Kind]:
        values = self.scale_a.identity and self.scale_b.identity
        return d.extreme(terms[0], terms[1], self.extreme, values), self.extreme


class Maximum(_Extreme):
    """The greater."""

    join = np.maximum
    combine = Combine.MAX
    extreme = "greatest"


class Minimum(_Extreme):
    """The less."""

    join = np.minimum
    combine = Combine.MIN
    extreme = "least"
