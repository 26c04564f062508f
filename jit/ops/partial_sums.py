"""PartialSums: a core's share of a convolution's sums, as planes of int8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.base import Op
from tilewright.jit.ir.convolution import Convolution, selects
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.partial_sums import PartialSumsNode
from tilewright.jit.lower.dense_weights import in_parts
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.plan.layout import units_for


@dataclass(kw_only=True)
class PartialSums(Convolution):
    """What some input channels add to a convolution's sums of 32 bits, as *planes* of int8 beside each other.

    ``acc = sum x * w`` over as many channels as ``weight`` (OC, KH, KW, IC) has, from ``first`` on. Plane k, channels
    k * OC and on, is ``requants[k](acc * factors[k])``, the product wrapping; each factor is a multiple of the one
    before it, the first is 1.
    """

    factors: tuple[int, ...]
    requants: tuple[Requant, ...]
    first: int = 0

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weight.shape[1], self.weight.shape[2]

    def meaning(self, d: Domain, x: Any) -> Any:
        outputs, _, _, channels = self.weight.shape
        acc = d.convolve(self.view(x[..., self.first : self.first + channels]), self.weight)
        planes = [d.requantize(acc, self.requants[0], values=selects(self.weight.reshape(outputs, -1)))]
        for factor, requant in zip(self.factors[1:], self.requants[1:], strict=True):
            planes.append(d.requantize(d.times(acc, factor), requant))
        return np.concatenate(planes, axis=-1)

    def of_range(self, channels: Range | None, everything: list[Range]) -> tuple[Op, list[Range]]:
        made, _ = replace(self, first=0), super().of_range(channels, everything)
        return made, [(self.first, self.first + self.weight.shape[3])]

    def lower(self, at: Lowering) -> None:
        """Raises :class:`PlaceError` for some channels of an input, and for planes that are no whole vectors."""
        c, source = at.config, at.spec(self.inputs[0])
        channels = self.weight.shape[3]
        if (self.first, channels) != (0, source.shape[3]):
            raise PlaceError(
                f"{self.name}: reads {channels} channels of {source.shape[3]}; a program is given those alone"
            )
        at.require_whole(self, self.weight.shape[0])
        units = units_for(channels, c)
        weight, parts = in_parts(self.weight, c.weight_bits, units * c.lanes, self.name)
        at.nodes.append(
            PartialSumsNode(
                name=self.name, layer=at.layer, config=c, inputs=[at.resolve(self.inputs[0])] * parts,
                output=self.output, out=at.output(self), weight=weight, requant=self.requants[0],
                strides=self.strides, dilation=self.dilation, pad=self.padding, pad_constant=self.pad_value,
                in_units=[units] * parts, in_width=source.shape[2], factors=self.factors, planes=self.requants,
            )
        )  # fmt: skip
