"""Sums of a convolution that leave acc as bytes: one GEMM, and a REQUANTIZE for each byte of what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Task, prm_entries
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import units_for, vectors_for


@dataclass(kw_only=True)
class PartialSumsNode(ConvNode):
    """:class:`~tilewright.jit.graph.PartialSums`. ``planes`` has a requantisation for each factor.

    In acc lies what a convolution of ``weight`` would have there; each plane of the output is as wide as that.
    """

    factors: Sequence[int]
    planes: Sequence[Requant]

    @property
    def out_units(self) -> int:
        """Units per pixel of each plane."""
        return units_for(self.weight.shape[0], self.config)

    @property
    def pixel_vectors(self) -> int:
        """Of each plane, all with channels."""
        return vectors_for(self.weight.shape[0], self.config)

    @property
    def alu_work(self) -> int:
        return super().alu_work * (2 * len(self.planes) - 1)

    def extents(self) -> tuple[int, ...]:
        row = [*super().extents()]
        row[t.L_TERMS] = len(self.planes) - 1
        return tuple(row)

    def constant_entries(self) -> tuple[int, int]:
        weights, entries = super().constant_entries()
        return weights, entries * len(self.planes)

    def constants(self, lo: int, hi: int) -> Chunk:
        """With the entries of all planes of a vector beside each other."""
        entries = [prm_entries(r, self.config, self.vectors)[lo:hi] for r in self.planes]
        prm = np.stack(entries, axis=1).reshape(-1, *entries[0].shape[1:])
        return Chunk(super().constants(lo, hi).weights, prm)

    def cut(self, row: Sequence[int]) -> None:
        super(ConvNode, self).cut(row)  # several inputs are parts of the weights, not slices that come one by one

    def finish(self, task: Task, e: Emit, acc: int, pixel: int) -> None:
        c, count = self.config, len(self.planes)
        vectors, start = task.hi - task.lo, self.chunk_range(task)[0]
        steps = [1, *(after // before for before, after in pairwise(self.factors))]
        for k, (step, requant) in enumerate(zip(steps, self.planes, strict=True)):
            if step > 1:
                e.scale(step, outer=vectors, inner=self.width, dst=acc, dst_outer=c.out_units, dst_inner=pixel)
            for out in e.outputs(self.output):
                e.requantize(
                    requant, out,
                    outer=vectors, inner=self.width,
                    src=acc, src_outer=c.out_units, src_inner=pixel,
                    dst=out.offset(task.row, 0, self.first_unit + k * self.out_units + task.lo * c.out_units),
                    dst_outer=c.out_units * out.step, dst_inner=out.pixel,
                    prm=e.prm_base(task.chunk) + (task.lo - start) * count + k, prm_outer=count,
                )  # fmt: skip
