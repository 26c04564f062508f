"""Rows and columns of an image in other places and proportions: resizing, spreading with zeros. ALU passes alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice

import numpy as np

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding
from tilewright.isa.spec import Combine
from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, prm_entries, uniform_prm
from tilewright.jit.plan import tables as t
from tilewright.jit.sampling import Sampling, Taps

#: RESCALEs of a layer, above which it is left to the CPU: so many take two minutes and 4 GB to write and prove
MOST_RESCALES = 1 << 21


@dataclass(frozen=True)
class Run:
    """Columns ``first``, ``first + step``, ...: taps of equal weights that move by ``move`` from one to the next."""

    first: int
    step: int
    count: int
    taps: Taps
    move: int

    @property
    def last(self) -> int:
        """Its last column."""
        return self.first + (self.count - 1) * self.step

    def within(self, lo: int, hi: int) -> Run | None:
        """The part of it from column ``lo`` on, before ``hi``."""
        skip = max(0, -(-(lo - self.first) // self.step))
        count = min(self.count, -(-(hi - self.first) // self.step)) - skip
        if count <= 0:
            return None
        taps = tuple((at + skip * self.move, weight) for at, weight in self.taps)
        return Run(self.first + skip * self.step, self.step, count, taps, self.move)


class Runs:
    """All columns, each in one run; columns of alike taps that stand and read at even distances share one.

    An image laid side by side many times has fewer runs if only columns that read the same share one.
    """

    def __init__(self, columns: Sequence[Taps]) -> None:
        shapes = [tuple((at - taps[0][0], weight) for at, weight in taps) for taps in columns]
        self.all = min(_runs_of(columns, shapes), _runs_of(columns, columns), key=len)
        self._firsts = [run.first for run in self.all]
        self._lasts = list(accumulate((run.last for run in self.all), max))  # of a run and those before it

    def within(self, lo: int, hi: int) -> list[Run]:
        """Their parts from column ``lo`` on, before ``hi``; those that end before or begin after are not looked at."""
        near = self.all[bisect_left(self._lasts, lo) : bisect_left(self._firsts, hi)]
        return [part for run in near if (part := run.within(lo, hi)) is not None]


@dataclass(kw_only=True)
class ResampleNode(Node):
    """``requant(sum of rows[y, i] * columns[x, j] * (input[i, j] - offset))``; the whole input is read for every row.

    ``requant`` is one for all channels.
    """

    rows: Sampling
    columns: Sampling
    offset: int
    requant: Requant

    def __post_init__(self) -> None:
        self.acc_units = self.vectors * self.config.out_units
        self.row_taps, self.column_taps = self.rows.taps(), self.columns.taps()
        self.runs = Runs(self.column_taps)
        self.check_rescales(self.width)
        self.most_taps = max(map(len, self.row_taps)) * max(map(len, self.column_taps))

    def check_rescales(self, columns: int) -> None:
        """Raises PlaceError for too many RESCALEs in tiles of so many columns, each with its part of any run."""
        apart, together = sum(map(len, self.column_taps)), sum(len(run.taps) for run in self.runs.all)
        rescales = sum(map(len, self.row_taps)) * min(apart, -(-self.width // columns) * together)
        if rescales > MOST_RESCALES:
            raise PlaceError(f"{self.name}: takes {rescales:,} RESCALEs, at most {MOST_RESCALES:,} are planned")

    @cached_property
    def _weights(self) -> dict[int, int]:
        """prm entry of every product of weights."""
        rows, columns = ({weight for taps in axis for _, weight in taps} for axis in (self.row_taps, self.column_taps))
        products = {y * x for y in rows for x in columns}
        return {weight: k for k, weight in enumerate(sorted(products))}

    def extents(self) -> tuple[int, ...]:
        return (
            t.ELEMENTWISE, self.height, self.width, self.out_units, 1, 1, 0, 0, 0, 1, 1, 1, self.most_taps,
            len(self._weights), True, 0, 1, 0, 0,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return 0, 0, self.rows.size

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
        taps = sum(map(len, self.row_taps)) * sum(map(len, self.column_taps))
        return (taps + self.height * self.width) * self.vectors

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        source = e.buffer(self.inputs[0])
        vectors = self.vectors
        runs = self.runs.within(task.lo, task.hi)
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


def _runs_of(columns: Sequence[Taps], kinds: Sequence[Taps]) -> list[Run]:
    """All columns, each in one run of columns of its kind."""
    waiting: dict[Taps, list[int]] = {}
    for x, kind in enumerate(kinds):
        waiting.setdefault(kind, []).append(x)
    found = []
    for alike in waiting.values():
        left = OrderedDict.fromkeys(alike)  # of which the first two are found at once, and each is taken out at once
        while left:
            first, *rest = islice(left, 2)
            step = rest[0] - first if rest else 1
            move = columns[rest[0]][0][0] - columns[first][0][0] if rest else 0
            count = 1
            if move >= 0:
                while (x := first + count * step) in left and columns[x][0][0] == columns[first][0][0] + count * move:
                    count += 1
            found.append(Run(first, step, count, columns[first], move if count > 1 else 0))
            for k in range(count):
                del left[first + k * step]
    return sorted(found, key=lambda run: run.first)
