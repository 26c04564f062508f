"""What the compiled kernels work on: the shape of a Config as plain integers, and the memories as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.by_reference import by_reference
from tilewright.isa.spec import (
    TABLE_VALUES,
    TABLES,
    UOP_FIELDS,
    Engine,
    Memory,
    acc_bits,
    entry_bytes,
    memory_depth,
)
from tilewright.sim.scaling import ROWS

WINDOW_CHUNK = 256  #: pushes between two moves of the window to the start of its buffer


@by_reference
class Shape(NamedTuple):
    """The integers of a Config that the kernels need; depths are powers of two."""

    batch: int
    block_in: int
    block_out: int
    lanes: int
    in_units: int
    out_units: int
    weight_bits: int
    unit: int  #: elements of a unit: batch x lanes
    beat_bytes: int
    act_depth: int
    acc_depth: int
    wgt_depth: int
    prm_depth: int
    uop_gemm_depth: int
    uop_alu_depth: int
    acc_bits: int
    entry_bytes: tuple[int, ...]  #: of each Memory
    gemm_widths: tuple[int, ...]  #: bits of the fields of a GEMM micro-op
    alu_widths: tuple[int, ...]  #: and of ALU


@by_reference
class Memories(NamedTuple):
    """The accelerator's memories; the layouts are the simulator's own.

    act: int8 (units x batch x lanes); acc: int32, likewise; wgt: int8, entries in pair order
    [BI/2][BO][2]; prm: int64 (entries, scaling.ROWS, BO); uop_gemm: int64 (depth, 4), uop_alu: int64
    (depth, 3), columns as in ``UOP_FIELDS``; window: int8, room for GEMM's shift register, and behind
    it for the half of it that a second unit enters; table: int8, the tables, and behind them room for a vector that was
    looked up; pair: int8, the weights of the two results of a pair.
    """

    act: NDArray[np.int8]
    acc: NDArray[np.int32]
    wgt: NDArray[np.int8]
    prm: NDArray[np.int64]
    uop_gemm: NDArray[np.int64]
    uop_alu: NDArray[np.int64]
    window: NDArray[np.int8]
    table: NDArray[np.int8]
    pair: NDArray[np.int8]


def make_shape(config: Config) -> Shape:
    """The :class:`Shape` of a Config."""
    return Shape(
        batch=config.batch,
        block_in=config.block_in,
        block_out=config.block_out,
        lanes=config.lanes,
        in_units=config.in_units,
        out_units=config.out_units,
        weight_bits=config.weight_bits,
        unit=config.act_unit_bytes,
        beat_bytes=config.beat_bytes,
        act_depth=config.act_units,
        acc_depth=config.acc_units,
        wgt_depth=config.wgt_entries,
        prm_depth=config.prm_entries,
        uop_gemm_depth=memory_depth(config, Memory.UOP_GEMM),
        uop_alu_depth=memory_depth(config, Memory.UOP_ALU),
        acc_bits=acc_bits(config),
        entry_bytes=tuple(entry_bytes(config, memory) for memory in Memory),
        gemm_widths=tuple(field.bits(config) for field in UOP_FIELDS[Engine.GEMM]),
        alu_widths=tuple(field.bits(config) for field in UOP_FIELDS[Engine.ALU]),
    )


def make_memories(config: Config) -> Memories:
    """All memories, zeroed."""
    shape = make_shape(config)
    return Memories(
        act=np.zeros(shape.act_depth * shape.unit, np.int8),
        acc=np.zeros(shape.acc_depth * shape.unit, np.int32),
        wgt=np.zeros(shape.wgt_depth * shape.block_in * shape.block_out, np.int8),
        prm=np.zeros((shape.prm_depth, ROWS, shape.block_out), np.int64),
        uop_gemm=np.zeros((shape.uop_gemm_depth, 4), np.int64),
        uop_alu=np.zeros((shape.uop_alu_depth, 3), np.int64),
        window=np.zeros(2 * (shape.block_in + WINDOW_CHUNK) * shape.unit, np.int8),
        table=np.zeros(TABLES * TABLE_VALUES + shape.lanes, np.int8),
        pair=np.zeros(2 * shape.block_in * shape.block_out, np.int8),
    )
