"""The instruction set, declared once as data.

Codec, assembler, disassembler, verifier, simulator, RTL decoder, HLS header, reference page and random
program generator are all derived from the tables in this file. Widths are functions of the Config.

Addresses into act and acc count *units* (BATCH x lanes elements, lanes = min(BLOCK_IN, BLOCK_OUT)); wgt and
prm addresses count whole entries; DRAM offsets and strides count AXI beats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache

from tilewright.config import Config
from tilewright.isa.functions import AluOp, Combine, Rounding

ALU_UOP_COUNT_BITS = 8  #: width of an ALU instruction's micro-op count, stored minus one
LOOP_BITS = 11  #: width of a loop count, stored minus one
OFFSET_BITS = 28  #: width of a DRAM offset, in beats
STRIDE_BITS = 20  #: width of a DRAM row stride, in beats


class Opcode(IntEnum):
    """The 3-bit operation code."""

    LOAD = 0
    FILL = 1
    STORE = 2
    GEMM = 3
    ALU = 4
    REQUANTIZE = 5
    RESCALE = 6
    WAIT = 7


class Engine(IntEnum):
    """The four engines. Each has a command queue; every ordered pair has a token queue."""

    LOAD = 0
    GEMM = 1
    ALU = 2
    STORE = 3


class Memory(IntEnum):
    """What LOAD and FILL can write. ACC8 is acc loaded from int8, sign-extended."""

    ACT = 0
    WGT = 1
    ACC = 2
    ACC8 = 3
    PRM = 4
    UOP_GEMM = 5
    UOP_ALU = 6


Width = int | Callable[[Config], int]


def bits_for(values: int) -> int:
    """Bits that hold 0 .. values - 1 (at least one)."""
    return max(1, (values - 1).bit_length())


def act_bits(config: Config) -> int:
    """Width of an act address."""
    return bits_for(config.act_units)


def acc_bits(config: Config) -> int:
    """Width of an acc address."""
    return bits_for(config.acc_units)


def wgt_bits(config: Config) -> int:
    """Width of a wgt address."""
    return bits_for(config.wgt_entries)


def prm_bits(config: Config) -> int:
    """Width of a prm address."""
    return bits_for(config.prm_entries)


def uop_gemm_bits(config: Config) -> int:
    """Width of an index into GEMM's micro-op memory."""
    return bits_for(config.uop_gemm_bytes * 8 // uop_width(config, Engine.GEMM))


def uop_alu_bits(config: Config) -> int:
    """Width of an index into ALU's micro-op memory."""
    return bits_for(config.uop_alu_bytes * 8 // uop_width(config, Engine.ALU))


def sram_bits(config: Config) -> int:
    """Width of LOAD's and FILL's SRAM address: wide enough for every memory."""
    return max(f(config) for f in (act_bits, acc_bits, wgt_bits, prm_bits, uop_gemm_bits, uop_alu_bits))


def vector_bits(config: Config) -> int:
    """Width of an ALU micro-op's operand: act or acc."""
    return max(act_bits(config), acc_bits(config))


def segment_bits(config: Config) -> int:
    """Width of a segment number."""
    return bits_for(config.segments)


@dataclass(frozen=True)
class Field:
    """One bit field. ``minus_one``: a count of at least 1, stored minus one. ``enum`` names its values."""

    name: str
    width: Width
    doc: str
    signed: bool = False
    minus_one: bool = False
    enum: type[IntEnum] | None = None

    def bits(self, config: Config) -> int:
        """Width in bits for this Config."""
        return self.width if isinstance(self.width, int) else self.width(config)

    def bounds(self, config: Config) -> tuple[int, int]:
        """Least and greatest value, inclusive."""
        n = self.bits(config)
        if self.enum is not None:
            return 0, min((1 << n) - 1, max(self.enum))
        if self.signed:
            return -(1 << (n - 1)), (1 << (n - 1)) - 1
        return (1, 1 << n) if self.minus_one else (0, (1 << n) - 1)


@dataclass(frozen=True)
class Format:
    """One instruction: its fields follow the common header, least significant bit first.

    ``engine`` is None for WAIT, whose ``engine`` field says where it runs.
    """

    opcode: Opcode
    engine: Engine | None
    fields: tuple[Field, ...]
    doc: str


#: the token bits of ``pop`` and ``push``: bit k is the k-th *other* engine in Engine order
HEADER: tuple[Field, ...] = (
    Field("opcode", 3, "operation", enum=Opcode),
    Field("pop", 3, "wait for one token from each marked other engine before issue"),
    Field("push", 3, "send one token to each marked other engine at retire"),
    Field("trace", 1, "record (instruction index, retire cycle) in the trace FIFO"),
)

_LOOPS = (
    Field("outer", LOOP_BITS, "outer loop count", minus_one=True),
    Field("inner", LOOP_BITS, "inner loop count", minus_one=True),
)


def _choice(name: str, enum: type[IntEnum], what: str) -> Field:
    return Field(name, bits_for(len(enum)), what, enum=enum)


def _affine(name: str, width: Width, what: str) -> tuple[Field, ...]:
    return (
        Field(name, width, f"{what} base, added to the micro-op's"),
        Field(f"{name}_outer", width, f"{what} step per outer iteration"),
        Field(f"{name}_inner", width, f"{what} step per inner iteration"),
    )


_WRAP = (
    Field("wrap_base", act_bits, "first unit of the act region that act offsets wrap in"),
    Field("wrap_size", act_bits, "units of that region: address = base + offset, less size if >= size", minus_one=True),
)


def _uops(width: Width, count: Width) -> tuple[Field, ...]:
    return (
        Field("uop_begin", width, "first micro-op"),
        Field("uop_count", count, "micro-ops run per inner iteration", minus_one=True),
    )


_TILE = (
    Field("sram", sram_bits, "first SRAM unit or entry (for act: offset into the wrap region)"),
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
        Opcode.LOAD, Engine.LOAD,
        (Field("memory", 3, "destination", enum=Memory), *_TILE, *_DRAM),
        "Copy a 2-D tile from DRAM to a memory; a row is contiguous in DRAM.",
    ),
    Format(
        Opcode.FILL, Engine.LOAD,
        (Field("memory", 3, "destination: ACT or ACC", enum=Memory), *_TILE,
         Field("value", 32, "the constant (low 8 bits for act)", signed=True)),
        "Write a constant to a 2-D tile of act or acc; no bus traffic.",
    ),
    Format(
        Opcode.STORE, Engine.STORE, (*_TILE, *_DRAM),
        "Copy a 2-D tile from act to DRAM.",
    ),
    Format(
        Opcode.GEMM, Engine.GEMM,
        (*_uops(uop_gemm_bits, uop_gemm_bits), *_LOOPS,
         *_affine("dst", acc_bits, "acc"), *_affine("src", act_bits, "act"), *_affine("wgt", wgt_bits, "wgt"), *_WRAP,
         Field("window", 1, "1: window mode (depthwise, pooling); 0: dense"),
         Field("pace", 1, "1: every micro-op takes two cycles")),
        "acc[d] (+)= act[s] . wgt[w] over micro-ops in two affine loops.",
    ),
    Format(
        Opcode.ALU, Engine.ALU,
        (*_uops(uop_alu_bits, ALU_UOP_COUNT_BITS), *_LOOPS,
         *_affine("dst", acc_bits, "acc"), *_affine("src", acc_bits, "acc"),
         _choice("function", AluOp, "operation"), Field("use_imm", 1, "operand is imm, not acc[s]"),
         Field("imm", 32, "immediate", signed=True), Field("pace", 1, "1: every vector takes two cycles")),
        "acc[d] = acc[d] OP (imm or acc[s]).",
    ),
    Format(
        Opcode.REQUANTIZE, Engine.ALU,
        (*_uops(uop_alu_bits, ALU_UOP_COUNT_BITS), *_LOOPS,
         *_affine("dst", act_bits, "act"), *_affine("src", acc_bits, "acc"),
         *_affine("prm", prm_bits, "prm"), *_WRAP,
         Field("zero_point", 8, "added after the shift", signed=True), Field("lo", 8, "lower clamp", signed=True),
         Field("hi", 8, "upper clamp", signed=True), _choice("rounding", Rounding, "rounding mode")),
        "act[d] = clamp(round((acc[s] + bias) * multiplier >> shift) + zero_point, lo, hi).",
    ),
    Format(
        Opcode.RESCALE, Engine.ALU,
        (*_uops(uop_alu_bits, ALU_UOP_COUNT_BITS), *_LOOPS,
         *_affine("dst", acc_bits, "acc"), *_affine("src", act_bits, "act"),
         *_affine("prm", prm_bits, "prm"), *_WRAP,
         _choice("combine", Combine, "how the result joins acc[d]"),
         _choice("rounding", Rounding, "rounding mode")),
        "acc[d] (op)= round(((act[s] << 20) + bias) * multiplier >> shift).",
    ),
    Format(
        Opcode.WAIT, None,
        (Field("engine", 2, "engine that waits", enum=Engine), Field("cycles", 16, "cycles", minus_one=True)),
        "Occupy an engine; carries tokens, keeps distances.",
    ),
)  # fmt: skip

FORMAT_OF: dict[Opcode, Format] = {f.opcode: f for f in FORMATS}

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


def entry_bytes(config: Config, memory: Memory) -> int:
    """Bytes in DRAM of one unit or entry of a memory, as LOAD moves it."""
    return {
        Memory.ACT: config.act_unit_bytes,
        Memory.WGT: config.wgt_entry_bytes,
        Memory.ACC: config.acc_unit_bytes,
        Memory.ACC8: config.act_unit_bytes,
        Memory.PRM: config.prm_entry_bytes,
        Memory.UOP_GEMM: uop_width(config, Engine.GEMM) // 8,
        Memory.UOP_ALU: uop_width(config, Engine.ALU) // 8,
    }[memory]


def memory_depth(config: Config, memory: Memory) -> int:
    """Units or entries of a memory."""
    return {
        Memory.ACT: config.act_units,
        Memory.WGT: config.wgt_entries,
        Memory.ACC: config.acc_units,
        Memory.ACC8: config.acc_units,
        Memory.PRM: config.prm_entries,
        Memory.UOP_GEMM: uop_depth(config, Engine.GEMM),
        Memory.UOP_ALU: uop_depth(config, Engine.ALU),
    }[memory]
