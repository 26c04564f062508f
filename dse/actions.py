"""How often a network makes the accelerator do what costs energy: multiply, touch a memory, move a byte.

Counted twice, once per fidelity: from the tables of the latency model (:func:`count_estimated`) and from the
instructions and micro-ops of a compiled program (:func:`count_program`). Zeros that pad a block are counted like
values. What the estimate leaves out: FILLs of padding, micro-ops that are loaded again after replacement.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import COLUMNS, decode_uops
from tilewright.isa.program import Program
from tilewright.isa.spec import AluOp, Combine, Engine, Memory, Opcode, entry_bytes, instruction_width, uop_width
from tilewright.jit.cost.estimate import Estimate
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.planner import Plan
from tilewright.runtime.activity import count_traffic

#: action -> what one of it is
ACTIONS = {
    "mac": "one multiply-accumulate of the array",
    "alu_multiply": "one lane of a REQUANTIZE or RESCALE",
    "alu_add": "one lane of another ALU operation",
    "act_read": "one unit", "act_write": "one unit",
    "wgt_read": "one block", "wgt_write": "one block",
    "acc_read": "one unit", "acc_write": "one unit",
    "prm_read": "one entry", "prm_write": "one entry",
    "uop_read": "one micro-op", "uop_write": "one micro-op",
    "dram_byte": "one byte over the bus, padding of beats and the program itself included",
    "cycle": "one clock cycle, busy or not",
}  # fmt: skip

Counts = Counter[str]
_WRITES = {
    Memory.ACT: "act_write", Memory.WGT: "wgt_write", Memory.ACC: "acc_write", Memory.ACC8: "acc_write",
    Memory.PRM: "prm_write", Memory.UOP_GEMM: "uop_write", Memory.UOP_ALU: "uop_write",
}  # fmt: skip


def count_estimated(found: Estimate) -> Counts:
    """Actions of one inference by the tables of an estimated plan."""
    counts: Counts = Counter(cycle=found.cycles)
    for number in range(len(found.plan.nodes)):
        _count_layer(found.plan, number, counts)
    for row in found.plan.bound.buffers.tolist():
        _count_buffer(row, found.plan.config, counts)
    return counts


def _count_layer(plan: Plan, number: int, counts: Counts) -> None:
    config, layer, node = plan.config, plan.network.layers[number].tolist(), plan.nodes[number].tolist()
    rows, vectors, pieces = node[t.N_HEIGHT], node[t.N_VECTORS], node[t.N_PIECES]
    sizes = [vectors * (k + 1) // pieces - vectors * k // pieces for k in range(pieces)]
    parts = sum(-(-size // node[t.N_ROOM]) for size in sizes)
    gemm = rows * (vectors * node[t.N_GEMM_EACH] + parts * node[t.N_GEMM_FIXED])
    terms = rows * vectors * node[t.N_TERMS_EACH]
    results = rows * vectors * node[t.N_OUT_EACH] * (1 + int(plan.bound.outputs[number, 1] >= 0))
    if layer[t.L_KIND] == t.WINDOW:
        emits = rows * layer[t.L_WIDTH] * layer[t.L_UNITS] * node[t.N_INSTRUCTIONS]
        _count_window(gemm, emits, config, counts)
    elif node[t.N_GEMM]:
        _count_dense(gemm, config, counts)
    _count_rescale(terms, terms - min(terms, results), config, counts)
    _count_requantize(results, config, counts)
    loads = pieces * max(1, node[t.N_GROUPS])
    instructions = rows * parts * (node[t.N_INSTRUCTIONS] + 1) + 2 * loads
    counts["dram_byte"] += instructions * instruction_width(config) // 8
    for load in range(loads):
        wgt = node[t.N_WGT_FIXED] + sizes[load % pieces] * node[t.N_WGT_EACH]
        prm = node[t.N_PRM_FIXED] + sizes[load % pieces] * node[t.N_PRM_EACH]
        uops = 0 if load else node[t.N_UOPS]
        counts["wgt_write"] += wgt
        counts["prm_write"] += prm
        counts["uop_write"] += uops * 8 // uop_width(config, Engine.GEMM)
        for size in (wgt * config.wgt_entry_bytes, prm * config.prm_entry_bytes, uops):
            counts["dram_byte"] += _beats(size, config)


def _count_buffer(row: list[int], config: Config, counts: Counts) -> None:
    size = _beats(row[b.B_UNITS] * config.act_unit_bytes, config) + instruction_width(config) // 8
    if row[b.B_LOADED]:
        counts["dram_byte"] += row[b.B_ROWS] * size
        counts["act_write"] += row[b.B_ROWS] * row[b.B_UNITS]
    if row[b.B_STORED]:
        counts["dram_byte"] += row[b.B_HEIGHT] * size
        counts["act_read"] += row[b.B_HEIGHT] * row[b.B_UNITS]


def _beats(size: int, config: Config) -> int:
    return -(-size // config.beat_bytes) * config.beat_bytes


def count_program(program: Program, cycles: int) -> Counts:
    """Actions of one inference of a compiled program that takes ``cycles``."""
    config, table = program.config, program.table()
    column = {name: table[:, index] for name, index in COLUMNS.items()}
    opcode, loops = column["opcode"], column["outer"] * column["inner"] * column["uop_count"]
    counts: Counts = Counter(cycle=cycles)
    gemm = opcode == Opcode.GEMM
    dense, window = gemm & (column["window"] == 0), gemm & (column["window"] == 1)
    _count_dense(int(loops[dense].sum()), config, counts)
    if window.any():
        _count_window(int(loops[window].sum()), _emits(program, window), config, counts)
    _count_requantize(int(loops[opcode == Opcode.REQUANTIZE].sum()), config, counts)
    rescale = opcode == Opcode.RESCALE
    joined = rescale & (column["combine"] != Combine.WRITE)
    _count_rescale(int(loops[rescale].sum()), int(loops[joined].sum()), config, counts)
    _count_alu(column, loops, config, counts)
    tiles = column["rows"] * column["cols"]
    for memory, action in _WRITES.items():
        moved = np.isin(opcode, (Opcode.LOAD, Opcode.FILL)) & (column["memory"] == memory)
        counts[action] += int(tiles[moved].sum())
    counts["act_read"] += int(tiles[opcode == Opcode.STORE].sum())
    traffic = count_traffic(program)
    counts["dram_byte"] += traffic.read_bytes + traffic.write_bytes
    return counts


def _count_alu(column: dict[str, np.ndarray], loops: np.ndarray, config: Config, counts: Counts) -> None:
    alu = column["opcode"] == Opcode.ALU
    multiplies = alu & np.isin(column["function"], [f for f in AluOp if f.multiplies])
    passes, vectors = int(loops[alu].sum()), int(loops[alu & (column["use_imm"] == 0)].sum())
    lanes = config.batch * config.block_out
    counts["alu_multiply"] += lanes * int(loops[multiplies].sum())
    counts["alu_add"] += lanes * int(loops[alu & ~multiplies].sum())
    counts["acc_read"] += (passes + vectors) * config.out_units
    counts["acc_write"] += passes * config.out_units
    counts["uop_read"] += passes


def _count_dense(cycles: int, config: Config, counts: Counts) -> None:
    counts["mac"] += cycles * config.batch * config.block_in * config.block_out
    counts["act_read"] += cycles * config.in_units
    counts["wgt_read"] += cycles
    counts["acc_read"] += cycles * config.out_units
    counts["acc_write"] += cycles * config.out_units
    counts["uop_read"] += cycles


def _count_window(pushes: int, emits: int, config: Config, counts: Counts) -> None:
    counts["mac"] += emits * config.batch * config.lanes * config.block_in
    counts["act_read"] += pushes
    counts["wgt_read"] += emits
    counts["acc_read"] += emits
    counts["acc_write"] += emits
    counts["uop_read"] += pushes


def _count_requantize(vectors: int, config: Config, counts: Counts) -> None:
    counts["alu_multiply"] += vectors * config.batch * config.block_out
    counts["acc_read"] += vectors * config.out_units
    counts["prm_read"] += vectors
    counts["act_write"] += vectors * config.out_units
    counts["uop_read"] += vectors


def _count_rescale(vectors: int, joined: int, config: Config, counts: Counts) -> None:
    counts["alu_multiply"] += vectors * config.batch * config.block_out
    counts["act_read"] += vectors * config.out_units
    counts["prm_read"] += vectors
    counts["acc_read"] += joined * config.out_units
    counts["acc_write"] += vectors * config.out_units
    counts["uop_read"] += vectors


def _emits(program: Program, window: np.ndarray) -> int:
    """Emitting micro-ops that window instructions run: GEMM's micro-op memory is followed through the program."""
    config, table = program.config, program.table()
    column = {name: table[:, index] for name, index in COLUMNS.items()}
    size = entry_bytes(config, Memory.UOP_GEMM)
    emits = np.zeros(config.uop_gemm_bytes // size, np.bool_)
    loads = (column["opcode"] == Opcode.LOAD) & (column["memory"] == Memory.UOP_GEMM)
    push_only = config.acc_units - 1
    total = 0
    for index in np.nonzero(loads | window)[0].tolist():
        row = {name: int(values[index]) for name, values in column.items()}
        if window[index]:
            chosen = emits[row["uop_begin"] : row["uop_begin"] + row["uop_count"]]
            total += row["outer"] * row["inner"] * int(chosen.sum())
            continue
        data = program.segments[row["segment"]].data or b""
        for line in range(row["rows"]):
            start = (row["offset"] + line * row["stride"]) * config.beat_bytes
            micro = decode_uops(data[start : start + row["cols"] * size], Engine.GEMM, config)
            first = row["sram"] + line * row["sram_row"]
            emits[first : first + len(micro)] = micro[:, 0] != push_only
    return total
