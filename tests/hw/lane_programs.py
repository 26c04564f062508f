"""Programs that put extreme numbers through the ALU's lanes: every function, rounding mode and way to join."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.isa.build import ALU, CONSTANT, LOAD, STORE, Builder
from tilewright.config import PRESETS, Config
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import RESCALING, AluOp, Combine, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import TABLE_ENTRIES, TABLE_ENTRY_VALUES, TABLE_VALUES, TABLES, Memory
from tilewright.isa.timing import ALU_DISTANCE

TINY = PRESETS["tiny"]
EXTREMES = [0, 1, -1, 2, -2, 3, 127, -128, 255, (1 << 30) - 1, 1 << 30, -(1 << 30), (1 << 31) - 1, -(1 << 31)]


def numbers(rng: np.random.Generator, count: int) -> np.ndarray:
    """int32: extremes and random values of all magnitudes."""
    wide = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    return np.where(rng.random(count) < 0.4, rng.choice(EXTREMES, count), wide).astype("<i4")


def scaling_program(seed: int) -> Program:
    """Both scaling instructions with every rounding and combine over extreme constants; results stored."""
    rng = np.random.default_rng(seed)
    b, entries, vectors = Builder(TINY), 16, 64
    prm = np.zeros((entries, TINY.block_out, 4), "<i4")
    prm[..., 0] = numbers(rng, entries * TINY.block_out).reshape(entries, -1)
    prm[..., 1] = numbers(rng, entries * TINY.block_out).reshape(entries, -1) & 0x7FFFFFFF
    prm[..., 2] = numbers(rng, entries * TINY.block_out).reshape(entries, -1)
    prm[..., 3] = rng.integers(0, 64, (entries, TINY.block_out))
    acc = numbers(rng, vectors * TINY.block_out)
    b.load(Memory.PRM, count=entries, segment=CONSTANT, offset=b.constant(prm.tobytes()))
    b.load(Memory.ACC, count=vectors, segment=CONSTANT, offset=b.constant(acc.tobytes()))
    b.load(Memory.ACT, count=vectors)
    b.uops(ALU, [{"dst": k, "src": k, "prm": k} for k in range(entries)], push=[ALU])
    loops: dict[str, Any] = {"count": entries, "inner": vectors // entries, "dst_inner": entries, "src_inner": entries}
    pop = [LOAD]
    out = vectors
    for rounding in Rounding:
        lo, hi = sorted(rng.integers(-128, 128, 2).tolist())
        zero_point = int(rng.integers(-128, 128))
        b.requantize(**loops, dst=out, rounding=rounding, zero_point=zero_point, lo=lo, hi=hi, pop=pop)
        pop, out = [], out + vectors
    for rounding in RESCALING:
        for combine in Combine:
            b.rescale(**loops, rounding=rounding, combine=combine)
    b.alu(count=entries, inner=vectors // entries, dst_inner=entries, function=AluOp.SHR, use_imm=1, imm=8)
    b.requantize(**loops, dst=out, rounding=Rounding.SINGLE, lo=-128, push=[STORE])
    b.store(count=out + vectors, pop=[ALU])
    return b.program()


def table_program(config: Config) -> tuple[Program, np.ndarray]:
    """Every int8 value in every lane behind the first and the last table, added up; and the int8 sums it stores.

    Values are halved in a table, so that a sum of two fits.
    """
    rng = np.random.default_rng(0)
    b, vectors = Builder(config), 256
    tables = rng.integers(-64, 64, (2, TABLE_VALUES)).astype(np.int8)
    x = np.arange(256, dtype=np.uint8)[:, None] + rng.integers(0, 256, config.batch * config.block_out)
    x = x.astype(np.uint8)
    prm = np.zeros((1, config.block_out, 4), "<i4")
    prm[..., 1], prm[..., 3] = 1 << 10, 10 + RESCALE_LEFT_SHIFT
    keep = np.zeros((1, config.block_out, 4), "<i4")
    keep[..., 1] = 1
    for number, table in zip((0, TABLES - 1), tables):
        entries = np.zeros((TABLE_ENTRIES, config.beat_bytes), np.int8)
        entries[:, :TABLE_ENTRY_VALUES] = table.reshape(TABLE_ENTRIES, -1)
        at = b.constant(entries.tobytes())
        b.load(Memory.TABLE, count=TABLE_ENTRIES, sram=number * TABLE_ENTRIES, segment=CONSTANT, offset=at)
    b.load(Memory.PRM, count=2, segment=CONSTANT, offset=b.constant(prm.tobytes() + keep.tobytes()))
    units = vectors * config.out_units
    b.load(Memory.ACT, count=units, segment=CONSTANT, offset=b.constant(x.tobytes()))
    b.uops(ALU, [{}], push=[ALU])
    loops: dict[str, Any] = {"inner": vectors, "dst_inner": config.out_units, "src_inner": config.out_units}
    b.rescale(**loops, rounding=Rounding.SINGLE, lookup=1, pop=[LOAD])
    b.rescale(**loops, rounding=Rounding.SINGLE, lookup=1, table=TABLES - 1, combine=Combine.ADD)
    b.requantize(**loops, dst=units, prm=1, rounding=Rounding.SINGLE, lo=-128, push=[STORE])
    b.store(sram=units, count=units, pop=[ALU])
    return b.program(), tables[0][x] + tables[1][x]


def function_program(function: AluOp, use_imm: int) -> Program:
    """One function of pairs of numbers, or of numbers and an immediate; its results stored byte by byte."""
    rng = np.random.default_rng(int(function))
    b, vectors, half = Builder(TINY), 32, TINY.acc_units // 2
    for base in (0, half):
        values = numbers(rng, vectors * TINY.block_out)
        b.load(Memory.ACC, count=vectors, sram=base, segment=CONSTANT, offset=b.constant(values.tobytes()))
    shifts = np.zeros((4, TINY.block_out, 4), "<i4")
    shifts[..., 1], shifts[..., 3] = 1, (np.arange(4) * 8)[:, None]  # the four bytes of a result
    b.load(Memory.PRM, count=4, segment=CONSTANT, offset=b.constant(shifts.tobytes()))
    b.uops(ALU, [{"dst": k, "src": k} for k in range(vectors)], push=[ALU])
    imm = int(numbers(rng, 1)[0])
    b.alu(count=vectors, src=half, function=function, use_imm=use_imm, imm=imm, pop=[LOAD])
    for k in range(4):
        b.requantize(count=vectors, dst=k * vectors, prm=k, rounding=Rounding.SINGLE, lo=-128)
    b.wait(ALU, ALU_DISTANCE, push=[STORE])
    b.store(count=4 * vectors, pop=[ALU])
    return b.program()
