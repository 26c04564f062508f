"""The C++ header that the HLS kernels are parametrised by: everything in it follows from Config and ISA.

Bit positions come from the declaration in :mod:`tilewright.isa.spec`, in the way the codec places them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from tilewright.config import Config
from tilewright.hw.hls.functions import functions
from tilewright.isa import spec, timing
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import FLOAT_LIMIT, AluOp, Combine, Rounding
from tilewright.isa.registers import DRAM_ADDRESS_BITS, TAG_BITS
from tilewright.isa.spec import FORMATS, HEADER, UOP_FIELDS, Engine, Field

LIMIT_BITS = 32  #: width of a segment's size in beats, as in the register map
FORWARD = 4  #: results that GEMM keeps at hand: an accumulation may follow its predecessor in the next cycle

_ENUMS: tuple[type[IntEnum], ...] = (spec.Opcode, Engine, spec.Memory, AluOp, Combine, Rounding)


def constants(config: Config) -> dict[str, int]:
    """The integer constants of the header by name."""
    c, beat = config, config.beat_bytes
    gemm_bits, alu_bits = (spec.uop_width(c, engine) for engine in (Engine.GEMM, Engine.ALU))
    return {
        "BATCH": c.batch,
        "BLOCK_IN": c.block_in,
        "BLOCK_OUT": c.block_out,
        "LANES": c.lanes,
        "WEIGHT_BITS": c.weight_bits,
        "UNIT": c.batch * c.lanes,
        "IN_UNITS": c.in_units,
        "OUT_UNITS": c.out_units,
        "AXI_BITS": c.axi_bits,
        "BEAT_BITS": c.bus_bits,
        "BEAT_BYTES": beat,
        "BEAT_WORDS": beat // 4,
        "BEAT_WEIGHTS": c.bus_bits // c.weight_bits,
        "BURST_BEATS": c.burst_beats,
        "ACT_BANKS": c.act_banks,
        "ACT_BANK_UNITS": c.act_bank_units,
        "ACT_SPAN": c.act_row_units,
        "ACT_PARTS": c.act_unit_bytes // beat,
        "ACC_BANKS": c.acc_banks,
        "ACC_BANK_UNITS": c.acc_bank_units,
        "ACC_PARTS": c.acc_unit_bytes // beat,
        "PACKED": int(c.dsp_packing),
        "WGT_ENTRIES": c.wgt_entries,
        "WGT_PARTS": c.wgt_entry_bytes // beat,
        "PRM_ENTRIES": c.prm_entries,
        "PRM_PARTS": c.prm_entry_bytes // beat,
        "TABLE_ENTRY_VALUES": spec.TABLE_ENTRY_VALUES,
        "TABLE_ENTRIES": spec.TABLE_ENTRIES,
        "TABLE_ROWS": spec.memory_depth(c, spec.Memory.TABLE),
        "UOP_GEMM_BITS": gemm_bits,
        "UOP_GEMM_DEPTH": spec.uop_depth(c, Engine.GEMM),
        "UOP_ALU_BITS": alu_bits,
        "UOP_ALU_DEPTH": spec.uop_depth(c, Engine.ALU),
        "ACT_ADDRESS_BITS": spec.act_bits(c),
        "ACC_ADDRESS_BITS": spec.acc_bits(c),
        "WGT_ADDRESS_BITS": spec.wgt_bits(c),
        "PRM_ADDRESS_BITS": spec.prm_bits(c),
        "UOP_GEMM_ADDRESS_BITS": spec.uop_gemm_bits(c),
        "UOP_ALU_ADDRESS_BITS": spec.uop_alu_bits(c),
        "SRAM_ADDRESS_BITS": spec.sram_bits(c),
        "VECTOR_ADDRESS_BITS": spec.vector_bits(c),
        "LOOP_BITS": spec.LOOP_BITS,
        "FUNCTION_BITS": spec.bits_for(len(AluOp)),
        "COMBINE_BITS": spec.bits_for(len(Combine)),
        "ROUNDING_BITS": spec.bits_for(len(Rounding)),
        "CORES": c.cores,
        "CORE_BITS": max(spec.core_bits(c), 1),
        "SEGMENTS": c.segments,
        "INSTRUCTION_BITS": spec.instruction_width(c),
        "INSTRUCTION_BYTES": spec.instruction_width(c) // 8,
        "DRAM_BEAT_BITS": DRAM_ADDRESS_BITS - (beat.bit_length() - 1),
        "LIMIT_BITS": LIMIT_BITS,
        "TAG_BITS": TAG_BITS,
        "RESCALE_LEFT_SHIFT": RESCALE_LEFT_SHIFT,
        "FLOAT_LIMIT": FLOAT_LIMIT,
    }


def config_header(config: Config) -> str:
    """The text of ``tilewright_config.h`` for a Config."""
    lines = [
        f"// Generated for config {config.name}, fingerprint {config.fingerprint}; do not edit.",
        "#pragma once",
        "#include <ap_int.h>",
        "",
        "// Macros: these stand in pragmas, where not every tool version takes a constant's name, or choose ports.",
        f"#define TW_FORWARD {FORWARD}",
        f"#define TW_GEMM_DISTANCE {FORWARD + 1}",
        f"#define TW_ALU_DISTANCE {timing.ALU_DISTANCE - 1}",
        f"#define TW_QUEUE_DEPTH {config.queue_depth}",
        f"#define TW_FETCH_BEATS {config.fetch_beats}",
        f"#define TW_AXI_PORTS {config.axi_ports}",
        f"#define TW_CORES {config.cores}",
        "",
        *(f"static const int {name} = {value};" for name, value in constants(config).items()),
        "",
    ]
    for enum in _ENUMS:
        values = ", ".join(f"{enum.__name__.upper()}_{member.name} = {int(member)}" for member in enum)
        lines.append(f"enum {enum.__name__} {{ {values} }};")
    lines += ["", *_record("Header", HEADER, 0, "INSTRUCTION_BITS", config)]
    start = sum(f.bits(config) for f in HEADER)
    for fmt in FORMATS:
        lines += _record(f"{fmt.opcode.name.capitalize()}Fields", fmt.fields, start, "INSTRUCTION_BITS", config)
    for engine, fields in UOP_FIELDS.items():
        lines += _record(f"{engine.name.capitalize()}Uop", fields, 0, f"UOP_{engine.name}_BITS", config)
    lines += functions(config)
    return "\n".join(lines) + "\n"


def _record(name: str, fields: Iterable[Field], position: int, word: str, config: Config) -> Iterator[str]:
    """A struct of the fields and a function that takes them from a word, the first one at bit ``position``."""
    members, statements = [], []
    for field in fields:
        bits = field.bits(config)
        if not bits:
            continue
        kind = f"ap_int<{bits}>" if field.signed else f"ap_uint<{bits + field.minus_one}>"
        members.append(f"    {kind} {field.name};")
        taken = f"word.range({position + bits - 1}, {position})"
        if field.minus_one:  # a count; the sum has one more bit than the field
            taken = f"ap_uint<{bits}>({taken}) + 1"
        statements.append(f"    f.{field.name} = {taken};")
        position += bits
    yield from (f"struct {name} {{", *members, "};")
    yield f"inline {name} decode_{name}(const ap_uint<{word}> &word) {{"
    yield "#pragma HLS INLINE"
    yield from (f"    {name} f;", *statements, "    return f;", "}", "")
