"""How often a network makes the accelerator do what costs energy: multiply, touch a memory, move a byte.

Counted twice, once per fidelity: from the tables of the latency model (:func:`count_estimated`) and from the
instructions and micro-ops of a compiled program (:func:`count_program`). Zeros that pad a block are counted like
values. What the estimate leaves out: FILLs of padding, micro-ops that are loaded again after replacement.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.codec import Table, columns_of, rows_of
from tilewright.isa.effects import micro_ops
from tilewright.isa.program import Program
from tilewright.isa.spec import (
    FORMAT_OF,
    FORMATS,
    MEMORIES,
    AluOp,
    Combine,
    Engine,
    Fields,
    Format,
    MemoryInfo,
    Opcode,
    instruction_width,
    uop_width,
)
from tilewright.isa.uops import UopMemories
from tilewright.jit.cost.tiles import AnyEstimate, TilesEstimate
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.planner import Plan
from tilewright.jit.plan.strips import in_pairs, is_twin
from tilewright.jit.tiled.judge import GEMM, WINDOW, Layer
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
    "table_read": "an entry for every lane", "table_write": "one entry, in the copies of all lanes",
    "uop_read": "one micro-op", "uop_write": "one micro-op",
    "dram_byte": "one byte over the bus, padding of beats and the program itself included",
    "cycle": "one clock cycle, busy or not",
}  # fmt: skip

Counts = Counter[str]
_GEMM, _ALU, _REQUANTIZE, _RESCALE = (
    FORMAT_OF[op] for op in (Opcode.GEMM, Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE)
)
_NO_FLAGS = dict.fromkeys((field.name for field in _GEMM.fields), 0)


def _mode(**chosen: int) -> SimpleNamespace:
    """How a GEMM works: the flags that are ``chosen``, the others 0."""
    return SimpleNamespace(**{**_NO_FLAGS, **chosen})


def count_estimated(found: AnyEstimate) -> Counts:
    """Actions of one inference by the tables of an estimated plan."""
    counts: Counts = Counter(cycle=found.cycles)
    if isinstance(found, TilesEstimate):
        for row in found.rows.tolist():
            _count_chain(row, found.config, counts)
        _count_moves(found, counts)
        return counts
    for number in range(len(found.plan.nodes)):
        _count_layer(found.plan, number, counts)
    for row in found.plan.bound.buffers.tolist():
        _count_buffer(row, found.plan.config, counts)
    return counts


def _count_chain(row: list[int], config: Config, counts: Counts) -> None:
    """Work of a chain in tiles, whatever its cut."""
    pixels = row[Layer.HEIGHT] * row[Layer.WIDTH]
    vectors = pixels * row[Layer.VECTORS]
    if row[Layer.KIND] == WINDOW:
        emits = vectors * config.out_units
        _count(_GEMM, _mode(window=1), emits * row[Layer.KERNEL_Y] * row[Layer.STEP], emits, config, counts)
        counts["wgt_write"] += 1 if row[Layer.SHARED] else row[Layer.VECTORS] * config.out_units
    elif row[Layer.KIND] == GEMM:
        _count(_GEMM, _mode(), row[Layer.ARRAY], row[Layer.ARRAY], config, counts)
        counts["wgt_write"] += row[Layer.ARRAY] // pixels
    _count_passes(vectors * (row[Layer.PASSES] - 1), vectors, config, counts)
    counts["prm_write"] += row[Layer.PRM_FIXED] + row[Layer.PRM_EACH] * row[Layer.VECTORS]


def _count_moves(found: TilesEstimate, counts: Counts) -> None:
    """Transfers of a network in tiles, after its chains are counted: what LOAD moves beside constants goes to act."""
    config, busy = found.config, found.busy
    loaded, stored = (busy[engine] * config.beat_bytes for engine in ("LOAD", "STORE"))
    constants = counts["wgt_write"] * config.wgt_entry_bytes + counts["prm_write"] * config.prm_entry_bytes
    counts["dram_byte"] += loaded + stored
    counts["act_write"] += max(0, loaded - constants) // config.act_unit_bytes
    counts["act_read"] += stored // config.act_unit_bytes


def _count_passes(terms: int, results: int, config: Config, counts: Counts) -> None:
    """RESCALE, the first of every result writes it, and REQUANTIZE."""
    first = min(terms, results)
    _count(_RESCALE, SimpleNamespace(combine=Combine.WRITE, lookup=0), first, 0, config, counts)
    _count(_RESCALE, SimpleNamespace(combine=Combine.ADD, lookup=0), terms - first, 0, config, counts)
    _count(_REQUANTIZE, SimpleNamespace(rounding=Rounding.DOUBLE), results, 0, config, counts)


def _count_layer(plan: Plan, number: int, counts: Counts) -> None:
    config, layer, node = plan.config, plan.network.layers[number].tolist(), plan.nodes[number].tolist()
    rows, vectors, pieces = node[t.N_HEIGHT], node[t.N_VECTORS], node[t.N_PIECES]
    sizes = [vectors * (k + 1) // pieces - vectors * k // pieces for k in range(pieces)]
    parts = sum(-(-size // node[t.N_ROOM]) for size in sizes)
    tasks = -(-rows // node[t.N_ROWS])
    gemm = tasks * (vectors * node[t.N_GEMM_EACH] + parts * node[t.N_GEMM_FIXED]) - vectors * node[t.N_LESS]
    terms = rows * vectors * node[t.N_TERMS_EACH]
    results = rows * vectors * node[t.N_OUT_EACH] * (1 + int(plan.bound.outputs[number, 1] >= 0))
    if layer[t.L_KIND] == t.WINDOW:
        emits = rows * layer[t.L_WIDTH] * layer[t.L_VECTORS] * config.out_units * node[t.N_INSTRUCTIONS]
        pair, twin = int(in_pairs(node[t.N_ROWS], node[t.N_MODE])), int(is_twin(node[t.N_MODE]))
        _count(_GEMM, _mode(window=1, pair=pair, twin=twin), gemm, emits // (1 + pair), config, counts)
    elif node[t.N_GEMM]:
        _count(_GEMM, _mode(), gemm, gemm, config, counts)
        factor = SimpleNamespace(function=AluOp.MUL, use_imm=1)  # of the planes of sums
        _count(_ALU, factor, terms, 0, config, counts)
        terms = 0
    _count_passes(terms, results, config, counts)
    loads = pieces * max(1, node[t.N_GROUPS])
    instructions = parts * (tasks * node[t.N_INSTRUCTIONS] + rows) + 2 * loads
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
    counts: Counts = Counter(cycle=cycles)
    emits = _emits(program, table)
    for form in FORMATS:
        rows = table["opcode"] == form.opcode
        fields = columns_of(table[rows])
        if form.operands:
            _count(form, fields, micro_ops(fields), emits[rows], config, counts)
        for memory, info in MEMORIES.items() if form.sram else ():
            tiles = int((fields.rows * fields.cols)[fields.memory == memory].sum())
            counts[_action(info, "write" if form.sram == "written" else "read")] += tiles
    traffic = count_traffic(program)
    counts["dram_byte"] += traffic.read_bytes + traffic.write_bytes
    return counts


def _count(form: Format, fields: Fields, vectors: Any, emits: Any, config: Config, counts: Counts) -> None:
    """Actions of instructions of one form that run so many micro-ops, of which so many emit."""
    for operand in form.operands:
        span = 1 if operand.fixed else operand.span(fields, config)
        uses, info = (emits if operand.emits else vectors) * span, MEMORIES[operand.memory]
        counts[_action(info, "read")] += int(np.sum(uses * operand.reads(fields)))
        counts[_action(info, "write")] += int(np.sum(uses)) * operand.writes
    counts["uop_read"] += int(np.sum(vectors))
    lanes = config.batch * config.block_out
    if form.opcode == Opcode.GEMM:
        dense, window = vectors * (fields.window == 0), emits * (1 + fields.pair) * (fields.window == 1)
        counts["mac"] += config.block_in * int(np.sum(dense * lanes + window * config.batch * config.lanes))
    elif form.opcode == Opcode.ALU:
        multiplies = np.isin(fields.function, [function for function in AluOp if function.multiplies])
        counts["alu_multiply"] += lanes * int(np.sum(vectors * multiplies))
        counts["alu_add"] += lanes * int(np.sum(vectors * ~multiplies))
    else:
        counts["alu_multiply"] += lanes * int(np.sum(vectors))


def _action(memory: MemoryInfo, way: str) -> str:
    return f"{'uop' if memory.uops_of is not None else memory.name}_{way}"


def _emits(program: Program, table: Table) -> NDArray[np.int64]:
    """Micro-ops that emit, by instruction; those of window instructions are looked up in what is loaded by then."""
    emits, uops = micro_ops(columns_of(table)), UopMemories(program.config, program.segments)
    window = table["window"] == 1
    if window.any():
        followed = np.flatnonzero(window | (table["opcode"] == Opcode.LOAD))
        for index, row in zip(followed.tolist(), rows_of(table[followed])):
            block = uops.step(row)
            if block is not None:
                emits[index] = row.outer * row.inner * int(block.emits.sum())
    return emits
