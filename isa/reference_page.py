"""The tables of ``docs/isa.md``, generated from the declaration by ``python -m tilewright.isa.reference_page``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from tilewright.config import DEFAULT_CONFIG, PRESETS, Config
from tilewright.isa.expression import text as written
from tilewright.isa.functions import AluOp, Combine, Function, Rounding
from tilewright.isa.spec import (
    FORMATS,
    HEADER,
    LOOP_BITS,
    MEMORIES,
    MOST_CORES,
    OFFSET_BITS,
    STRIDE_BITS,
    UOP_FIELDS,
    Engine,
    Field,
    Memory,
    Opcode,
    acc_bits,
    act_bits,
    core_bits,
    instruction_width,
    others,
    prm_bits,
    segment_bits,
    sram_bits,
    table_bits,
    uop_alu_bits,
    uop_gemm_bits,
    uop_width,
    vector_bits,
    wgt_bits,
)
from tilewright.isa.verify.errors import Rule
from tilewright.pages import write

PAGE = "isa.md"
_WIDTHS = (
    (act_bits, "log2 of the units of act"),
    (acc_bits, "log2 of the units of acc"),
    (wgt_bits, "log2 of the entries of wgt"),
    (prm_bits, "log2 of `prm_entries`"),
    (uop_gemm_bits, "log2 of the micro-ops that GEMM's memory holds"),
    (uop_alu_bits, "log2 of the micro-ops that ALU's memory holds"),
    (table_bits, "log2 of the entries of all tables"),
    (sram_bits, "the greatest of the above"),
    (vector_bits, "the greater of act_bits and acc_bits"),
    (segment_bits, "log2 of `segments`"),
    (core_bits, f"{MOST_CORES}, a bit for each core; none of one core alone"),
)

_ENUMS: tuple[tuple[str, type[IntEnum]], ...] = (
    ("opcode", Opcode),
    ("engine", Engine),
    ("memory", Memory),
    ("function", AluOp),
    ("combine", Combine),
    ("rounding", Rounding),
)


def blocks() -> dict[str, list[str]]:
    """What of the page is generated, by name, as lines of Markdown."""
    config = PRESETS[DEFAULT_CONFIG]
    found: dict[str, Iterable[str]] = {
        "config": [f"Numbers are for the default config, `{config.name}`; widths of others follow the rules given."],
        "memories": _memories(config),
        "tokens": _tokens(),
        "encoding": _encoding(config),
    }
    for fmt in FORMATS:
        engine = fmt.engine.name if fmt.engine is not None else "the one it names"
        found[fmt.opcode.name] = [f"{fmt.doc} Engine: {engine}."]
        found[f"{fmt.opcode.name}, fields"] = [
            *_entries(fmt.opcode), *_fields(fmt.fields, config, sum(f.bits(config) for f in HEADER)),
        ]  # fmt: skip
    found["micro-ops"] = _micro_ops(config)
    found["rules"] = [
        "| rule | what must hold |", "|---|---|", *(f"| `{rule}` | {rule.doc} |" for rule in Rule),
    ]  # fmt: skip
    return {name: list(lines) for name, lines in found.items()}


def _memories(config: Config) -> Iterator[str]:
    yield "| memory | unit or entry | bytes in DRAM | depth | banks | written by | read by |"
    yield "|---|---|---|---|---|---|---|"
    for memory in dict.fromkeys(m.memory for m in MEMORIES.values()):
        m = MEMORIES[memory]
        writers, readers = (", ".join(engine.name for engine in engines) for engines in (m.writers, m.readers))
        size, depth, banks = m.entry_bytes(config), m.depth(config), m.banks(config)
        yield f"| {memory.name} | {m.content} | {size} | {depth} | {banks} | {writers} | {readers} |"


def _tokens() -> Iterator[str]:
    yield "| engine | bit 0 | bit 1 | bit 2 |"
    yield "|---|---|---|---|"
    for engine in Engine:
        yield f"| {engine.name} | " + " | ".join(other.name for other in others(engine)) + " |"


def _encoding(config: Config) -> Iterator[str]:
    widest = max(sum(f.bits(config) for f in (*HEADER, *fmt.fields)) for fmt in FORMATS)
    yield f"An instruction has {instruction_width(config)} bits ({widest} used). A field of w bits holds 0 to 2^w - 1,"
    yield "a *count* 1 to 2^w, stored minus one, a *signed* field -2^(w-1) to 2^(w-1) - 1, or an enumeration. Header:\n"
    yield from _fields(HEADER, config, 0)
    yield "\nWidths that depend on the config (each at least 1, core_bits excepted):\n"
    yield "| width | rule | bits |"
    yield "|---|---|---|"
    for width, rule in _WIDTHS:
        yield f"| {width.__name__} | {rule} | {width(config)} |"
    yield f"\nFixed: loop counts {LOOP_BITS} bits, DRAM offsets {OFFSET_BITS}, row strides {STRIDE_BITS}.\n"
    yield "Values of the enumerations:\n"
    yield "| field | values |"
    yield "|---|---|"
    for name, enum in _ENUMS:
        yield f"| {name} | {_members(enum)} |"


def _members(enum: type[IntEnum]) -> str:
    return ", ".join(f"{member.value} {member.name}" for member in enum)


def _entries(opcode: Opcode) -> Iterator[str]:
    """What an opcode's functions or rounding modes mean."""
    if opcode in (Opcode.ALU, Opcode.RESCALE):
        function: type[Function] = AluOp if opcode == Opcode.ALU else Combine
        yield f"| {'function' if opcode == Opcode.ALU else 'combine'} | `acc[d]` becomes | |"
        yield "|---|---|---|"
        yield from (f"| {f.name} | `{written(f.meaning)}` | {f.doc} |" for f in function)
        yield ""
    if opcode == Opcode.REQUANTIZE:
        yield "| rounding | nudge | ties | |"
        yield "|---|---|---|---|"
        for r in Rounding:
            nudge = (
                "does not scale | " if r.nudge is None else f"`{written(r.nudge)}` | {'to even' if r.to_even else 'up'}"
            )
            yield f"| {r.name} | {nudge} | {r.doc} |"
        yield ""


def _fields(fields: tuple[Field, ...], config: Config, position: int) -> Iterator[str]:
    yield "| field | bits | width | values | meaning |"
    yield "|---|---|---|---|---|"
    for field in fields:
        bits = field.bits(config)
        place = f"{position + bits - 1}:{position}" if bits > 1 else str(position) if bits else "none"
        width = str(field.width) if isinstance(field.width, int) else field.width.__name__
        values = field.enum.__name__ if field.enum else "count" if field.minus_one else "signed" if field.signed else ""
        yield f"| {field.name} | {place} | {width} | {values} | {field.doc} |"
        position += bits


def _micro_ops(config: Config) -> Iterator[str]:
    for engine, fields in UOP_FIELDS.items():
        used = sum(f.bits(config) for f in fields)
        yield f"### {engine.name}: {uop_width(config, engine)} bits ({used} used)\n"
        yield from _fields(fields, config, 0)
        yield ""


if __name__ == "__main__":
    write(PAGE, blocks())
