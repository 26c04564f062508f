"""Rows and columns of an image in other places and proportions: resizing, spreading with zeros. ALU passes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding
from tilewright.isa.spec import Combine
from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, prm_entries, uniform_prm
from tilewright.jit.plan import tables as t

Taps = tuple[tuple[int, int], ...]  #: (where it reads, weight) of one output row or column


@dataclass(frozen=True)
class Run:
    """Columns ``first``, ``first + step``, ...: taps of equal weights that move by ``move`` from one to the next."""

    first: int
    step: int
    count: int
    taps: Taps
    move: int

    def within(self, lo: int, hi: int) -> Run | None:
        """The part of it from column ``lo`` on, before ``hi``."""
        skip = max(0, -(-(lo - self.first) // self.step))
        count = min(self.count, -(-(hi - self.first) // self.step)) - skip
        if count <= 0:
            return None
        taps = tuple((at + skip * self.move, weight) for at, weight in self.taps)
        return Run(self.first + skip * self.step, self.step, count, taps, self.move)


@dataclass(kw_only=True)
class ResampleNode(Node):
    """``requant(sum of rows[y, i] * columns[x, j] * (input[i, j] - offset))``; the whole input is read for every row.

    ``requant`` is one for all channels.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    offset: int
    requant: Requant

    def __post_init__(self) -> None:
        self.acc_units = self.vectors * self.config.out_units
        self.row_taps, self.column_taps = _all_taps(self.rows), _all_taps(self.columns)
        self.runs = _runs(self.column_taps)

    @cached_property
    def _weights(self) -> dict[int, int]:
        """prm entry of every product of weights."""
        products = {y * x for taps in self.row_taps for _, y in taps for run in self.runs for _, x in run.taps}
        return {weight: k for k, weight in enumerate(sorted(products))}

    def extents(self) -> tuple[int, ...]:
        terms = max(map(len, self.row_taps)) * max(len(run.taps) for run in self.runs)
        return (
            t.ELEMENTWISE, self.height, self.width, self.out_units, 1, 1, 0, 0, 0, 1, 1, 1, terms,
            len(self._weights), True, 0, 1, 0, 0,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return 0, 0, self.rows.shape[1]

    def constant_entries(self) -> tuple[int, int]:
        return 0, len(self._weights) + 1

    def constants(self, lo: int, hi: int) -> Chunk:
        c = self.config
        bias = -self.offset << RESCALE_LEFT_SHIFT
        weights = [uniform_prm(bias, weight, 0, RESCALE_LEFT_SHIFT, c) for weight in self._weights]
        prm = prm_entries(self.requant, c, self.vectors)
        return Chunk(np.zeros((0, c.block_out, c.block_in), np.int8), np.concatenate([*weights, prm[:1]]))

    @property
    def uses_gemm(self) -> bool:
        return False

    @property
    def alu_work(self) -> int:
        taps = sum(map(len, self.row_taps)) * sum(run.count * len(run.taps) for run in self.runs)
        return (taps + self.height * self.width) * self.vectors

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        source = e.buffer(self.inputs[0])
        vectors = self.vectors
        runs = [part for run in self.runs if (part := run.within(task.lo, task.hi)) is not None]
        for tap_y, (y, weight_y) in enumerate(self.row_taps[task.row]):
            for tap_x in range(max(len(run.taps) for run in runs)):  # all columns by turns: none waits for itself
                for run in runs:
                    if tap_x >= len(run.taps):
                        continue
                    x, weight_x = run.taps[tap_x]
                    e.rescale(
                        source, None,
                        rounding=int(Rounding.SINGLE), combine=int(Combine.ADD if tap_y or tap_x else Combine.WRITE),
                        outer=run.count, inner=vectors,
                        src=source.offset(y, x), src_outer=run.move * source.units, src_inner=c.out_units,
                        dst=acc + (run.first - task.lo) * self.acc_units,
                        dst_outer=run.step * self.acc_units, dst_inner=c.out_units,
                        prm=e.prm_base(0) + self._weights[weight_y * weight_x],
                    )  # fmt: skip
        for out in e.outputs(self.output):
            e.requantize(
                self.requant, out,
                outer=task.hi - task.lo, inner=vectors,
                src=acc, src_outer=self.acc_units, src_inner=c.out_units,
                dst=out.offset(task.row, task.lo, self.first_unit), dst_outer=out.pixel,
                dst_inner=c.out_units * out.step,
                prm=e.prm_base(0) + len(self._weights),
            )  # fmt: skip


def _all_taps(matrix: NDArray[np.int32]) -> list[Taps]:
    """Where each row of a matrix is not zero; one that is zero everywhere has a weight of zero where the last began."""
    found: list[Taps] = []
    for row in matrix:
        places = np.flatnonzero(row).tolist() or [found[-1][0][0] if found else 0]
        found.append(tuple((at, int(row[at])) for at in places))
    return found


def _runs(columns: Sequence[Taps]) -> list[Run]:
    """All columns, each in one run; columns of alike taps that stand and read at even distances share one."""
    waiting: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for x, taps in enumerate(columns):
        waiting.setdefault(tuple((at - taps[0][0], weight) for at, weight in taps), []).append(x)
    found = []
    for alike in waiting.values():
        while alike:
            first, rest, left = alike[0], alike[1:2], set(alike)
            step = rest[0] - first if rest else 1
            move = columns[rest[0]][0][0] - columns[first][0][0] if rest else 0
            count = 1
            if move >= 0:
                while (x := first + count * step) in left and columns[x][0][0] == columns[first][0][0] + count * move:
                    count += 1
            found.append(Run(first, step, count, columns[first], move if count > 1 else 0))
            alike[:] = [x for x in alike if (x - first) % step or x >= first + count * step]
    return sorted(found, key=lambda run: run.first)
