"""The program container: round trip, and no damage goes unnoticed."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.build import compute
from tilewright.config import PRESETS
from tilewright.isa.container import FORMAT_VERSION, MAGIC, ContainerError, dump, load
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import instruction_width


def _program() -> Program:
    b = compute()
    b.gemm()
    made = b.program()
    noise = np.random.default_rng(0).bytes(64)
    segments = (*made.segments, Segment("noise", "constant", 64, noise, 8192), Segment("empty", "constant", 64, b""))
    meta = {"layers": [{"name": "conv é", "macs": 12}], "instruction_layer": [0, -1], "floor": 1.5, "none": None}
    return Program(made.config, made.instructions, segments, meta)


PROGRAM = _program()
DATA = dump(PROGRAM)


def _sealed(body: bytes, version: int = FORMAT_VERSION) -> bytes:
    content = struct.pack("<8sIQ", MAGIC, version, len(body)) + body
    return content + hashlib.sha256(content).digest()


def _with_header(**changes: object) -> bytes:
    """The container with some header entries replaced, under a right checksum."""
    body = DATA[20:-32]
    (length,) = struct.unpack_from("<I", body)
    header = {**json.loads(body[4 : 4 + length]), **changes}
    text = json.dumps(header).encode()
    return _sealed(struct.pack("<I", len(text)) + text + body[4 + length :])


def test_round_trip() -> None:
    assert load(DATA) == PROGRAM
    assert dump(load(DATA)) == DATA
    assert load(DATA).segments[-1].data == b""
    assert load(DATA).segments[1].data is None


@given(
    preset=st.sampled_from(sorted(PRESETS)),
    segments=st.lists(
        st.builds(
            Segment,
            st.text(max_size=8),
            st.sampled_from(["constant", "input", "output", "scratch"]),
            st.integers(0, 1 << 30),
            st.none() | st.binary(max_size=200),
            st.integers(0, 1 << 20),
        ),
        max_size=8,
    ),
    instructions=st.integers(0, 6),
    meta=st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())),
)
@settings(max_examples=60, deadline=None)
def test_round_trip_of_anything(
    preset: str, segments: list[Segment], instructions: int, meta: dict[str, object]
) -> None:
    size = instruction_width(PRESETS[preset]) // 8
    program = Program(PRESETS[preset], bytes(range(size)) * instructions, tuple(segments), meta)
    assert load(dump(program)) == program


def test_every_corrupt_byte_is_rejected() -> None:
    rng = np.random.default_rng(1)
    for position in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[position] ^= int(rng.integers(1, 256))
        with pytest.raises(ContainerError) as caught:
            load(bytes(damaged), "p.twp")
        assert str(caught.value).startswith("p.twp: ")
        assert "\n" not in str(caught.value)


def test_every_truncation_is_rejected() -> None:
    for length in range(len(DATA)):
        with pytest.raises(ContainerError, match=r"truncated: (only )?\d+.*again"):
            load(DATA[:length])


def test_what_follows_is_rejected() -> None:
    with pytest.raises(ContainerError, match="corrupt"):
        load(DATA + b"\0")


def test_other_files_are_named_as_such() -> None:
    with pytest.raises(ContainerError, match="^weights.npy: not a Tilewright program"):
        load(b"\x93NUMPY" + bytes(100), "weights.npy")
    with pytest.raises(ContainerError, match="truncated"):
        load(b"")


def test_other_versions_say_so() -> None:
    with pytest.raises(ContainerError, match=f"format version 9, this Tilewright reads {FORMAT_VERSION}; compile"):
        load(_sealed(DATA[20:-32], version=9))


def _header() -> dict[str, Any]:
    (length,) = struct.unpack_from("<I", DATA, 20)
    header: dict[str, Any] = json.loads(DATA[24 : 24 + length])
    return header


@pytest.mark.parametrize(
    "changes,match",
    [
        ({"config": {**PROGRAM.config.to_dict(), "batch": 3}}, "config is not valid here: batch = 3"),
        ({"config": {**PROGRAM.config.to_dict(), "turbo": 3}}, "turbo: no such parameter"),
        ({"config": {**PROGRAM.config.to_dict(), "batch": 2}}, "fingerprint"),
        ({"fingerprint": "0" * 16}, "fingerprint 0000000000000000, but"),
        ({"instructions": {"encoding": "raw", "size": 1, "stored": 1}}, "not whole instructions"),
        ({"instructions": {"encoding": "raw", "size": 1 << 40, "stored": 1 << 40}}, "outside the file"),
        ({"instructions": {"encoding": "lzma", "size": 4, "stored": 4}}, "encoding 'lzma'"),
        ({"instructions": {}}, "KeyError"),
        ({"segments": 3}, "TypeError"),
        ({"segments": []}, "too many"),
        ({"segments": [{"name": "a", "kind": "heap", "size": 0, "repeat_stride": 0, "data": None}]}, "heap"),
        ({"segments": [{"name": "a", "kind": "input", "size": -1, "repeat_stride": 0, "data": None}]}, "-1"),
        ({"meta": []}, "meta is not an object"),
    ],
)
def test_wrong_content_under_a_right_checksum(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ContainerError, match=match) as caught:
        load(_with_header(**changes))
    assert "\n" not in str(caught.value)


def test_a_blob_cannot_unpack_beyond_its_size() -> None:
    instructions = {**_header()["instructions"], "size": 16}
    assert instructions["encoding"] == "zlib"
    with pytest.raises(ContainerError, match="a blob has 17 bytes, not 16"):
        load(_with_header(instructions=instructions))


def test_header_that_is_no_json() -> None:
    with pytest.raises(ContainerError, match="content is not"):
        load(_sealed(struct.pack("<I", 3) + b"{]}"))
    with pytest.raises(ContainerError, match="content is not"):
        load(_sealed(b""))


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x"])
def test_meta_must_be_json(value: object) -> None:
    with pytest.raises(ContainerError, match="meta: cannot be written as JSON"):
        dump(Program(PROGRAM.config, b"", (), {"x": value}))
