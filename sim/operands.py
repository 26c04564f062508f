"""Where the operands of micro-ops lie: the addressing of ``docs/isa.md``, for the simulator and for proofs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.spec import FORMAT_OF, Memory, Opcode
from tilewright.sim.native import compiled
from tilewright.sim.state import Shape

#: by opcode: whether its dst and its src are in act
IN_ACT = np.array([
    [any((o.name, o.memory) == (name, Memory.ACT) for o in FORMAT_OF[opcode].operands) for name in ("dst", "src")]
    for opcode in Opcode
])  # fmt: skip


@compiled
def put(into: Any, first: int, count: int, value: Any) -> None:
    """``into[first : first + count] = value``, without what Numba compiles for any slice."""
    for k in range(first, first + count):
        into[k] = value


@compiled
def act_address(row: Any, offset: int, s: Shape) -> int:
    """The unit that an act offset stands for: wrapped in the instruction's region."""
    if offset >= row.wrap_size:
        offset -= row.wrap_size
    return (row.wrap_base + offset) & (s.act_depth - 1)


@compiled
def loop_offsets(row: Any, o: int, i: int) -> tuple[int, int, int, int]:
    """What a turn of the two loops adds to a micro-op's dst, src, wgt and prm."""
    return (
        row.dst + o * row.dst_outer + i * row.dst_inner,
        row.src + o * row.src_outer + i * row.src_inner,
        row.wgt + o * row.wgt_outer + i * row.wgt_inner,
        row.prm + o * row.prm_outer + i * row.prm_inner,
    )


@compiled
def vector(row: Any, turn: tuple[int, int, int, int], u: int, uops: Any, s: Shape) -> tuple[int, int, int]:
    """First unit of dst and of src, and prm entry, of micro-op ``u`` of an instruction of ALU."""
    uop = uops[(row.uop_begin + u) & (s.uop_alu_depth - 1)]
    dst, src, prm = uop[0] + turn[0], uop[1] + turn[1], (uop[2] + turn[3]) & (s.prm_depth - 1)
    dst = act_address(row, dst, s) if IN_ACT[row.opcode, 0] else dst & (s.acc_depth - 1)
    src = act_address(row, src, s) if IN_ACT[row.opcode, 1] else src & (s.acc_depth - 1)
    return dst & ~(s.out_units - 1), src & ~(s.out_units - 1), prm


@compiled
def matrix_masks(row: Any, s: Shape) -> tuple[int, int, int, int, int]:
    """Of a GEMM instruction, for :func:`matrix`: its wrap region, and what is left of acc, act and wgt addresses."""
    acc, act = s.acc_depth - 1, s.act_depth - 1
    if row.window == 0:
        acc, act = acc & ~(s.out_units - 1), act & ~(s.in_units - 1)
    elif row.twin:
        act &= ~1
    return row.wrap_base, row.wrap_size, acc, act, s.wgt_depth - 1


@compiled
def matrix(
    uop: Any, turn: tuple[int, int, int, int], masks: tuple[int, int, int, int, int]
) -> tuple[int, int, int]:  # fmt: skip
    """First unit of dst in acc and of src in act, and wgt entry, of a micro-op of GEMM."""
    base, size, acc, act, wgt = masks
    src = uop[1] + turn[1]
    if src >= size:
        src -= size
    return (uop[0] + turn[0]) & acc, (base + src) & act, (uop[2] + turn[2]) & wgt
