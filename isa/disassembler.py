"""Programs to text that :mod:`tilewright.isa.assembler` turns back into the identical program."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tilewright.config import PRESETS, Config
from tilewright.isa.codec import EncodingError, Instruction, decode, decode_uops, encode_uops, rows_of
from tilewright.isa.program import Program, Segment, check_program
from tilewright.isa.spec import FORMAT_OF, MEMORIES, UOP_FIELDS, Engine, Opcode, others, token_bit
from tilewright.isa.syntax import POSITIONAL, UOP_DIRECTIVES, quote, word

_HEX_BYTES = 32  #: bytes per line of hex
_ZERO_RUN = 64  #: so many zero bytes become one ``.zero`` line
_INDEX_COLUMN = 100  #: where the comment with the instruction's number starts


def disassemble(program: Program) -> str:
    """Assembly text of a program. Raises :class:`EncodingError` if an instruction does not decode."""
    check_program(program)
    instructions = decode(program.instructions, program.config)
    uops = _uop_ranges(program)
    lines = list(_config(program.config))
    for number, segment in enumerate(program.segments):
        lines.append("")
        lines.extend(_segment(segment, program.config, uops.get(number, [])))
    if program.meta:
        lines.append("")
        lines.extend(f".meta {quote(key)} {json.dumps(value, allow_nan=False)}" for key, value in program.meta.items())
    lines.append("")
    names = [s.name for s in program.segments]
    layers = _layer_names(program)
    for index, instruction in enumerate(instructions):
        if layers and (index == 0 or layers[index] != layers[index - 1]):
            lines.append(f"; {layers[index]}")
        lines.append(f"{_instruction(instruction, names):<{_INDEX_COLUMN}} ; {index}")
    return "\n".join(lines) + "\n"


def _config(config: Config) -> Iterator[str]:
    for name, preset in PRESETS.items():
        if preset == config:
            yield f".config {name}"
            return
    yield ".config {"
    yield from ("    " + line for line in config.to_toml().splitlines())
    yield "}"


def _layer_names(program: Program) -> list[str]:
    """A comment per instruction, if meta says what layer each belongs to."""
    owner, layers = program.meta.get("instruction_layer"), program.meta.get("layers")
    if not (isinstance(owner, list) and isinstance(layers, list) and len(owner) == program.instruction_count):
        return []
    named = [layer.get("name") if isinstance(layer, dict) else None for layer in layers]
    return [
        f"layer {k}: {json.dumps(named[k])}" if isinstance(k, int) and 0 <= k < len(named) else "no layer"
        for k in owner
    ]


def _instruction(instruction: Instruction, segments: list[str]) -> str:
    opcode = instruction.opcode
    parts = [opcode.name.lower()]
    positional = POSITIONAL.get(opcode)
    for field in sorted(FORMAT_OF[opcode].fields, key=lambda f: f.name != positional):
        value = instruction[field.name]
        if field.name == positional and field.enum is not None:
            parts.append(word(field.enum, value))
        elif value == (1 if field.minus_one else 0) and field.name != "segment":
            continue
        elif field.enum is not None:
            parts.append(f"{field.name}={word(field.enum, value)}")
        elif field.name == "segment" and value < len(segments) and segments.count(segments[value]) == 1:
            parts.append(f"segment={quote(segments[value])}")
        else:
            parts.append(f"{field.name}={value}")
    engine = instruction.engine
    for side in ("pop", "push"):
        named = [other.name.lower() for other in others(engine) if instruction[side] & token_bit(engine, other)]
        if named:
            parts.append(f"{side}({','.join(named)})")
    if instruction["trace"]:
        parts.append("trace")
    return " ".join(parts)


# -- segments -------------------------------------------------------------------------------------------

_Range = tuple[int, int, Engine]  #: first byte, byte after the last, whose micro-ops


def _uop_ranges(program: Program) -> dict[int, list[_Range]]:
    """Per segment, the parts of its data that the program loads as micro-ops; overlaps are left as bytes."""
    config, table = program.config, program.table()
    found: dict[int, set[_Range]] = {}
    for row in rows_of(table[table["opcode"] == Opcode.LOAD]):
        memory = MEMORIES[row.memory]
        if memory.uops_of is None:
            continue
        size = row.cols * memory.entry_bytes(config)
        for r in range(row.rows if row.stride else 1):
            start = (row.offset + r * row.stride) * config.beat_bytes
            found.setdefault(row.segment, set()).add((start, start + size, memory.uops_of))
    result: dict[int, list[_Range]] = {}
    for segment, ranges in found.items():
        position = 0
        for start, end, engine in sorted(ranges):
            if start >= position:
                result.setdefault(segment, []).append((start, end, engine))
                position = end
    return result


def _segment(segment: Segment, config: Config, uops: list[_Range]) -> Iterator[str]:
    head = f".segment {quote(segment.name)} {segment.kind} size={segment.size}"
    if segment.repeat_stride:
        head += f" repeat_stride={segment.repeat_stride}"
    if segment.data is None:
        yield head
        return
    yield head + " {"
    position, data = 0, segment.data
    for start, end, engine in uops:
        if end > len(data):
            continue
        block = _uop_lines(data[start:end], engine, config)
        if block:
            yield from _bytes(data[position:start])
            yield f"    ; {len(block)} micro-ops at byte {start}"
            yield from block
            position = end
    yield from _bytes(data[position:])
    yield "}"


def _uop_lines(data: bytes, engine: Engine, config: Config) -> list[str]:
    """One line per micro-op; none if that could not give the same bytes back."""
    directive = next(name for name, owner in UOP_DIRECTIVES.items() if owner == engine)
    names = [f.name for f in UOP_FIELDS[engine]]
    try:
        fields = decode_uops(data, engine, config).tolist()
    except EncodingError:
        return []
    if encode_uops([dict(zip(names, row)) for row in fields], engine, config) != data:
        return []
    return [f"    {directive} " + " ".join(f"{n}={v}" for n, v in zip(names, row)) for row in fields]


def _bytes(data: bytes) -> Iterator[str]:
    position = 0
    while position < len(data):
        rest = len(data) - position
        if not any(data[position : position + _ZERO_RUN]) and rest >= _ZERO_RUN:
            end = position + _ZERO_RUN
            while end < len(data) and data[end] == 0:
                end += 1
            yield f"    .zero {end - position}"
            position = end
        else:
            yield "    .hex " + data[position : position + _HEX_BYTES].hex(" ", 4)
            position += _HEX_BYTES
