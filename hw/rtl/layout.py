"""Instruction and micro-op words as Amaranth layouts, derived from the declaration in ``isa.spec``."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth.hdl import Const, Mux, Shape, Value, signed, unsigned
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
    """Undefined enum values, a FILL of what cannot be filled, or bits set above the format's fields."""
    opcode = word[: HEADER[0].bits(config)]
    width = instruction_width(config)
    illegal: Value = Const(0)
    for fmt in FORMATS:
        fields = view(fmt.opcode, word, config)
        wrong = []
        for field in instruction_fields(fmt.opcode):
            if field.enum is not None and max(field.enum) < (1 << field.bits(config)) - 1:
                wrong.append(getattr(fields, field.name) > max(field.enum))
        if fmt.opcode == Opcode.FILL:
            wrong.append((fields.memory != Memory.ACT) & (fields.memory != Memory.ACC))
        used = format_bits(fmt.opcode, config)
        if used < width:
            wrong.append(word[used:width].any())
        bad: Value = Const(0)
        for term in wrong:
            bad = bad | term
        illegal = illegal | ((opcode == fmt.opcode) & bad)
    return illegal
