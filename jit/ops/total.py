"""Total: the planes of all cores' shares put together and added up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Op, same_pixels
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Channels, Requant, Scale
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.kernels.total import TotalNode
from tilewright.jit.lower.lowering import Lowering


@dataclass(kw_only=True)
class Total(Op):
    """``requant(sum over inputs x and k of scales[k](x[..., k * pitch + first + c]))``, wrapping: planes of sums put
    together and added up.

    C, the channels of the result, are those of ``requant``; ``first + C`` is at most ``pitch``.
    """

    scales: tuple[Scale, ...]
    requant: Requant
    pitch: int
    first: int = 0

    def meaning(self, d: Domain, *inputs: Any) -> Any:
        channels = len(self.requant.bias)
        terms = [
            d.rescale(x[..., k * self.pitch + self.first :][..., :channels], scale)
            for x in inputs for k, scale in enumerate(self.scales)
        ]  # fmt: skip
        single = len(terms) == 1 and self.scales[0].identity
        return d.requantize(sum(terms[1:], terms[0]), self.requant, "value" if single else "sum")

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Total, list[Range]]:
        return self, [rows] * len(heights)

    def of_channels(self, channels: Channels) -> Total:
        assert isinstance(channels, slice)  # which lie beside each other
        return replace(self, first=self.first + channels.start, requant=self.requant.of(channels))

    def of_range(self, channels: Range | None, everything: list[Range]) -> tuple[Op, list[Range]]:
        return (self if channels is None else self.of_channels(slice(*channels))), everything

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return same_pixels(shapes)

    def lower(self, at: Lowering) -> None:
        """Raises :class:`PlaceError` for planes that do not begin with a vector."""
        out, lanes = at.output(self), at.config.lanes
        at.require_whole(self, self.pitch)
        at.require_whole(self, self.first)
        terms = [
            Term(share, scale, Combine.ADD if k else Combine.WRITE, unit=(k * self.pitch + self.first) // lanes)
            for k, scale in enumerate(self.scales)
            for share in range(len(self.inputs))
        ]
        at.nodes.append(
            TotalNode(
                name=self.name, layer=at.layer, config=at.config, inputs=[at.resolve(name) for name in self.inputs],
                output=self.output, out=out, terms=terms, requant=self.requant, channels=out.shape[3],
            )
        )  # fmt: skip
