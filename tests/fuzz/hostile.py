"""Values that readers must survive, put in every place of a JSON header, and containers sealed again around it.

A container whose checksum is right reaches the checks behind the checksum: those are what an attack meets.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any

from tilewright.isa import container
from tilewright.runtime import artifact

#: what stands in for a value of any type
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, -3, 7, 64, 127, 128, 255, 256, -129, 4096, 65535, 65536, 1 << 24, 1 << 30,
    (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 32, 1 << 42, 1 << 63, -(1 << 63), 1 << 64, -100_000_000, 10**30, 0.5, -0.0,
    1e-50, 1e300, float("nan"), float("inf"), "", "x", "../../x", "\ud800", "\x00", "é" * 300, "-1", [], [[]], [-1],
    [0], [1, 1], [-3, 1], [-100_000_000, 1], [0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 1, 1], [1 << 31] * 4, ["x"], {},
    {"x": 1}, {"name": "x"},
)  # fmt: skip
_U64 = struct.Struct("<Q")


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a JSON tree, inner ones included."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def open_artifact(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and blobs of an artifact's bytes."""
    body = data[struct.calcsize("<8sIQ32s") :]
    (length,) = _U64.unpack_from(body)
    return json.loads(body[8 : 8 + length]), body[8 + length :]


def seal_artifact(header: Any, blobs: bytes) -> bytes:
    """An artifact with this header and a checksum that is right."""
    text = json.dumps(header).encode()
    body = _U64.pack(len(text)) + text + blobs
    digest = hashlib.sha256(body).digest()
    return struct.pack("<8sIQ32s", artifact.MAGIC, artifact.FORMAT_VERSION, len(body), digest) + body


def open_program(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and blobs of a program container's bytes."""
    body = data[struct.calcsize("<8sIQ") : -32]
    (length,) = struct.unpack_from("<I", body)
    return json.loads(body[4 : 4 + length]), body[4 + length :]


def seal_program(header: Any, blobs: bytes) -> bytes:
    """A program container with this header and a checksum that is right."""
    text = json.dumps(header).encode()
    body = struct.pack("<I", len(text)) + text + blobs
    content = struct.pack("<8sIQ", container.MAGIC, container.FORMAT_VERSION, len(body)) + body
    return content + hashlib.sha256(content).digest()
