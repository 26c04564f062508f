"""Instruction and micro-op words as Amaranth layouts, derived from the declaration in ``isa.spec``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from amaranth.hdl import Cat, Mux, Shape, Value, signed, unsigned
from amaranth.lib import data

from tilewright.config import Config
from tilewright.isa.spec import FORMAT_OF, FORMATS, HEADER, UOP_FIELDS, Engine, Field, Memory, Opcode, instruction_width


def layout(fields: Iterable[Field], config: Config) -> data.StructLayout:
    """A struct of the fields, least significant first. Counts stored minus one stay minus one."""
    members: dict[str, Shape] = {}
    for field in fields:
        bits = field.bits(config)
        members[field.name] = signed(bits) if field.signed else unsigned(bits)
    return data.StructLayout(members)


def instruction_fields(opcode: Opcode) -> tuple[Field, ...]:
    """Header and format fields of an opcode."""
    return HEADER + FORMAT_OF[opcode].fields


def view(opcode: Opcode, word: Value, config: Config) -> data.View:
    """The low bits of an instruction word seen as one format."""
    shape = layout(instruction_fields(opcode), config)
    return data.View(shape, word[: shape.size])


def uop_view(engine: Engine, word: Value, config: Config) -> data.View:
    """The low bits of a micro-op word as its fields."""
    shape = layout(UOP_FIELDS[engine], config)
    return data.View(shape, word[: shape.size])


def format_bits(opcode: Opcode, config: Config) -> int:
    """Bits that an opcode's fields use."""
    return sum(f.bits(config) for f in instruction_fields(opcode))


def widest_format(config: Config) -> int:
    """Bits that the widest format uses; what a command queue has to hold."""
    return max(format_bits(fmt.opcode, config) for fmt in FORMATS)


def engine_of(word: Value, config: Config) -> Value:
    """The engine number of an instruction word: fixed by the opcode, or WAIT's own field."""
    opcode = word[: HEADER[0].bits(config)]
    result: Value = view(Opcode.WAIT, word, config).engine
    for fmt in FORMATS:
        if fmt.engine is not None:
            result = Mux(opcode == fmt.opcode, int(fmt.engine), result)
    return result


def is_illegal(word: Value, config: Config) -> Value:
    """Undefined enum values, a FILL of what cannot be filled, or bits set above the format's fields.

    Formats overlap, so the bits above each are taken in parts that some have in common: one "any" of each part.
    """
    opcode = word[: HEADER[0].bits(config)]
    used = {fmt.opcode: format_bits(fmt.opcode, config) for fmt in FORMATS}
    wrong: list[Value] = []
    for fmt in FORMATS:
        fields = view(fmt.opcode, word, config)
        for field in instruction_fields(fmt.opcode):
            if field.enum is not None and max(field.enum) < (1 << field.bits(config)) - 1:
                wrong.append((opcode == fmt.opcode) & (getattr(fields, field.name) > max(field.enum)))
        if fmt.opcode == Opcode.FILL:
            fillable = (fields.memory == Memory.ACT) | (fields.memory == Memory.ACC)
            wrong.append((opcode == fmt.opcode) & ~fillable)
    for low, high in pairwise(sorted({*used.values(), instruction_width(config)})):
        shorter = Cat(*(opcode == code for code, bits in used.items() if bits <= low)).any()
        wrong.append(shorter & word[low:high].any())
    return Cat(*wrong).any()
