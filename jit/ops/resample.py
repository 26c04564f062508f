"""Resample: rows and columns that are weighted sums of the input's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.jit.ir.base import Op
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Channels, Requant
from tilewright.jit.kernels.resample import ResampleNode
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.sampling import Sampling


@dataclass(kw_only=True)
class Resample(Op):
    """``requant(sum over i, j of rows[y, i] * columns[x, j] * (input[i, j] - offset))``, channel by channel.

    The sums of the weights' products' magnitudes times 255 stay within int32. ``requant`` is alike for all channels.
    """

    rows: Sampling
    columns: Sampling
    offset: int
    requant: Requant
    per_channel = True

    def meaning(self, d: Domain, x: Any) -> Any:
        acc = d.resample(x, self.rows, self.columns, self.offset)
        single = self.rows.selects[:, None, None] & self.columns.selects[None, :, None]
        return d.requantize(acc, self.requant, values=single if self.offset == 0 else None)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Resample, list[Range]]:
        part, read = self.rows.part(*rows)
        return replace(self, rows=part), [read]

    def of_channels(self, channels: Channels) -> Resample:
        return replace(self, requant=self.requant.of(channels))

    def lower(self, at: Lowering) -> None:
        at.nodes.append(
            ResampleNode(
                name=self.name, layer=at.layer, config=at.config, inputs=[at.resolve(self.inputs[0])],
                output=self.output, out=at.output(self), rows=self.rows, columns=self.columns, offset=self.offset,
                requant=self.requant,
            )
        )  # fmt: skip
