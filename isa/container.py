"""The program container: one program as one checked file (``.twp``).

Layout, little-endian::

    magic    8 bytes   b"TWPROG\\r\\n"
    version  u32       FORMAT_VERSION
    length   u64       bytes of the body
    body:    u32 header length, header (JSON, UTF-8), then the blobs one after another
    sha256   32 bytes  of everything before it

The header holds the Config with its fingerprint, the segment table, ``meta``, and for the instructions and each
segment's data a blob description: stored bytes, encoding (``raw`` or ``zlib``), size when decoded. Loading
executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any

from tilewright.config import Config, ConfigError
from tilewright.errors import TilewrightError
from tilewright.isa.program import Program, Segment, SegmentKind
from tilewright.isa.spec import instruction_width
from tilewright.schema import Count, SchemaError, conform, read_json, shown

MAGIC = b"TWPROG\r\n"
FORMAT_VERSION = 2
_PREFIX = struct.Struct("<8sIQ")
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_ZLIB_LEVEL = 6
_ZLIB_SHARE = 3 / 4  #: of the size, at most, that compressing must leave: a board decodes at the cost of a checksum


class ContainerError(TilewrightError):
    """The bytes are no program, are damaged, or are of another version; one line with the way out."""


def dump(program: Program) -> bytes:
    """The container of a program. Equal programs give equal bytes."""
    blobs: list[bytes] = []

    def describe(data: bytes) -> dict[str, Any]:
        packed = zlib.compress(data, _ZLIB_LEVEL)
        encoding, stored = ("zlib", packed) if len(packed) <= _ZLIB_SHARE * len(data) else ("raw", data)
        blobs.append(stored)
        return {"encoding": encoding, "size": len(data), "stored": len(stored)}

    header = {
        "config": program.config.to_dict(),
        "fingerprint": program.config.fingerprint,
        "instructions": describe(program.instructions),
        "segments": [
            {
                "name": s.name,
                "kind": s.kind,
                "size": s.size,
                "repeat_stride": s.repeat_stride,
                "data": None if s.data is None else describe(s.data),
            }
            for s in program.segments
        ],
        "meta": program.meta,
    }
    try:
        text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ContainerError(
            f"meta: cannot be written as JSON: {error}; use plain numbers, text, lists, dicts"
        ) from error
    body = _LENGTH.pack(len(text)) + text + b"".join(blobs)
    content = _PREFIX.pack(MAGIC, FORMAT_VERSION, len(body)) + body
    return content + hashlib.sha256(content).digest()


def load(
    data: bytes | memoryview, source: str = "program", most_bytes: int | None = None, *, intact: bool = False
) -> Program:
    """The program of a container; ``source`` names the file in error messages.

    ``most_bytes`` bounds the decoded bytes, for containers from afar: compressed ones can be far smaller than they say.
    ``intact``: another checksum has covered the bytes, so that theirs need not be computed.
    Raises :class:`ContainerError` on anything but an undamaged container of this format version.
    """
    body = _checked_body(memoryview(data), source, intact)
    try:
        length = _LENGTH.unpack_from(body)[0]
        header = read_json(bytes(body[_LENGTH.size : _LENGTH.size + length]))
        return _Reader(body[_LENGTH.size + length :], source, most_bytes).program(header)
    except ContainerError:
        raise
    except ConfigError as error:
        raise ContainerError(f"{source}: its config is not valid here: {error}; compile the program again") from error
    except SchemaError as error:
        raise _malformed(source, str(error)) from error
    except MemoryError as error:
        raise _malformed(source, "what it holds does not fit into memory") from error
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, zlib.error, RecursionError) as error:
        raise _malformed(source, f"{type(error).__name__}: {error}") from error


def _malformed(source: str, what: str) -> ContainerError:
    return ContainerError(f"{source}: checksum is right but the content is not ({what}); compile the program again")


def _checked_body(data: memoryview, source: str, intact: bool) -> memoryview:
    if data[: len(MAGIC)] != MAGIC:
        if MAGIC.startswith(bytes(data[: len(MAGIC)])):
            raise ContainerError(f"{source}: truncated: only {len(data)} bytes; copy or compile it again")
        raise ContainerError(f"{source}: not a Tilewright program (.twp); make one with 'tilewright asm'")
    if len(data) < _PREFIX.size:
        raise ContainerError(f"{source}: truncated: only {len(data)} bytes; copy or compile it again")
    _, version, length = _PREFIX.unpack_from(data)
    intact = intact or hashlib.sha256(data[:-_DIGEST]).digest() == data[-_DIGEST:]
    if version != FORMAT_VERSION and intact:
        raise ContainerError(
            f"{source}: program format version {version}, this Tilewright reads {FORMAT_VERSION}; "
            f"compile the program again, or use the Tilewright that wrote it"
        )
    expected = _PREFIX.size + length + _DIGEST
    if version == FORMAT_VERSION and len(data) < expected:
        raise ContainerError(f"{source}: truncated: {len(data)} of {expected} bytes; copy or compile it again")
    if not intact or len(data) != expected:
        raise ContainerError(f"{source}: corrupt: the checksum does not match; copy or compile it again")
    return data[_PREFIX.size : -_DIGEST]


class _Reader:
    """Takes the blobs in the order in which the header lists them."""

    def __init__(self, blobs: memoryview, source: str, most_bytes: int | None) -> None:
        self._blobs, self._source, self._position, self._room = blobs, source, 0, most_bytes

    def program(self, header: dict[str, Any]) -> Program:
        config = Config.from_dict(header["config"])
        if config.fingerprint != header["fingerprint"]:
            raise ContainerError(
                f"{self._source}: its config has fingerprint {header['fingerprint']}, but {config.fingerprint} here: "
                f"written by a Tilewright with other parameters; compile the program again"
            )
        instructions = self._blob(header["instructions"])
        if len(instructions) * 8 % instruction_width(config):
            raise _malformed(self._source, f"{len(instructions)} bytes are not whole instructions")
        segments = tuple(self._segment(values) for values in header["segments"])
        if self._position != len(self._blobs):
            raise _malformed(self._source, f"{len(self._blobs) - self._position} bytes too many")
        meta = header["meta"]
        if not isinstance(meta, dict):
            raise _malformed(self._source, "meta is not an object")
        return Program(config, instructions, segments, meta)

    def _segment(self, values: dict[str, Any]) -> Segment:
        name, kind, size, stride = (values[key] for key in ("name", "kind", "size", "repeat_stride"))
        for hint, value in ((str, name), (SegmentKind, kind), (Count, size), (Count, stride)):
            conform(hint, value, f"segment {shown(name)}")
        data = None if values["data"] is None else self._blob(values["data"])
        return Segment(name, kind, size, data, stride)

    def _blob(self, values: dict[str, Any]) -> bytes:
        size, stored = (conform(Count, values[key], f"blob: {key}") for key in ("size", "stored"))
        end = self._position + stored
        if end > len(self._blobs):
            raise _malformed(self._source, "a blob lies outside the file")
        if self._room is not None:
            if size > self._room:
                raise ContainerError(f"{self._source}: larger when decoded than the bytes accepted here")
            self._room -= size
        stored_bytes = self._blobs[self._position : end]
        self._position = end
        if values["encoding"] == "zlib":
            data = zlib.decompressobj().decompress(stored_bytes, size + 1)
        elif values["encoding"] == "raw":
            data = bytes(stored_bytes)
        else:
            raise _malformed(self._source, f"blob encoding {values['encoding']!r}")
        if len(data) != size:
            raise _malformed(self._source, f"a blob has {len(data)} bytes, not {size}")
        return data
