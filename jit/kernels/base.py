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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.jit.graph import Requant, TensorSpec
from tilewright.jit.layout import Buffer, units_for

#: share of act up to which input and output of a layer are held whole, so that its constants are loaded once
WHOLE_SHARE = 0.96


class PlaceError(TilewrightError):
    """An operator cannot run on the accelerator with this Config; names operator, shape, limit, way out."""


@dataclass(frozen=True)
class Chunk:
    """Constants that are loaded, and freed, together.

    ``weights``: int8 (entries, BLOCK_OUT, BLOCK_IN); ``prm``: int32 (entries, BLOCK_OUT, 4), columns bias,
    multiplier, offset, shift.
    """

    weights: NDArray[np.int8]
    prm: NDArray[np.int32]


@dataclass(frozen=True)
class Task:
    """One step of a node: output row ``row``, the part ``[lo, hi)`` of it, with constants ``chunk``."""

    row: int
    lo: int
    hi: int
    chunk: int
    completes_row: bool


Uop = tuple[int, int, int, int]  #: GEMM micro-op (dst, src, wgt, accumulate); dst -1 is push only


class Emit(Protocol):
    """What a node may ask of the emitter while it emits one task."""

    config: Config

    def buffer(self, tensor: str) -> Buffer:
        """Where a tensor lies in act."""

    def outputs(self, tensor: str) -> list[Buffer]:
        """Every buffer that holds a tensor: the one its GEMM consumers read, and its ALU consumers' twin."""

    def weight_base(self, chunk: int) -> int:
        """First wgt entry of one of the node's chunks."""

    def prm_base(self, chunk: int) -> int:
        """First prm entry of one of the node's chunks."""

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """Emit a GEMM over these micro-ops (made resident if they are not)."""

    def requantize(self, requant: Requant, out: Buffer, **fields: int) -> None:
        """Emit a REQUANTIZE into ``out``; rounding, zero point and clamp come from ``requant``."""

    def rescale(self, source: Buffer, **fields: int) -> None:
        """Emit a RESCALE out of ``source``."""


@dataclass(kw_only=True)
class Node(ABC):
    """Base of the lowering rules."""

    name: str
    layer: int
    config: Config
    inputs: list[str]
    output: str
    out: TensorSpec
    first_unit: int = 0  #: of each pixel of ``output``, from which on this node writes its channels
    tasks: list[Task] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    limit: str = ""  #: why whole rows do not fit the memories, so that the node has no tasks and runs in tiles

    @property
    def uses_gemm(self) -> bool:
        """False for nodes of ALU passes only."""
        return True

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

    def padding(self, index: int) -> tuple[int, int, int, int]:
        """(top, left, bottom, right) pixels of padding that input ``index`` must be stored with."""
        return (0, 0, 0, 0)

    def pad_value(self, index: int) -> int | None:
        """Value of that padding; None if it needs none."""
        return None

    @abstractmethod
    def needs(self, task: Task, index: int) -> tuple[int, int]:
        """First and last row of input ``index`` that a task reads (unpadded rows; may reach into padding)."""

    @abstractmethod
    def acc_units(self, task: Task) -> int:
        """Units of acc that a task occupies."""

    @abstractmethod
    def gemm_cycles(self, task: Task) -> int:
        """Cycles a task keeps GEMM busy."""

    @abstractmethod
    def alu_cycles(self, task: Task) -> int:
        """Cycles a task keeps ALU busy."""

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        """The micro-op sequences its GEMM instructions use, given where its inputs lie."""
        return []

    @abstractmethod
    def emit(self, task: Task, e: Emit, acc: int) -> None:
        """Emit a task's instructions; ``acc`` is the first unit of its part of acc."""


@dataclass(frozen=True)
class Partition:
    """How a node is cut: output vectors into chunks of constants, rows into groups, both into tasks."""

    ranges: list[tuple[int, int]]  #: vectors [lo, hi) of each chunk; row groups repeat the list
    tasks: list[Task]


def partition(
    rows: int,
    vectors: int,
    *,
    chunk_limit: int,
    part_limit: int,
    vector_weights: int,
    row_units: int,
    whole_units: int,
    config: Config,
) -> Partition:
    """Tasks over ``rows`` x ``vectors``, at most ``part_limit`` vectors each, ``chunk_limit`` per chunk.

    Row by row where all chunks may stay loaded together (half of wgt and of prm). Else chunk by chunk over
    groups of rows, constants loaded anew for each group; ``row_units`` (of act, per output row, input and output
    together) says how many rows a group can have, ``whole_units`` (input and output) whether one group will do.
    """
    ranges = split_evenly(vectors, chunk_limit)
    parts = [
        (chunk, lo + a, lo + b) for chunk, (lo, hi) in enumerate(ranges) for a, b in split_evenly(hi - lo, part_limit)
    ]
    resident = vectors * vector_weights <= config.wgt_entries // 2 and vectors <= config.prm_entries // 2
    if resident or rows == 1 or len(ranges) == 1:
        tasks = [Task(row, lo, hi, chunk, hi == vectors) for row in range(rows) for chunk, lo, hi in parts]
        return Partition(ranges, tasks)
    whole = whole_units <= config.act_units * WHOLE_SHARE
    groups = split_evenly(rows, rows if whole else max(1, config.act_units // 2 // row_units))
    tasks = [
        Task(row, lo, hi, number * len(ranges) + chunk, hi == vectors)
        for number, (first, last) in enumerate(groups)
        for chunk in range(len(ranges))
        for row in range(first, last)
        for part, lo, hi in parts
        if part == chunk
    ]
    return Partition(ranges * len(groups), tasks)


def int8_parts(weight: NDArray[np.integer]) -> list[NDArray[np.int8]]:
    """Weights as the fewest int8 arrays whose sum they are: themselves, or what fits, and what fits of the rest."""
    parts: list[NDArray[np.int8]] = []
    rest = np.asarray(weight, np.int64)
    while not parts or rest.any():
        parts.append(rest.clip(-128, 127).astype(np.int8))
        rest = rest - parts[-1]
    return parts


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


def is_uniform(requant: Requant) -> bool:
    """Whether all channels share one set of constants."""
    return all(len(np.unique(a)) == 1 for a in (requant.bias, requant.multiplier, requant.offset, requant.shift))


def split_evenly(count: int, limit: int) -> list[tuple[int, int]]:
    """``[lo, hi)`` ranges that cover ``count`` in the fewest pieces of at most ``limit``, sizes near equal."""
    pieces = -(-count // max(1, limit))
    bounds = [count * i // pieces for i in range(pieces + 1)]
    return list(pairwise(bounds))
