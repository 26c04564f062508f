"""The instruction set, declared once as data.

Codec, assembler, disassembler, verifier, simulator, RTL decoder, HLS header, reference page and random
program generator are all derived from the tables in this file; what an instruction touches, by
:mod:`tilewright.isa.effects`. Widths are functions of the Config.

Addresses into act and acc count *units* (BATCH x lanes elements, lanes = min(BLOCK_IN, BLOCK_OUT)); wgt and
prm addresses count whole entries; DRAM offsets and strides count AXI beats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from tilewright.config import PARAMETERS, Config
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.schema import (
    Engine,
    Field,
    Fields,
    Format,
    Memory,
    MemoryInfo,
    Opcode,
    Operand,
    always,
    bits_for,
    never,
)

ALU_UOP_COUNT_BITS = 8  #: width of an ALU instruction's micro-op count, stored minus one
LOOP_BITS = 11  #: width of a loop count, stored minus one
OFFSET_BITS = 28  #: width of a DRAM offset, in beats
STRIDE_BITS = 20  #: width of a DRAM row stride, in beats
TABLES = 8  #: tables that RESCALE can look its input up in
TABLE_VALUES = 256  #: of a table, at the int8 values modulo 256
TABLE_ENTRY_VALUES = 2  #: of them in an entry: with more, a lane would choose among more than a LUT's inputs
TABLE_ENTRIES = TABLE_VALUES // TABLE_ENTRY_VALUES  #: of a table
MOST_CORES = PARAMETERS["cores"].high
DOORBELL_DEPTH = 15  #: most doorbells of one core that another one has not heard yet

LOAD, GEMM, ALU, STORE = Engine


def _uop_memory(memory: Memory, engine: Engine) -> MemoryInfo:
    return MemoryInfo(
        memory, "entry", f"a micro-op of {engine.name}", lambda c: uop_depth(c, engine),
        lambda c: uop_width(c, engine) // 8, (LOAD,), (engine,), uops_of=engine,
    )  # fmt: skip


_ACC = MemoryInfo(
    Memory.ACC, "unit", "BATCH x lanes int32", lambda c: c.acc_units, lambda c: c.acc_unit_bytes,
    (LOAD, GEMM, ALU), (GEMM, ALU), lambda c: c.acc_banks,
)  # fmt: skip
#: by the code in LOAD and FILL
MEMORIES: dict[int, MemoryInfo] = {
    Memory.ACT: MemoryInfo(
        Memory.ACT, "unit", "BATCH x lanes int8", lambda c: c.act_units, lambda c: c.act_unit_bytes,
        (LOAD, ALU), (GEMM, ALU, STORE), lambda c: c.act_banks,
    ),
    Memory.WGT: MemoryInfo(
        Memory.WGT, "entry", "BLOCK_OUT x BLOCK_IN weights", lambda c: c.wgt_entries, lambda c: c.wgt_entry_bytes,
        (LOAD,), (GEMM,),
    ),
    Memory.ACC: _ACC,
    Memory.ACC8: replace(_ACC, entry_bytes=lambda c: c.act_unit_bytes),
    Memory.PRM: MemoryInfo(
        Memory.PRM, "entry", "BLOCK_OUT x 4 int32", lambda c: c.prm_entries, lambda c: c.prm_entry_bytes,
        (LOAD,), (ALU,),
    ),
    Memory.UOP_GEMM: _uop_memory(Memory.UOP_GEMM, GEMM),
    Memory.UOP_ALU: _uop_memory(Memory.UOP_ALU, ALU),
    Memory.TABLE: MemoryInfo(
        Memory.TABLE, "entry", f"{TABLE_ENTRY_VALUES} int8 of a table, first in a beat",
        lambda c: TABLES * TABLE_ENTRIES, lambda c: c.beat_bytes, (LOAD,), (ALU,),
    ),
}  # fmt: skip
UOP_MEMORY: dict[int, Memory] = {m.uops_of: m.memory for m in MEMORIES.values() if m.uops_of is not None}


def entry_bytes(config: Config, memory: Memory) -> int:
    """Bytes in DRAM of one unit or entry of a memory, as LOAD moves it."""
    return MEMORIES[memory].entry_bytes(config)


def memory_depth(config: Config, memory: Memory) -> int:
    """Units or entries of a memory."""
    return MEMORIES[memory].depth(config)


def _address(memory: Memory) -> Callable[[Config], int]:
    def bits(config: Config) -> int:
        return bits_for(memory_depth(config, memory))

    bits.__name__ = f"{memory.name.lower()}_bits"
    bits.__doc__ = f"Width of an address of {memory.name}."
    return bits


act_bits, wgt_bits, acc_bits, prm_bits = map(_address, (Memory.ACT, Memory.WGT, Memory.ACC, Memory.PRM))
uop_gemm_bits, uop_alu_bits = map(_address, (Memory.UOP_GEMM, Memory.UOP_ALU))
table_bits = _address(Memory.TABLE)


def sram_bits(config: Config) -> int:
    """Width of LOAD's and FILL's SRAM address: wide enough for every memory."""
    return max(f(config) for f in (act_bits, acc_bits, wgt_bits, prm_bits, uop_gemm_bits, uop_alu_bits, table_bits))


def vector_bits(config: Config) -> int:
    """Width of an ALU micro-op's operand: act or acc."""
    return max(act_bits(config), acc_bits(config))


def segment_bits(config: Config) -> int:
    """Width of a segment number."""
    return bits_for(config.segments)


def core_bits(config: Config) -> int:
    """Width of a mask of cores: a bit for each that a design may have, so that programs for two run on four; one core
    alone has none, so that its instructions know nothing of others."""
    return MOST_CORES if config.cores > 1 else 0


#: the token bits of ``pop`` and ``push``: bit k is the k-th *other* engine in Engine order
HEADER: tuple[Field, ...] = (
    Field("opcode", 3, "operation", enum=Opcode),
    Field("pop", 3, "wait for one token from each marked other engine before issue"),
    Field("push", 3, "send one token to each marked other engine at retire"),
    Field("trace", 1, "record (instruction index, retire cycle) in the trace FIFO"),
)

_WRAP = (
    Field("wrap_base", act_bits, "first unit of the wrap region"),
    Field("wrap_size", act_bits, "units of the wrap region", minus_one=True),
)


def _micro_op_slots(fields: Fields, config: Config) -> Any:
    """On packed multipliers a window instruction ends with a cycle for the second half of its last emit."""
    second_half = config.dsp_packing * (fields.window == 1) * (fields.pace == 0)
    return fields.outer * fields.inner * fields.uop_count * (fields.pace + 1) + second_half


def _entries(field: str, holds: Sequence[bool]) -> Callable[[Fields], Any]:
    """The condition that ``holds`` for the entry of an enumeration that a field names."""
    table, take = np.array(holds), attrgetter(field)
    return lambda fields: table[take(fields)]


_reads_dst = _entries("function", [function.reads_dst for function in AluOp])
_reads_operand = _entries("function", [function.reads_operand for function in AluOp])
_joins = _entries("combine", [combine.reads_dst for combine in Combine])
_scales = _entries("rounding", [rounding.nudge is not None for rounding in Rounding])


def roundings(config: Config) -> tuple[Rounding, ...]:
    """The rounding modes that a Config has."""
    return tuple(rounding for rounding in Rounding if config.float32_scaling or not rounding.precision)


def _choice(name: str, enum: type[IntEnum], what: str) -> Field:
    return Field(name, bits_for(len(enum)), what, enum=enum)


def _affine(operand: Operand) -> tuple[Field, ...]:
    name, what, width = operand.name, operand.memory.name.lower(), _address(operand.memory)
    return (
        Field(name, width, f"{what} base"),
        Field(f"{name}_outer", width, f"{what} step per outer iteration"),
        Field(f"{name}_inner", width, f"{what} step per inner iteration"),
    )


def _looped(
    opcode: Opcode, operands: tuple[Operand, ...], more: tuple[Field, ...], doc: str
) -> Format:  # fmt: skip
    """An instruction that runs micro-ops in two affine loops."""
    engine, width = (GEMM, uop_gemm_bits) if opcode == Opcode.GEMM else (ALU, uop_alu_bits)
    layout = sorted(
        (o for o in operands if not o.fixed), key=lambda operand: ("dst", "src", "wgt", "prm").index(operand.name)
    )
    fields = (
        Field("uop_begin", width, "first micro-op"),
        Field("uop_count", width if engine == GEMM else ALU_UOP_COUNT_BITS, "micro-ops run per inner iteration",
              minus_one=True),
        Field("outer", LOOP_BITS, "outer loop count", minus_one=True),
        Field("inner", LOOP_BITS, "inner loop count", minus_one=True),
        *(field for operand in layout for field in _affine(operand)),
        *(_WRAP if any(operand.memory == Memory.ACT for operand in operands) else ()),
        *more,
    )  # fmt: skip
    return Format(opcode, engine, fields, doc, _micro_op_slots, operands=operands)


def _units(name: str, results: Callable[[Fields], Any] = lambda fields: 1) -> Callable[[Fields, Config], Any]:
    """Vectors of ``in_units`` or ``out_units``; in window mode, single units, or as many as ``results`` says."""
    return lambda fields, config: results(fields) + (getattr(config, name) - results(fields)) * (fields.window == 0)


def _results(fields: Fields) -> Any:
    """Results of a window emit, each with weights of its own."""
    return 1 + fields.pair


def _pushed(fields: Fields) -> Any:
    """Units that a micro-op pushes into the window."""
    return 1 + fields.twin


def _vector(name: str, memory: Memory, reads: Callable[[Fields], Any] = always) -> Operand:
    return Operand(name, memory, name == "dst", reads, lambda fields, config: config.out_units)


_TABLE = Operand(
    "table",
    Memory.TABLE,
    reads=lambda fields: fields.lookup == 1,
    span=lambda fields, config: TABLE_ENTRIES,
    fixed=True,
)


_TILE = (
    Field("sram", sram_bits, "first SRAM unit or entry; of act an offset"),
    Field("sram_row", sram_bits, "SRAM step per row"),
    Field("sram_col", sram_bits, "SRAM step per column"),
    Field("rows", sram_bits, "rows", minus_one=True),
    Field("cols", sram_bits, "units or entries per row", minus_one=True),
    *_WRAP,
)
_DRAM = (
    Field("segment", segment_bits, "DRAM segment"),
    Field("offset", OFFSET_BITS, "first beat in the segment"),
    Field("stride", STRIDE_BITS, "beats from row to row"),
)

FORMATS: tuple[Format, ...] = (
    Format(
        Opcode.LOAD, LOAD,
        (Field("memory", 3, "destination", enum=Memory), *_TILE, *_DRAM),
        "Copy a 2-D tile from DRAM to a memory; a row is contiguous in DRAM.", sram="written", dram="read",
    ),
    Format(
        Opcode.FILL, LOAD,
        (Field("memory", 3, "destination: ACT or ACC", enum=Memory), *_TILE,
         Field("value", 32, "the constant (low 8 bits for act)", signed=True)),
        "Write a constant to a 2-D tile of act or acc; no bus traffic.",
        lambda fields, config: fields.rows * fields.cols, sram="written",
    ),
    Format(
        Opcode.STORE, STORE, (*_TILE, *_DRAM),
        "Copy a 2-D tile from act to DRAM.", sram="read", dram="written",
    ),
    _looped(
        Opcode.GEMM,
        (Operand("src", Memory.ACT, span=_units("in_units", _pushed)),
         Operand("wgt", Memory.WGT, span=lambda fields, config: _results(fields), emits=True),
         Operand("dst", Memory.ACC, True, span=_units("out_units", _results), emits=True)),
        (Field("window", 1, "1: window mode (depthwise, pooling); 0: dense"),
         Field("pair", 1, "1: a window emit gives two results, for packed multipliers"),
         Field("pace", 1, "1: every micro-op takes two cycles"),
         Field("twin", 1, "1: a window micro-op pushes two units, each into half of the window")),
        "acc[d] (+)= act[s] . wgt[w] over micro-ops in two affine loops.",
    ),
    _looped(
        Opcode.ALU,
        (_vector("dst", Memory.ACC, _reads_dst),
         _vector("src", Memory.ACC, lambda fields: (fields.use_imm == 0) & _reads_operand(fields))),
        (_choice("function", AluOp, "operation"), Field("use_imm", 1, "operand is imm, not acc[s]"),
         Field("imm", 32, "immediate", signed=True), Field("pace", 1, "1: every vector takes two cycles")),
        "acc[d] = acc[d] OP (imm or acc[s]).",
    ),
    _looped(
        Opcode.REQUANTIZE,
        (_vector("dst", Memory.ACT, never), _vector("src", Memory.ACC, _scales),
         Operand("prm", Memory.PRM, reads=_scales)),
        (Field("zero_point", 8, "added after the shift", signed=True), Field("lo", 8, "lower clamp", signed=True),
         Field("hi", 8, "upper clamp", signed=True), _choice("rounding", Rounding, "rounding mode")),
        "act[d] = clamp(round((acc[s] + bias) * multiplier >> shift) + zero_point, lo, hi).",
    ),
    _looped(
        Opcode.RESCALE,
        (_vector("src", Memory.ACT), Operand("prm", Memory.PRM),
         _vector("dst", Memory.ACC, _joins), _TABLE),
        (_choice("combine", Combine, "how the result joins acc[d]"),
         _choice("rounding", Rounding, "rounding mode"),
         Field("lookup", 1, "1: each element of act[s] is looked up in the table first"),
         Field("table", bits_for(TABLES), "which table")),
        "acc[d] (op)= round(((act[s] << 20) + bias) * multiplier >> shift), act[s] itself or looked up in a table.",
    ),
    Format(
        Opcode.WAIT, None,
        (Field("engine", 2, "engine that waits", enum=Engine), Field("cycles", 16, "cycles", minus_one=True),
         Field("hear", core_bits, "on LOAD: wait for one doorbell of each marked core before issue"),
         Field("ring", core_bits, "on STORE: ring one doorbell at each marked core at retire")),
        "Occupy an engine; carries tokens and doorbells, keeps distances.", lambda fields, config: fields.cycles,
    ),
)  # fmt: skip

FORMAT_OF: dict[int, Format] = {f.opcode: f for f in FORMATS}

#: micro-op fields; in window mode an all-ones ``dst`` means push only
UOP_FIELDS: dict[Engine, tuple[Field, ...]] = {
    Engine.GEMM: (
        Field("dst", acc_bits, "acc offset; all ones in window mode: push without emit"),
        Field("src", act_bits, "act offset"),
        Field("wgt", wgt_bits, "wgt offset"),
        Field("accumulate", 1, "1: add to acc[d]; 0: overwrite it"),
    ),
    Engine.ALU: (
        Field("dst", vector_bits, "destination offset"),
        Field("src", vector_bits, "source offset"),
        Field("prm", prm_bits, "prm offset"),
    ),
}


@lru_cache(maxsize=256)
def uop_width(config: Config, engine: Engine) -> int:
    """Bits of one micro-op: 32 or 64, the least that holds its fields."""
    used = sum(f.bits(config) for f in UOP_FIELDS[engine])
    return 32 if used <= 32 else 64


def uop_depth(config: Config, engine: Engine) -> int:
    """Micro-ops that the engine's memory holds."""
    size = config.uop_gemm_bytes if engine == Engine.GEMM else config.uop_alu_bytes
    return size * 8 // uop_width(config, engine)


@lru_cache(maxsize=64)
def instruction_width(config: Config) -> int:
    """Bits of one instruction: the least multiple of 64 that holds every format."""
    header = sum(f.bits(config) for f in HEADER)
    widest = max(header + sum(f.bits(config) for f in fmt.fields) for fmt in FORMATS)
    return -(-widest // 64) * 64


@cache
def others(engine: Engine) -> tuple[Engine, ...]:
    """The three other engines, in the order of the ``pop`` and ``push`` bits."""
    return tuple(e for e in Engine if e != engine)


@cache
def token_bit(engine: Engine, other: Engine) -> int:
    """The ``pop``/``push`` mask bit of ``engine``'s instructions that stands for ``other``."""
    return 1 << others(engine).index(other)
