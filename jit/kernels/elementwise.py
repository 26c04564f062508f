"""ALU-only operators: sums, products and extremes of two tensors, requantise, tables, concatenation, padding, max
pooling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.isa.spec import Combine
from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.kernels.base import (
    SAME_BANK_CYCLES,
    Chunk,
    Emit,
    Node,
    Task,
    prm_entries,
    uniform_prm,
)
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import units_for, vectors_for


@dataclass(frozen=True)
class Term:
    """One RESCALE of a task: input ``index`` at rows ``row * stride_y + dy``, columns ``x * stride_x + dx``, of each
    pixel the units from ``unit`` on.

    ``moves``: whether it goes from row to row, and from column to column, with the output at all.
    """

    index: int
    scale: Scale
    combine: Combine
    dy: int = 0
    dx: int = 0
    moves: tuple[bool, bool] = (True, True)
    unit: int = 0


@dataclass(kw_only=True)
class ElementwiseNode(Node):
    """``out[.., first_unit:] = requant(combined rescales of input pixels)``, row by row.

    Covers operators of two tensors (two terms), requantise (one), max pooling (a term per tap) and one part of a
    concatenation (``first_unit`` > 0). ``channels`` are the channels this node writes. A ``product`` rescales its
    second term by itself, behind the first in acc, and multiplies.
    """

    terms: list[Term]
    requant: Requant
    channels: int
    strides: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_constant: int = 0
    product: bool = False

    def __post_init__(self) -> None:
        self.acc_units = self.vectors * self.config.out_units
        self._uniform = self.requant.uniform
        self._scale_entry = {scale: i for i, scale in enumerate(dict.fromkeys(term.scale for term in self.terms))}

    @property
    def out_units(self) -> int:
        """Units of an output pixel that are this node's."""
        return units_for(self.channels, self.config)

    @property
    def pixel_vectors(self) -> int:
        return vectors_for(self.channels, self.config)

    def extents(self) -> tuple[int, ...]:
        one = self.product and not self.terms[-1].moves[1]  # pixel beside, instead of as many again
        passes = len(self.terms) + (SAME_BANK_CYCLES - one if self.product else 0)
        return (
            t.ELEMENTWISE, self.height, self.width, self.out_units, 1, 1, 0, 0, int(one), *self.strides,
            1 + (self.product and not one), passes, len(self._scale_entry), self._uniform, 0, 1, 0, 0,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        terms = [term for term in self.terms if term.index == index]
        rows = [term.dy for term in terms]
        return self.strides[0] * terms[0].moves[0], min(rows), max(rows) - min(rows) + 1

    def constant_entries(self) -> tuple[int, int]:
        vectors = 1 if self._uniform else self.vectors
        return 0, len(self._scale_entry) + vectors

    def constants(self, lo: int, hi: int) -> Chunk:
        c = self.config
        entries = [uniform_prm(s.bias, s.multiplier, s.offset, s.shift, c) for s in self._scale_entry]
        prm = prm_entries(self.requant, c, self.vectors)
        return Chunk(
            np.zeros((0, c.block_out, c.block_in), np.int8),
            np.concatenate([*entries, prm[:1] if self._uniform else prm]),
        )

    @property
    def uses_gemm(self) -> bool:
        return False

    @property
    def alu_work(self) -> int:
        once = self.product and not self.terms[-1].moves[1]  # a factor of a whole row is looked at once for it
        passes = len(self.terms) - once + SAME_BANK_CYCLES * self.product + 1
        return self.height * self.width * self.vectors * passes

    def padding(self, index: int) -> tuple[int, int, int, int]:
        return self.pad

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.pad) else None

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        vectors, columns = self.vectors, task.hi - task.lo
        second = acc + columns * self.acc_units  # of a product
        for number, term in enumerate(self.terms):
            source = e.buffer(self.inputs[term.index])
            step_y, step_x = (stride * moves for stride, moves in zip(self.strides, term.moves, strict=True))
            beside = self.product and number > 0
            e.rescale(
                source, term.scale.table,
                rounding=int(term.scale.rounding), combine=int(term.combine),
                outer=1 if beside and not step_x else columns, inner=vectors,
                src=source.offset(task.row * step_y + term.dy, task.lo * step_x + term.dx, term.unit),
                src_outer=step_x * source.units, src_inner=c.out_units,
                dst=second if beside else acc, dst_outer=self.acc_units, dst_inner=c.out_units,
                prm=e.prm_base(0) + self._scale_entry[term.scale],
            )  # fmt: skip
        if self.product:
            e.multiply(
                outer=columns, inner=vectors, dst=acc, dst_outer=self.acc_units, dst_inner=c.out_units,
                src=second, src_outer=self.acc_units * self.terms[-1].moves[1], src_inner=c.out_units,
            )  # fmt: skip
        self.finish(task, e, acc, self.acc_units)

    def finish(self, task: Task, e: Emit, acc: int, pixel: int) -> None:
        """Emit the requantisation of a task's vectors, those of pixels ``pixel`` units apart from ``acc`` on."""
        c = self.config
        vectors, columns = self.vectors, task.hi - task.lo
        for out in e.outputs(self.output):
            e.requantize(
                self.requant, out,
                outer=columns, inner=vectors,
                src=acc, src_outer=pixel, src_inner=c.out_units,
                dst=out.offset(task.row, task.lo, self.first_unit), dst_outer=out.pixel,
                dst_inner=c.out_units * out.step,
                prm=e.prm_base(0) + len(self._scale_entry), prm_inner=0 if self._uniform else 1,
            )  # fmt: skip
