"""LOAD, FILL and STORE over the algebra."""

from __future__ import annotations

from typing import Any

from tilewright.isa.spec import Memory
from tilewright.jit.proof.algebra import LINEAR, PLAIN
from tilewright.jit.proof.machine import Machine
from tilewright.jit.proof.native import compiled
from tilewright.sim.move import load as load_constants
from tilewright.sim.operands import act_address
from tilewright.sim.raw import read_int8, read_int32
from tilewright.sim.state import Shape

#: why an instruction cannot be followed; see :data:`tilewright.jit.proof.run.REASONS`
FOLLOWED, DATA_AS_CONSTANTS, DATA_AS_INT32, NONLINEAR_ALU, EXTREME_OF_SUMS = range(5)

ACT, WGT, ACC, ACC8, PRM, TABLE = (
    int(m) for m in (Memory.ACT, Memory.WGT, Memory.ACC, Memory.ACC8, Memory.PRM, Memory.TABLE)
)


@compiled
def _weights_changed(entry: int, x: Machine, s: Shape) -> None:
    """A wgt entry was loaded: from the simulator's pair order [BLOCK_IN/2][BLOCK_OUT][2] to [BLOCK_IN][BLOCK_OUT]."""
    n, first = s.block_out, entry * s.block_in * s.block_out
    selects, taps = x.selects[entry * n : (entry + 1) * n], 0
    selects[:] = 0
    for k in range(0, s.block_in, 2):
        pairs = x.memories.wgt[first + k * n : first + (k + 2) * n]
        for odd in range(2):
            row, used = x.weights[first + (k + odd) * n : first + (k + odd + 1) * n], 0
            for o in range(n):
                row[o] = pairs[2 * o + odd]
            for o in range(n):
                selects[o] += (row[o] != 0) * (2 - (row[o] == 1))
                used |= row[o]
            taps = k + odd + 1 if used else taps
    x.taps[entry] = taps


@compiled
def _load_constants(row: Any, address: int, x: Machine, s: Shape) -> None:
    """wgt, prm, tables or micro-ops, by the simulator itself; then what follows from the new entries."""
    load_constants(row, address, x.memories, s)
    if row.memory == TABLE:
        x.scale_tag[:] = -1
    if row.memory != WGT and row.memory != PRM:
        return
    for r in range(row.rows):
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            if row.memory == WGT:
                _weights_changed(a & (s.wgt_depth - 1), x, s)
            else:
                x.scale_tag[a & (s.prm_depth - 1)] = -1
                x.key_tag[a & (s.prm_depth - 1)] = -1


@compiled
def _load_data(row: Any, x: Machine, s: Shape) -> None:
    """wgt from data: entries of BLOCK_OUT rows of BLOCK_IN bytes."""
    size = s.block_in * s.block_out
    for r in range(row.rows):
        source = x.base[row.segment] + (row.offset + r * row.stride) * s.beat_bytes
        for c in range(row.cols):
            entry = (row.sram + r * row.sram_row + c * row.sram_col) & (s.wgt_depth - 1)
            x.taps[entry] = -1
            x.selects[entry * s.block_out : (entry + 1) * s.block_out] = 2
            for o in range(s.block_out):
                for k in range(s.block_in):
                    x.data[entry * size + k * s.block_out + o] = x.dram[source + o * s.block_in + k]
            source += size


@compiled
def load(row: Any, x: Machine, s: Shape) -> int:
    """LOAD; returns why it cannot be followed, or FOLLOWED."""
    memory, segment = row.memory, row.segment
    constant = x.base[segment] < 0
    if memory != ACT and memory != ACC and memory != ACC8:
        if not constant:
            if memory != WGT or s.weight_bits < 8:
                return DATA_AS_CONSTANTS
            _load_data(row, x, s)
            return FOLLOWED
        _load_constants(row, x.constants[segment], x, s)
        return FOLLOWED
    if memory == ACC and not constant:
        return DATA_AS_INT32
    size = 4 * s.unit if memory == ACC else s.unit
    for r in range(row.rows):
        source = (row.offset + r * row.stride) * s.beat_bytes
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            if memory == ACT:
                first = act_address(row, a, s) * s.lanes
                into = x.act[first : first + s.lanes]
            else:
                first = (a & (s.acc_depth - 1)) * s.lanes
                into = x.acc[first : first + s.lanes]
                x.kind[first : first + s.lanes] = LINEAR if memory == ACC else PLAIN
            if not constant:
                start = x.base[segment] + source
                for lane in range(s.lanes):  # a slice would bring Numba's texts of errors along
                    into[lane] = x.dram[start + lane]
            else:
                for lane in range(s.lanes):
                    at = x.constants[segment] + source + (4 * lane if memory == ACC else lane)
                    into[lane] = read_int32(at) if memory == ACC else read_int8(at)
            source += size
    return FOLLOWED


@compiled
def fill(row: Any, x: Machine, s: Shape) -> None:
    """FILL of act or acc."""
    value = row.value
    for r in range(row.rows):
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            if row.memory == ACT:
                first = act_address(row, a, s) * s.lanes
                x.act[first : first + s.lanes] = ((value & 255) ^ 128) - 128
            else:
                first = (a & (s.acc_depth - 1)) * s.lanes
                x.acc[first : first + s.lanes] = value
                x.kind[first : first + s.lanes] = LINEAR


@compiled
def store(row: Any, number: int, x: Machine, s: Shape) -> None:
    """STORE by instruction ``number``."""
    for r in range(row.rows):
        target = x.base[row.segment] + (row.offset + r * row.stride) * s.beat_bytes
        for c in range(row.cols):
            a = row.sram + r * row.sram_row + c * row.sram_col
            first = act_address(row, a, s) * s.lanes
            for lane in range(s.lanes):
                x.dram[target + lane] = x.act[first + lane]
                if target + lane < len(x.writer):
                    x.writer[target + lane] = -number - 1 if x.writer[target + lane] else number + 1
            target += s.unit
