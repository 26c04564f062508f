"""What the compiled kernels work on: the shape of a Config as plain integers, and the memories as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import COLUMNS
from tilewright.isa.spec import (
    Engine,
    Memory,
    acc_bits,
    act_bits,
    memory_depth,
    prm_bits,
    uop_width,
    vector_bits,
    wgt_bits,
)
from tilewright.sim.scaling import ROWS

WINDOW_CHUNK = 256  #: pushes between two moves of the window to the start of its buffer


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
    act_bits: int
    acc_bits: int
    wgt_bits: int
    prm_bits: int
    vector_bits: int
    uop_gemm_bytes: int  #: bytes of one GEMM micro-op
    uop_alu_bytes: int  #: bytes of one ALU micro-op


class Memories(NamedTuple):
    """The accelerator's memories; the layouts are the simulator's own.

    act: int8 (units x batch x lanes); acc: int32, likewise; wgt: int8, entries in pair order
    [BI/2][BO][2]; prm: int64 (entries, scaling.ROWS, BO); uop_gemm: int64 (depth, 4), uop_alu: int64
    (depth, 3), columns as in ``UOP_FIELDS``; window: int8, room for GEMM's shift register.
    """

    act: NDArray[np.int8]
    acc: NDArray[np.int32]
    wgt: NDArray[np.int8]
    prm: NDArray[np.int64]
    uop_gemm: NDArray[np.int64]
    uop_alu: NDArray[np.int64]
    window: NDArray[np.int8]


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
        act_bits=act_bits(config),
        acc_bits=acc_bits(config),
        wgt_bits=wgt_bits(config),
        prm_bits=prm_bits(config),
        vector_bits=vector_bits(config),
        uop_gemm_bytes=uop_width(config, Engine.GEMM) // 8,
        uop_alu_bytes=uop_width(config, Engine.ALU) // 8,
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
        window=np.zeros((shape.block_in + WINDOW_CHUNK) * shape.unit, np.int8),
    )


# Columns of the decoded instruction table, a module constant each: compiled code cannot read a dictionary.
C_OPCODE = COLUMNS["opcode"]
C_POP = COLUMNS["pop"]
C_PUSH = COLUMNS["push"]
C_TRACE = COLUMNS["trace"]
C_MEMORY = COLUMNS["memory"]
C_SRAM = COLUMNS["sram"]
C_SRAM_ROW = COLUMNS["sram_row"]
C_SRAM_COL = COLUMNS["sram_col"]
C_ROWS = COLUMNS["rows"]
C_COLS = COLUMNS["cols"]
C_WRAP_BASE = COLUMNS["wrap_base"]
C_WRAP_SIZE = COLUMNS["wrap_size"]
C_SEGMENT = COLUMNS["segment"]
C_OFFSET = COLUMNS["offset"]
C_STRIDE = COLUMNS["stride"]
C_VALUE = COLUMNS["value"]
C_UOP_BEGIN = COLUMNS["uop_begin"]
C_UOP_COUNT = COLUMNS["uop_count"]
C_OUTER = COLUMNS["outer"]
C_INNER = COLUMNS["inner"]
C_DST = COLUMNS["dst"]
C_DST_OUTER = COLUMNS["dst_outer"]
C_DST_INNER = COLUMNS["dst_inner"]
C_SRC = COLUMNS["src"]
C_SRC_OUTER = COLUMNS["src_outer"]
C_SRC_INNER = COLUMNS["src_inner"]
C_WGT = COLUMNS["wgt"]
C_WGT_OUTER = COLUMNS["wgt_outer"]
C_WGT_INNER = COLUMNS["wgt_inner"]
C_PRM = COLUMNS["prm"]
C_PRM_OUTER = COLUMNS["prm_outer"]
C_PRM_INNER = COLUMNS["prm_inner"]
C_WINDOW = COLUMNS["window"]
C_PACE = COLUMNS["pace"]
C_FUNCTION = COLUMNS["function"]
C_USE_IMM = COLUMNS["use_imm"]
C_IMM = COLUMNS["imm"]
C_ZERO_POINT = COLUMNS["zero_point"]
C_LO = COLUMNS["lo"]
C_HI = COLUMNS["hi"]
C_ROUNDING = COLUMNS["rounding"]
C_COMBINE = COLUMNS["combine"]
C_ENGINE = COLUMNS["engine"]
C_CYCLES = COLUMNS["cycles"]
