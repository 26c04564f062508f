"""Encode and decode instructions and micro-ops, driven by the declaration in :mod:`tilewright.isa.spec`.

Instructions are little-endian, fields least significant bit first: header, then the format's fields, zeros
above. Many instructions at once decode into one table with a column per field name, which is what the simulator and
the verifier read.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.spec import (
    FORMAT_OF,
    FORMATS,
    HEADER,
    UOP_FIELDS,
    Engine,
    Field,
    Fields,
    Opcode,
    instruction_width,
    uop_width,
)


class EncodingError(TilewrightError):
    """A field is unknown, missing or out of range, or bits do not decode; names the field and its range."""


#: every field name of every format; "engine" is filled in for all opcodes
NAMES: tuple[str, ...] = tuple(dict.fromkeys(f.name for fmt in FORMATS for f in (*HEADER, *fmt.fields)))
#: fields that say what kind of instruction it is, not where or how much; all that conditions on fields ask for
MODES = ("opcode", *dict.fromkeys(f.name for fmt in FORMATS for f in fmt.fields if f.enum is not None or f.width == 1))
ROW = np.dtype([(name, np.int64) for name in NAMES])
Table = NDArray[np.void]  #: of :data:`ROW`; ``table["outer"]`` is a column, ``table[3]["outer"]`` a number
_Fields: Any = namedtuple("_Fields", NAMES)  # type: ignore[misc]


@dataclass(frozen=True)
class Instruction:
    """One instruction as named fields; what is not given is 0 (1 for counts)."""

    opcode: Opcode
    fields: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        """The value of a field, or its default."""
        if name == "opcode":
            return int(self.opcode)
        if name in self.fields:
            return int(self.fields[name])
        return _default(_field_map(self.opcode)[name])

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        fixed = FORMAT_OF[self.opcode].engine
        return Engine(self["engine"]) if fixed is None else fixed

    @property
    def row(self) -> Fields:
        """All fields as attributes, as in a decoded row: what its format lacks is 0."""
        return _Fields._make({**_DEFAULTS[self.opcode], **self.fields}.values())


def _default(spec: Field) -> int:
    return 1 if spec.minus_one else 0


def _layout(opcode: Opcode) -> tuple[Field, ...]:
    return HEADER + FORMAT_OF[opcode].fields


_FIELD_MAPS = {op: {f.name: f for f in _layout(op)} for op in Opcode}
_DEFAULTS: dict[Opcode, dict[str, int]] = {
    op: dict.fromkeys(NAMES, 0)
    | {f.name: _default(f) for f in _layout(op)}
    | {"opcode": int(op), "engine": int(FORMAT_OF[op].engine or 0)}
    for op in Opcode
}


class _Slot(NamedTuple):
    """A field for one Config: widths are functions, and encoding and decoding ask for them all the time."""

    name: str
    default: int
    low: int
    high: int
    bits: int
    base: int  #: the value that is stored as 0


def _slots(layout: Iterable[Field], config: Config) -> tuple[_Slot, ...]:
    return tuple(_Slot(f.name, _default(f), *f.bounds(config), f.bits(config), int(f.minus_one)) for f in layout)


@lru_cache(maxsize=64)
def _instruction_slots(config: Config) -> dict[Opcode, tuple[_Slot, ...]]:
    return {op: _slots(_layout(op), config) for op in Opcode}


class _Position(NamedTuple):
    """Where a field lies. Fields that are not given have their default, which is stored as 0."""

    position: int
    mask: int
    low: int
    high: int
    base: int


@lru_cache(maxsize=64)
def _places(config: Config) -> dict[Opcode, dict[str, _Position]]:
    result: dict[Opcode, dict[str, _Position]] = {}
    for opcode, slots in _instruction_slots(config).items():
        position, found = 0, {}
        for slot in slots:
            if slot.default != slot.base:
                raise AssertionError(f"{slot.name}: its default is not what a zero in its place means")
            found[slot.name] = _Position(position, (1 << slot.bits) - 1, slot.low, slot.high, slot.base)
            position += slot.bits
        result[opcode] = {name: place for name, place in found.items() if name != "opcode"}
    return result


@lru_cache(maxsize=128)
def _uop_slots(config: Config, engine: Engine) -> tuple[_Slot, ...]:
    return _slots(UOP_FIELDS[engine], config)


def _field_map(opcode: Opcode) -> dict[str, Field]:
    return _FIELD_MAPS[opcode]


def _pack(values: Mapping[str, int], slots: Iterable[_Slot], config: Config, what: str) -> int:
    word, position = 0, 0
    for name, default, low, high, bits, base in slots:
        value = int(values.get(name, default))
        if not low <= value <= high:
            raise EncodingError(f"{what}: {name} = {value}: must be from {low} to {high} on {config.name}")
        word |= ((value - base) & ((1 << bits) - 1)) << position
        position += bits
    return word


def encode(instructions: Sequence[Instruction], config: Config) -> bytes:
    """The bytes of a program. Raises :class:`EncodingError` naming instruction, field, value and range."""
    size, slots, places = instruction_width(config) // 8, _instruction_slots(config), _places(config)
    out = bytearray()
    for index, instruction in enumerate(instructions):
        word, where = int(instruction.opcode), places[instruction.opcode]
        for name, value in instruction.fields.items():
            place, number = where.get(name), int(value)
            if place is None or not place.low <= number <= place.high:
                break
            word |= ((number - place.base) & place.mask) << place.position
        else:
            out += word.to_bytes(size, "little")
            continue
        # something is wrong with it: say what
        what = f"instruction {index} ({instruction.opcode.name})"
        known = _field_map(instruction.opcode)
        for name in instruction.fields:
            if name not in known or name == "opcode":
                raise EncodingError(f"{what}: no field {name!r}; it has {', '.join(list(known)[1:])}")
        values = {**instruction.fields, "opcode": int(instruction.opcode)}
        out += _pack(values, slots[instruction.opcode], config, what).to_bytes(size, "little")
    return bytes(out)


def with_tokens(code: bytes, pops: ArrayLike, pushes: ArrayLike, config: Config) -> NDArray[np.uint64]:
    """A program whose instructions have no tokens, with the tokens that each pops and pushes: a row for each."""
    words = np.frombuffer(code, "<u8").reshape(-1, instruction_width(config) // 64).copy()
    for name, tokens in (("pop", pops), ("push", pushes)):
        position = np.uint64(_places(config)[Opcode.WAIT][name].position)
        words[:, 0] |= np.asarray(tokens, np.uint64) << position
    return words


def _extract(words: NDArray[np.uint64], position: int, spec: Field, bits: int) -> NDArray[np.int64]:
    index, shift = divmod(position, 64)
    value = words[:, index] >> np.uint64(shift)
    if shift + bits > 64:
        value = value | (words[:, index + 1] << np.uint64(64 - shift))
    result = (value & np.uint64((1 << bits) - 1)).astype(np.int64)
    if spec.signed:
        result = np.where(result >> (bits - 1), result - (1 << bits), result)
    return result + 1 if spec.minus_one else result


def decode_table(data: bytes, config: Config) -> Table:
    """Decode a program to a table with a row per instruction.

    Fields that a format lacks are 0; the ``engine`` column is set for every opcode. Raises
    :class:`EncodingError` on a length that is no whole number of instructions, on an enum value that does
    not exist, and on bits set above the fields.
    """
    size = instruction_width(config) // 8
    if len(data) % size:
        raise EncodingError(f"program of {len(data)} bytes is not a whole number of {size}-byte instructions")
    words = np.frombuffer(data, dtype="<u8").reshape(-1, size // 8).astype(np.uint64)
    table = np.zeros(len(words), ROW)
    opcodes = _extract(words, 0, HEADER[0], HEADER[0].bits(config))
    for fmt in FORMATS:
        rows = np.nonzero(opcodes == fmt.opcode)[0]
        if rows.size == 0:
            continue
        selected, position = words[rows], 0
        for spec, slot in zip(_layout(fmt.opcode), _instruction_slots(config)[fmt.opcode]):
            values = _extract(selected, position, spec, slot.bits)
            if spec.enum is not None and values.size and values.max() > max(spec.enum):
                bad = rows[int(np.argmax(values > max(spec.enum)))]
                raise EncodingError(f"instruction {bad} ({fmt.opcode.name}): {spec.name} = {values.max()} is undefined")
            table[spec.name][rows] = values
            position += slot.bits
        _reject_high_bits(selected, rows, position, fmt.opcode)
        if fmt.engine is not None:
            table["engine"][rows] = fmt.engine
    return table


def rows_of(table: Table) -> Iterator[Fields]:
    """The rows of a decoded table as plain numbers."""
    return map(_Fields._make, np.ascontiguousarray(table).view(np.int64).reshape(-1, len(NAMES)).tolist())


def columns_of(table: Table) -> Fields:
    """The columns of a decoded table."""
    return _Fields(*(table[name] for name in NAMES))


def _reject_high_bits(words: NDArray[np.uint64], rows: NDArray[np.intp], position: int, opcode: Opcode) -> None:
    index, shift = divmod(position, 64)
    if index >= words.shape[1]:
        return
    dirty = (words[:, index] >> np.uint64(shift)) != 0
    if index + 1 < words.shape[1]:
        dirty |= (words[:, index + 1 :] != 0).any(axis=1)
    if dirty.any():
        raise EncodingError(f"instruction {rows[int(np.argmax(dirty))]} ({opcode.name}): bits set above its fields")


def decode(data: bytes, config: Config) -> list[Instruction]:
    """Decode a program to :class:`Instruction` objects holding every field of their format."""
    result = []
    for row in rows_of(decode_table(data, config)):
        opcode = Opcode(row.opcode)
        fields = {f.name: getattr(row, f.name) for f in _layout(opcode) if f.name != "opcode"}
        result.append(Instruction(opcode, fields))
    return result


def encode_uops(uops: Sequence[Mapping[str, int]], engine: Engine, config: Config) -> bytes:
    """The bytes of micro-ops of GEMM or ALU, each given as named fields."""
    size = uop_width(config, engine) // 8
    slots = _uop_slots(config, engine)
    names = {slot.name for slot in slots}
    out = bytearray()
    for index, uop in enumerate(uops):
        what = f"{engine.name} micro-op {index}"
        if unknown := set(uop) - names:
            raise EncodingError(f"{what}: no field {sorted(unknown)[0]!r}; it has {', '.join(sorted(names))}")
        out += _pack(uop, slots, config, what).to_bytes(size, "little")
    return bytes(out)


def decode_uops(data: bytes, engine: Engine, config: Config) -> NDArray[np.int64]:
    """Decode micro-ops to an int64 array (n, fields), columns in the order of ``UOP_FIELDS[engine]``."""
    size = uop_width(config, engine) // 8
    if len(data) % size:
        raise EncodingError(f"{len(data)} bytes are not a whole number of {size}-byte {engine.name} micro-ops")
    words = np.frombuffer(data, dtype=f"<u{size}").astype(np.uint64).reshape(-1, 1)
    columns, position = [], 0
    for spec in UOP_FIELDS[engine]:
        bits = spec.bits(config)
        columns.append(_extract(words, position, spec, bits))
        position += bits
    return np.stack(columns, axis=1) if len(words) else np.zeros((0, len(columns)), np.int64)


def pack_integers(values: NDArray[np.integer], bits: int) -> bytes:
    """Signed integers of 2, 4 or 8 bits as wgt holds them: little-endian, low bits first."""
    per_byte = 8 // bits
    fields = (values.reshape(-1, per_byte).astype(np.int64) & ((1 << bits) - 1)) << (bits * np.arange(per_byte))
    return fields.sum(axis=1).astype(np.uint8).tobytes()
