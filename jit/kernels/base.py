"""What a lowering rule gives the scheduler and the emitter.

A node computes one tensor, row by row. It says which tasks it has, which input rows each needs, what
constants it uses and how long it keeps an engine busy; and it emits the instructions of a task through the
:class:`Emit` interface, which knows where everything lies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.ir.requant import Requant
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import Buffer, units_for, vectors_for
from tilewright.jit.plan.ranges import split_evenly
from tilewright.runtime.steps import TensorSpec

SAME_BANK_CYCLES = 2  #: of ALU for a vector whose two operands lie in one bank of acc
NO_ROW = 1 << 40  #: below every row that a task reads of an input that it does not read


@dataclass(frozen=True)
class Streamed:
    """Blocks of weights out of a tensor in DRAM, its form ``name`` (:class:`~tilewright.jit.lower.blocked.Blocked`):
    of vectors of pixels [lo, hi) the blocks [block, block + blocks), one vector's behind another's."""

    name: str
    block: int
    blocks: int
    lo: int
    hi: int

    @property
    def entries(self) -> int:
        return (self.hi - self.lo) * self.blocks


@dataclass(frozen=True)
class Chunk:
    """Constants that are loaded, and freed, together.

    ``weights``: int8 (entries, BLOCK_OUT, BLOCK_IN); ``prm``: int32 (entries, BLOCK_OUT, 4), columns bias,
    multiplier, offset, shift. The first entry of the weights lies at a multiple of ``align``. ``streamed``: further
    weights behind them, which are no constants.
    """

    weights: NDArray[np.int8]
    prm: NDArray[np.int32]
    align: int = 1
    streamed: Streamed | None = None

    @property
    def entries(self) -> int:
        """Entries of wgt."""
        return len(self.weights) + (self.streamed.entries if self.streamed is not None else 0)


@dataclass(frozen=True)
class Task:
    """One step of a node: ``rows`` output rows from ``row`` on, their part ``[lo, hi)``, with constants ``chunk``.

    ``source``: the only input that is read, -1 for all; what is read of several adds up in acc until it ``finishes``.
    """

    row: int
    lo: int
    hi: int
    chunk: int
    completes_row: bool
    source: int = -1
    finishes: bool = True
    rows: int = 1

    @property
    def last(self) -> int:
        """Its last output row."""
        return self.row + self.rows - 1


Uop = tuple[int, int, int, int]  #: GEMM micro-op (dst, src, wgt, accumulate); dst -1 is push only


class Emit(Protocol):
    """What a node may ask of the emitter while it emits one task."""

    config: Config

    def buffer(self, tensor: str) -> Buffer:
        """Where a tensor lies in act."""

    def outputs(self, tensor: str) -> list[Buffer]:
        """Every buffer that holds a tensor: the one its GEMM consumers read, and its ALU consumers' duplicate."""

    def weight_base(self, chunk: int) -> int:
        """First wgt entry of one of the node's chunks."""

    def prm_base(self, chunk: int) -> int:
        """First prm entry of one of the node's chunks."""

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """Emit a GEMM over these micro-ops (made resident if they are not)."""

    def requantize(self, requant: Requant, out: Buffer, **fields: int) -> None:
        """Emit a REQUANTIZE into ``out``; rounding, zero point and clamp come from ``requant``."""

    def multiply(self, **fields: int) -> None:
        """Emit an ALU that multiplies accumulators with others of the same bank."""

    def scale(self, factor: int, **fields: int) -> None:
        """Emit an ALU that multiplies accumulators with a number."""

    def add(self, **fields: int) -> None:
        """Emit an ALU that adds others of the same bank to accumulators."""

    def rescale(self, source: Buffer, table: bytes | None, **fields: int) -> None:
        """Emit a RESCALE out of ``source``, looked up in ``table`` (made resident if it is not)."""


class Lattice(NamedTuple):
    """The pixels of ``output`` that a node writes: every ``down``-th row from ``row`` on, and columns likewise.

    ``pixels``: neighbours that one of the node's pixels is, the channels of one behind those of the other.
    """

    down: int = 1
    row: int = 0
    across: int = 1
    column: int = 0
    pixels: int = 1


EVERY_PIXEL = Lattice()


@dataclass(kw_only=True)
class Node(ABC):
    """Base of the lowering rules. ``tasks`` and ``chunks`` are there once the node is cut."""

    name: str
    layer: int
    config: Config
    inputs: list[str]
    output: str
    out: TensorSpec
    first_unit: int = 0  #: of each pixel of ``output``, from which on this node writes its channels
    lattice: Lattice = EVERY_PIXEL  #: of a node that makes part of a tensor; other than of all pixels in tiles alone
    tasks: list[Task] = field(default_factory=list, init=False)
    #: whether tasks read one input each, so that one bank of acc is the node's from its first task to its last
    by_inputs: bool = field(default=False, init=False)

    @property
    def uses_gemm(self) -> bool:
        """False for nodes of ALU passes only."""
        return True

    @property
    def alu_work(self) -> int:
        """The least cycles that ALU works for the whole output: a pass over each of its vectors."""
        return self.height * self.width * self.pixel_vectors

    @property
    def height(self) -> int:
        return self.out.shape[1]

    @property
    def width(self) -> int:
        return self.out.shape[2]

    @property
    def out_units(self) -> int:
        """Units per output pixel."""
        return units_for(self.out.shape[3], self.config)

    @property
    def pixel_vectors(self) -> int:
        """Vectors of an output pixel that hold a channel."""
        return vectors_for(self.out.shape[3], self.config)

    @property
    def vectors(self) -> int:
        """Those that it computes at a place: of an output pixel, or of several."""
        return self.pixel_vectors

    @property
    def empty_units(self) -> list[tuple[int, int]]:
        """Units of an output pixel without a channel, which whoever reads whole blocks reads: (first, count)."""
        first, end = self.pixel_vectors * self.config.out_units, self.out_units
        return [(self.first_unit + first, end - first)] if first < end else []

    # -- what a planner asks ---------------------------------------------------------------------------

    @abstractmethod
    def extents(self) -> tuple[int, ...]:
        """Columns ``L_KIND`` to ``L_BLOCKS`` of :mod:`tilewright.jit.plan.tables`."""

    @abstractmethod
    def reads(self, index: int) -> tuple[int, int, int]:
        """(stride, offset, span): output row r reads ``span`` rows of input ``index`` from ``r * stride + offset`` on.

        Rows are unpadded; they may reach into padding. Where only every n-th of such rows is one (:meth:`every`), those
        of them are read.
        """

    def every(self, index: int) -> int:
        """How far apart the rows of input ``index`` lie among those that :meth:`reads` counts."""
        return 1

    def rows_read(self, first: int, last: int, index: int) -> tuple[int, int]:
        """First and last row of input ``index`` that the output rows from ``first`` to ``last`` read."""
        stride, offset, span = self.reads(index)
        every = self.every(index)
        return -(-(first * stride + offset) // every), (last * stride + offset + span - 1) // every

    def padding(self, index: int) -> tuple[int, int, int, int]:
        """(top, left, bottom, right) pixels of padding that input ``index`` must be stored with."""
        return (0, 0, 0, 0)

    def pad_value(self, index: int) -> int | None:
        """Value of that padding; None if it needs none."""
        return None

    # -- cut, as planned -------------------------------------------------------------------------------

    def cut(self, row: Sequence[int]) -> None:
        """Take over how a plan cuts the node: a row of :mod:`tilewright.jit.plan.cut`."""
        self._row = [int(v) for v in row]
        vectors, pieces, groups = self._row[t.N_VECTORS], self._row[t.N_PIECES], self._row[t.N_GROUPS]
        self.ranges = [(vectors * k // pieces, vectors * (k + 1) // pieces) for k in range(pieces)]
        parts = [[(lo + a, lo + b) for a, b in split_evenly(hi - lo, self._row[t.N_ROOM])] for lo, hi in self.ranges]
        rows = self._row[t.N_ROWS]
        bounds = [*range(0, self.height, rows), self.height]
        if groups:
            bounds = [self.height * k // groups for k in range(groups + 1)]
        self.tasks = [
            Task(row, lo, hi, (number if groups else 0) * pieces + chunk, hi == vectors, rows=min(rows, last - row))
            for number, (first, last) in enumerate(pairwise(bounds))
            for chunk in range(pieces)
            for row in range(first, last, rows)
            for lo, hi in parts[chunk]
        ]
        self._chunks = [self.constants(lo, hi) for lo, hi in self.ranges]

    @property
    def chunks(self) -> list[Chunk]:
        """Constants in the order in which they are loaded: those of every group of rows."""
        return self._chunks * max(1, self._row[t.N_GROUPS])

    def chunk_range(self, task: Task) -> tuple[int, int]:
        """Vectors [lo, hi) whose constants a task's chunk holds."""
        return self.ranges[task.chunk % len(self.ranges)]

    @abstractmethod
    def constant_entries(self) -> tuple[int, int]:
        """Entries of wgt that are not all zero, and of prm, that the node cannot do without."""

    @abstractmethod
    def constants(self, lo: int, hi: int) -> Chunk:
        """Constants of the vectors [lo, hi)."""

    def needs(self, task: Task, index: int) -> tuple[int, int]:
        """First and last row of input ``index`` that a task reads (unpadded rows; may reach into padding).

        The last is below the first if it reads none.
        """
        if task.source not in (-1, index):
            return NO_ROW, -1
        return self.rows_read(task.row, task.last, index)

    def gemm_cycles(self, task: Task) -> int:
        """Cycles a task keeps GEMM busy."""
        return (task.hi - task.lo) * self._row[t.N_GEMM_EACH]

    def alu_cycles(self, task: Task) -> int:
        """Cycles a task keeps ALU busy."""
        return task.rows * (task.hi - task.lo) * (self._row[t.N_TERMS_EACH] + self._row[t.N_OUT_EACH])

    # -- emission --------------------------------------------------------------------------------------

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        """The micro-op sequences its GEMM instructions use, given where its inputs lie."""
        return []

    @abstractmethod
    def emit(self, task: Task, e: Emit, acc: int) -> None:
        """Emit a task's instructions; ``acc`` is the first unit of its part of acc."""


def prm_entries(requant: Requant, config: Config, vectors: int) -> NDArray[np.int32]:
    """prm entries (vectors, BLOCK_OUT, 4) of a per-channel requantisation; unused lanes give the zero point."""
    entries = np.zeros((vectors * config.block_out, 4), np.int32)
    columns = (requant.bias, requant.multiplier, requant.offset, requant.shift)
    for column, values in enumerate(columns):
        entries[: len(values), column] = values
    return entries.reshape(vectors, config.block_out, 4)


def uniform_prm(bias: int, multiplier: int, offset: int, shift: int, config: Config) -> NDArray[np.int32]:
    """One prm entry (1, BLOCK_OUT, 4) with the same constants in every lane."""
    return np.tile(np.array([bias, multiplier, offset, shift], np.int64).astype(np.int32), (1, config.block_out, 1))
