"""ALU, REQUANTIZE and RESCALE over the algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.arithmetic import Rounding
from tilewright.isa.spec import TABLE_VALUES, AluOp, Combine
from tilewright.jit.proof.algebra import (
    LINEAR,
    MAXSET,
    MINSET,
    PLAIN,
    apply_form,
    keeps_int8,
    member,
    multiply,
    reduce,
    requantize_key,
    requantized,
    scale_entry,
    table_form,
    times,
)
from tilewright.jit.proof.array import linear
from tilewright.jit.proof.machine import Machine
from tilewright.jit.proof.move import EXTREME_OF_SUMS, FOLLOWED, NONLINEAR_ALU
from tilewright.jit.proof.native import compiled
from tilewright.sim.operands import loop_offsets, vector
from tilewright.sim.scaling import BIAS, MULTIPLIER, OFFSET, SHIFT
from tilewright.sim.state import Shape

ADD, MUL, MOV = int(AluOp.ADD), int(AluOp.MUL), int(AluOp.MOV)
WRITE, JOIN_ADD, JOIN_MAX = int(Combine.WRITE), int(Combine.ADD), int(Combine.MAX)
CONSTANT = int(Rounding.CONSTANT)


@compiled
def alu(row: Any, x: Machine, s: Shape) -> int:
    """ALU; ADD, MOV and MUL can be followed."""
    function, immediate, imm = row.function, row.use_imm != 0, row.imm
    if function != ADD and function != MOV and function != MUL:
        return NONLINEAR_ALU
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, _ = vector(row, turn, u, x.memories.uop_alu, s)
                d, a = dst * s.lanes, src * s.lanes
                if function != MOV:
                    linear(d, s.block_out, x)
                if function != MOV and not immediate:
                    linear(a, s.block_out, x)
                for k in range(s.block_out):
                    if function == MUL:
                        x.acc[d + k] = multiply(imm, x.acc[d + k]) if immediate else times(x.acc[d + k], x.acc[a + k])
                    elif function == ADD:
                        x.acc[d + k] = reduce(x.acc[d + k] + (imm if immediate else x.acc[a + k]))
                    else:
                        x.acc[d + k] = imm if immediate else x.acc[a + k]
                        x.kind[d + k] = LINEAR if immediate else x.kind[a + k]
    return FOLLOWED


@compiled
def _prepare_requantize(entry: int, tag: int, row: Any, x: Machine, s: Shape) -> None:
    """The functions of a prm entry's lanes, with this instruction's fields."""
    x.key_tag[entry] = tag
    rounding, zero_point, lo, hi = row.rounding, row.zero_point, row.lo, row.hi
    prm = x.memories.prm[entry]
    for k in range(s.block_out):
        m, shift, offset = prm[MULTIPLIER, k], prm[SHIFT, k], prm[OFFSET, k]
        x.key[entry, k] = requantize_key(x.seed, m, shift, offset, rounding, zero_point, lo, hi)
        x.keeps[entry, k] = keeps_int8(prm[BIAS, k], m, shift, offset, rounding, zero_point)


@compiled
def requantize(row: Any, x: Machine, s: Shape) -> None:
    """REQUANTIZE."""
    rounding, zero_point, lo, hi = row.rounding, row.zero_point, row.lo, row.hi
    tag = (rounding << 24) + ((zero_point & 255) << 16) + ((lo & 255) << 8) + (hi & 255)
    n = s.block_out
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, p = vector(row, turn, u, x.memories.uop_alu, s)
                d, a = dst * s.lanes, src * s.lanes
                if rounding == CONSTANT:
                    x.act[d : d + n] = min(max(zero_point, lo), hi)
                    continue
                if x.key_tag[p] != tag:
                    _prepare_requantize(p, tag, row, x, s)
                for k in range(n):
                    x.act[d + k] = requantized(
                        x.acc[a + k], x.kind[a + k], x.memories.prm[p, BIAS, k], x.key[p, k], x.keeps[p, k], lo, hi,
                        x.seed,
                    )  # fmt: skip


@compiled
def _prepare_rescale(entry: int, tag: int, row: Any, x: Machine, s: Shape) -> None:
    """The functions of a prm entry's lanes as RESCALE applies them, behind a table or not."""
    x.scale_tag[entry] = tag
    rounding, first = row.rounding, row.table * TABLE_VALUES
    prm = x.memories.prm[entry]
    table = np.empty(256, np.int64)
    for k in range(s.block_out):
        before = k > 0
        for field in (BIAS, MULTIPLIER, OFFSET, SHIFT):
            before = before and prm[field, k] == prm[field, k - 1]
        if before:
            a, b, key = x.scale_a[entry, k - 1], x.scale_b[entry, k - 1], x.scale_key[entry, k - 1]
        else:
            for v in range(-128, 128):
                looked = int(x.memories.table[first + (v & 255)]) if row.lookup else v
                table[v + 128] = scale_entry(
                    looked, prm[BIAS, k], prm[MULTIPLIER, k], prm[SHIFT, k], prm[OFFSET, k], rounding
                )
            a, b, key = table_form(x.seed, table)
        x.scale_a[entry, k], x.scale_b[entry, k], x.scale_key[entry, k] = a, b, key


@compiled
def _join_extreme(at: int, value: float, plain: bool, kind: int, x: Machine) -> bool:
    """acc = max or min (acc, value); false unless both are int8 values or extremes of that ``kind`` of such."""
    if not plain or x.kind[at] not in (PLAIN, kind):
        return False
    if x.kind[at] == PLAIN:
        x.acc[at] = member(x.acc[at], kind, x.seed)
    x.acc[at] = reduce(x.acc[at] + member(value, kind, x.seed))
    x.kind[at] = kind
    return True


@compiled
def rescale(row: Any, x: Machine, s: Shape) -> int:
    """RESCALE."""
    combine, tag = row.combine, row.rounding + ((1 + row.table) << 8) * row.lookup
    extreme = MAXSET if combine == JOIN_MAX else MINSET
    n = s.block_out
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, p = vector(row, turn, u, x.memories.uop_alu, s)
                d, f = dst * s.lanes, src * s.lanes
                if x.scale_tag[p] != tag:
                    _prepare_rescale(p, tag, row, x, s)
                if combine == JOIN_ADD:
                    linear(d, n, x)
                for k in range(n):
                    a, b, key = x.scale_a[p, k], x.scale_b[p, k], x.scale_key[p, k]
                    value = apply_form(x.act[f + k], a, b, key)
                    plain = key == 0 and a == 1 and b == 0
                    if combine == JOIN_ADD:
                        x.acc[d + k] = reduce(x.acc[d + k] + value)
                    elif combine == WRITE:
                        x.acc[d + k] = value
                        x.kind[d + k] = PLAIN if plain else LINEAR
                    elif not _join_extreme(d + k, value, plain, extreme, x):
                        return EXTREME_OF_SUMS
    return FOLLOWED
