"""LOAD, FILL and STORE: tiles between DRAM and the memories."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.spec import TABLE_ENTRY_VALUES, TABLE_VALUES, TABLES, Memory
from tilewright.sim.functions import nudge
from tilewright.sim.native import compiled
from tilewright.sim.operands import act_address, put
from tilewright.sim.raw import copy_bytes, copy_pair, read_int8, read_int32
from tilewright.sim.scaling import ADDED, BIAS, MODES, MULTIPLIER, OFFSET, SHIFT, TIE_BIT, TIE_MASK
from tilewright.sim.state import Memories, Shape

ACT, WGT, ACC, ACC8, PRM, UOP_GEMM, UOP_ALU, TABLE = (int(m) for m in Memory)


@compiled
def _read_word(source: int, size: int) -> int:
    low = read_int32(source) & 0xFFFFFFFF
    return low | ((read_int32(source + 4) & 0xFFFFFFFF) << 32) if size == 8 else low


@compiled
def _load_weights(source: int, entry: int, m: Memories, s: Shape) -> None:
    target = m.wgt.ctypes.data + entry * s.block_in * s.block_out
    if s.weight_bits == 8:  # pair order is the transposed matrix of byte pairs
        for k in range(0, s.block_in, 2):
            for o in range(s.block_out):
                copy_pair(target + k * s.block_out + 2 * o, source + o * s.block_in + k)
        return
    base = entry * s.block_in * s.block_out
    per_byte = 8 // s.weight_bits
    up = 64 - s.weight_bits
    for o in range(s.block_out):
        first = source + o * s.block_in // per_byte
        for k in range(s.block_in):
            packed = read_int8(first + k // per_byte) >> (s.weight_bits * (k % per_byte))
            m.wgt[base + (k // 2) * 2 * s.block_out + 2 * o + (k & 1)] = (packed << up) >> up


@compiled
def _load_parameters(source: int, entry: int, m: Memories, s: Shape) -> None:
    one = np.int64(1)
    for c in range(s.block_out):
        at = source + 16 * c
        shift = np.int64(read_int32(at + 12) & 63)
        half = one << (shift - 1) if shift else 0
        offset = read_int32(at + 8)
        m.prm[entry, BIAS, c] = read_int32(at)
        m.prm[entry, MULTIPLIER, c] = read_int32(at + 4)
        m.prm[entry, OFFSET, c] = offset
        m.prm[entry, SHIFT, c] = shift
        m.prm[entry, TIE_MASK, c] = (one << shift) - 1
        m.prm[entry, TIE_BIT, c] = 1 if shift else 0
        for rounding in MODES:
            for negative in range(2):
                added = half + offset + nudge(rounding, negative, shift, half)
                m.prm[entry, ADDED + 2 * rounding + negative, c] = added


@compiled
def _load_uop(source: int, size: int, widths: tuple[int, ...], uops: Any, index: int) -> None:
    word = _read_word(source, size)
    for k in range(len(widths)):
        uops[index, k] = word & ((1 << widths[k]) - 1)
        word >>= widths[k]


@compiled
def load(row: Any, segment: int, m: Memories, s: Shape) -> None:
    """LOAD; ``segment`` is the address of its DRAM segment."""
    memory = row.memory
    size = s.entry_bytes[memory]
    act, acc = m.act.ctypes.data, m.acc.ctypes.data
    for r in range(row.rows):
        source = segment + (row.offset + r * row.stride) * s.beat_bytes
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            if memory == ACT:
                copy_bytes(act + act_address(row, a, s) * size, source, size)
            elif memory == WGT:
                _load_weights(source, a & (s.wgt_depth - 1), m, s)
            elif memory == ACC:
                copy_bytes(acc + (a & (s.acc_depth - 1)) * size, source, size)
            elif memory == ACC8:
                first = (a & (s.acc_depth - 1)) * s.unit
                for k in range(s.unit):
                    m.acc[first + k] = read_int8(source + k)
            elif memory == PRM:
                _load_parameters(source, a & (s.prm_depth - 1), m, s)
            elif memory == UOP_GEMM:
                _load_uop(source, size, s.gemm_widths, m.uop_gemm, a & (s.uop_gemm_depth - 1))
            elif memory == TABLE:
                first = a * TABLE_ENTRY_VALUES & (TABLES * TABLE_VALUES - 1)
                for k in range(TABLE_ENTRY_VALUES):
                    m.table[first + k] = read_int8(source + k)
            else:
                _load_uop(source, size, s.alu_widths, m.uop_alu, a & (s.uop_alu_depth - 1))
            source += size


@compiled
def fill(row: Any, m: Memories, s: Shape) -> None:
    """FILL of act or acc."""
    value = row.value
    for r in range(row.rows):
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            if row.memory == ACT:
                first = act_address(row, a, s) * s.unit
                put(m.act, first, s.unit, value)
            else:
                first = (a & (s.acc_depth - 1)) * s.unit
                put(m.acc, first, s.unit, value)


@compiled
def store(row: Any, segment: int, m: Memories, s: Shape) -> None:
    """STORE; ``segment`` is the address of its DRAM segment."""
    act = m.act.ctypes.data
    for r in range(row.rows):
        target = segment + (row.offset + r * row.stride) * s.beat_bytes
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            copy_bytes(target + c * s.unit, act + act_address(row, a, s) * s.unit, s.unit)
