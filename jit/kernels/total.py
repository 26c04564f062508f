"""Planes of sums added up: of each input in accumulators of its own, which are then added to one another."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.jit.kernels.base import SAME_BANK_CYCLES, Emit, Task
from tilewright.jit.kernels.elementwise import ElementwiseNode
from tilewright.jit.plan import tables as t


@dataclass(kw_only=True)
class TotalNode(ElementwiseNode):
    """:class:`~tilewright.jit.graph.Total`: a term for each plane of each input, those of one input in order.

    Planes of a row of few pixels follow one another too closely for one accumulator to take them all; for as many
    accumulators as there are inputs they do not.
    """

    def extents(self) -> tuple[int, ...]:
        row = [*super().extents()]
        row[t.L_PARTS], row[t.L_TERMS] = len(self.inputs), self._passes
        return tuple(row)

    @property
    def _passes(self) -> int:
        """Cycles of ALU for each vector, ahead of its requantisation."""
        return len(self.terms) + SAME_BANK_CYCLES * (len(self.inputs) - 1)

    @property
    def alu_work(self) -> int:
        return self.height * self.width * self.vectors * (self._passes + 1)

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c, left = self.config, len(self.inputs)
        vectors, columns, pixel = self.vectors, task.hi - task.lo, left * self.acc_units
        for term in self.terms:
            source = e.buffer(self.inputs[term.index])
            e.rescale(
                source, term.scale.table,
                rounding=int(term.scale.rounding), combine=int(term.combine), outer=columns, inner=vectors,
                src=source.offset(task.row, task.lo, term.unit), src_outer=source.units, src_inner=c.out_units,
                dst=acc + term.index * self.acc_units, dst_outer=pixel, dst_inner=c.out_units,
                prm=e.prm_base(0) + self._scale_entry[term.scale],
            )  # fmt: skip
        while left > 1:
            kept = -(-left // 2)
            e.add(
                outer=columns, inner=(left - kept) * vectors, dst=acc, dst_outer=pixel, dst_inner=c.out_units,
                src=acc + kept * self.acc_units, src_outer=pixel, src_inner=c.out_units,
            )  # fmt: skip
            left = kept
        self.finish(task, e, acc, pixel)
