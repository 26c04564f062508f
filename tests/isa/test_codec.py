"""Encode and decode: round trips over random configs and every format, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.isa.strategies import any_config, instructions, uops
from tilewright.config import PRESETS, Config
from tilewright.isa.codec import (
    EncodingError,
    Instruction,
    decode,
    decode_table,
    decode_uops,
    encode,
    encode_uops,
    rows_of,
    with_tokens,
)
from tilewright.isa.spec import (
    FORMAT_OF,
    FORMATS,
    HEADER,
    UOP_FIELDS,
    Engine,
    Opcode,
    instruction_width,
    others,
    token_bit,
    uop_width,
)

DEFAULT = PRESETS["pynq-z2"]


@pytest.mark.parametrize("opcode", list(Opcode))
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_every_format_round_trips_on_any_config(opcode: Opcode, data: st.DataObject) -> None:
    config = data.draw(any_config())
    made = data.draw(st.lists(instructions(config, opcode), min_size=1, max_size=4))
    encoded = encode(made, config)
    assert len(encoded) == len(made) * instruction_width(config) // 8
    assert decode(encoded, config) == made
    assert encode(decode(encoded, config), config) == encoded
    table = decode_table(encoded, config)
    for row, instruction in zip(rows_of(table), made):
        expected = {**instruction.fields, "opcode": int(opcode), "engine": int(instruction.engine)}
        values = row._asdict()
        assert {name: values[name] for name in values if name in expected} == expected
        assert all(value == 0 for name, value in values.items() if name not in expected)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_mixed_programs_round_trip(data: st.DataObject) -> None:
    config = data.draw(any_config())
    made = data.draw(st.lists(instructions(config), max_size=12))
    assert decode(encode(made, config), config) == made


@pytest.mark.parametrize("engine", [Engine.GEMM, Engine.ALU])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_micro_ops_round_trip_on_any_config(engine: Engine, data: st.DataObject) -> None:
    config = data.draw(any_config())
    made = data.draw(st.lists(uops(config, engine), max_size=10))
    encoded = encode_uops(made, engine, config)
    assert len(encoded) == len(made) * uop_width(config, engine) // 8
    names = [f.name for f in UOP_FIELDS[engine]]
    assert [dict(zip(names, row)) for row in decode_uops(encoded, engine, config).tolist()] == made


@given(config=any_config())
@settings(max_examples=40, deadline=None)
def test_instruction_width_is_the_least_that_holds_every_format(config: Config) -> None:
    widest = max(sum(f.bits(config) for f in (*HEADER, *fmt.fields)) for fmt in FORMATS)
    assert widest <= instruction_width(config) < widest + 64
    assert instruction_width(config) % 64 == 0


def test_encoding_is_pinned() -> None:
    """Bits, by hand: a change of the encoding is deliberate, and bumps the container's version."""
    gemm = Instruction(Opcode.WAIT, {"engine": 2, "cycles": 5, "pop": 0b101, "push": 0b010, "trace": 1})
    word = 7 | 0b101 << 3 | 0b010 << 6 | 1 << 9 | 2 << 10 | (5 - 1) << 12
    assert encode([gemm], DEFAULT) == word.to_bytes(24, "little")
    fill = Instruction(Opcode.FILL, {"value": -1, "rows": 2})
    fields = FORMAT_OF[Opcode.FILL].fields
    before = sum(f.bits(DEFAULT) for f in (*HEADER, *fields[: [f.name for f in fields].index("rows")]))
    total = sum(f.bits(DEFAULT) for f in (*HEADER, *fields))
    assert int.from_bytes(encode([fill], DEFAULT), "little") == 1 | 1 << before | 0xFFFFFFFF << (total - 32)


@pytest.mark.parametrize("opcode", list(Opcode))
def test_values_out_of_range_are_refused_with_the_range(opcode: Opcode) -> None:
    for field in (*HEADER[1:], *FORMAT_OF[opcode].fields):
        low, high = field.bounds(DEFAULT)
        for value in (low - 1, high + 1):
            with pytest.raises(EncodingError) as caught:
                encode([Instruction(Opcode.WAIT), Instruction(opcode, {field.name: value})], DEFAULT)
            assert str(caught.value) == (
                f"instruction 1 ({opcode.name}): {field.name} = {value}: must be from {low} to {high} on pynq-z2"
            )


@pytest.mark.parametrize("engine", [Engine.GEMM, Engine.ALU])
def test_micro_op_values_out_of_range_are_refused(engine: Engine) -> None:
    for field in UOP_FIELDS[engine]:
        low, high = field.bounds(DEFAULT)
        for value in (low - 1, high + 1):
            with pytest.raises(EncodingError, match=f"{engine.name} micro-op 1: {field.name} = {value}: must be from"):
                encode_uops([{}, {field.name: value}], engine, DEFAULT)


def test_numbers_of_any_type_encode_alike() -> None:
    """NumPy's integers would overflow in words wider than theirs."""
    fields = {"rows": 3, "cols": 5, "value": -7, "sram": 1000, "wrap_size": 4096, "push": 5}
    wide: dict[str, Any] = {name: np.int64(value) for name, value in fields.items()}
    assert encode([Instruction(Opcode.FILL, wide)], DEFAULT) == encode([Instruction(Opcode.FILL, fields)], DEFAULT)
    assert decode(encode([Instruction(Opcode.FILL, wide)], DEFAULT), DEFAULT)[0]["rows"] == 3


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_tokens_put_in_afterwards_are_those_encoded_at_once(data: st.DataObject) -> None:
    config = data.draw(any_config())
    made = data.draw(st.lists(instructions(config), min_size=1, max_size=6))
    bare = [Instruction(i.opcode, {k: v for k, v in i.fields.items() if k not in ("pop", "push")}) for i in made]
    pops, pushes = ([i[name] for i in made] for name in ("pop", "push"))
    words = with_tokens(encode(bare, config), pops, pushes, config)
    assert words.shape == (len(made), instruction_width(config) // 64)
    assert words.tobytes() == encode(made, config)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(
        EncodingError, match=r"instruction 0 \(WAIT\): no field 'rows'; it has pop, push, trace, engine"
    ):
        encode([Instruction(Opcode.WAIT, {"rows": 1})], DEFAULT)
    with pytest.raises(EncodingError, match="no field 'opcode'"):
        encode([Instruction(Opcode.WAIT, {"opcode": 1})], DEFAULT)
    with pytest.raises(EncodingError, match="GEMM micro-op 0: no field 'prm'; it has accumulate, dst, src, wgt"):
        encode_uops([{"prm": 1}], Engine.GEMM, DEFAULT)


@pytest.mark.parametrize("opcode", list(Opcode))
def test_every_bit_above_the_fields_is_refused(opcode: Opcode) -> None:
    for config in (DEFAULT, PRESETS["tiny"], PRESETS["zcu104"]):
        used = sum(f.bits(config) for f in (*HEADER, *FORMAT_OF[opcode].fields))
        plain = int.from_bytes(encode([Instruction(opcode)], config), "little")
        size = instruction_width(config) // 8
        for bit in range(used, 8 * size):
            dirty = (plain | 1 << bit).to_bytes(size, "little")
            with pytest.raises(EncodingError, match=rf"instruction 1 \({opcode.name}\): bits set above its fields"):
                decode(encode([Instruction(opcode)], config) + dirty, config)


def test_undefined_enum_values_are_refused() -> None:
    refused = set()
    for fmt in FORMATS:
        position = sum(f.bits(DEFAULT) for f in HEADER)
        for field in fmt.fields:
            if field.enum is not None:
                for value in range(max(field.enum) + 1, 1 << field.bits(DEFAULT)):
                    with pytest.raises(
                        EncodingError, match=rf"\({fmt.opcode.name}\): {field.name} = {value} is undefined"
                    ):
                        decode((int(fmt.opcode) | value << position).to_bytes(24, "little"), DEFAULT)
                    refused.add((fmt.opcode, field.name, value))
            position += field.bits(DEFAULT)
    assert {(Opcode.ALU, "function", 6), (Opcode.ALU, "function", 7)} <= refused


def test_partial_instructions_and_micro_ops_are_refused() -> None:
    with pytest.raises(EncodingError, match="program of 25 bytes is not a whole number of 24-byte instructions"):
        decode(bytes(25), DEFAULT)
    with pytest.raises(EncodingError, match="7 bytes are not a whole number of 8-byte GEMM micro-ops"):
        decode_uops(bytes(7), Engine.GEMM, DEFAULT)
    assert decode(b"", DEFAULT) == []
    assert decode_uops(b"", Engine.ALU, DEFAULT).shape == (0, 3)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_decodes_encodes_to_the_same_bytes(data: st.DataObject) -> None:
    config = data.draw(any_config())
    raw = data.draw(st.binary(min_size=instruction_width(config) // 8, max_size=instruction_width(config) // 8))
    opcode = Opcode(raw[0] & 7)
    used = sum(f.bits(config) for f in (*HEADER, *FORMAT_OF[opcode].fields))
    word = int.from_bytes(raw, "little") & ((1 << used) - 1)
    clean = word.to_bytes(len(raw), "little")
    try:
        decoded = decode(clean, config)
    except EncodingError:  # an undefined enum value
        reject()
    assert encode(decoded, config) == clean


def test_defaults_and_engines() -> None:
    assert Instruction(Opcode.LOAD)["rows"] == 1
    assert Instruction(Opcode.LOAD)["sram"] == 0
    assert Instruction(Opcode.FILL).engine == Engine.LOAD
    assert Instruction(Opcode.RESCALE).engine == Engine.ALU
    assert Instruction(Opcode.WAIT, {"engine": 3}).engine == Engine.STORE
    with pytest.raises(KeyError):
        Instruction(Opcode.WAIT)["rows"]
    assert np.array_equal(decode_table(encode([Instruction(Opcode.GEMM)], DEFAULT), DEFAULT)["outer"], [1])


def test_token_bits_stand_for_the_other_engines_in_order() -> None:
    for engine in Engine:
        assert [token_bit(engine, other) for other in others(engine)] == [1, 2, 4]
        assert engine not in others(engine)
    with pytest.raises(ValueError, match="not in tuple"):
        token_bit(Engine.GEMM, Engine.GEMM)
