"""Whether two graphs are one network: all that their operators are made of, weights included."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilewright.jit.graph import Graph


def graph_digest(graph: Graph) -> str:
    """64 hex digits: equal for graphs of equal tensors and operators in equal order, whatever the graph's own name."""
    digest = hashlib.sha256()
    for part in _parts(dataclasses.replace(graph, name="")):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    """A value as pieces of bytes from which it could be made again."""
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif dataclasses.is_dataclass(value):
        yield type(value).__name__.encode()
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"{len(value)} entries".encode()
        for key, item in value.items():
            yield repr(key).encode()
            yield from _parts(item)
    elif isinstance(value, (list, tuple)):
        yield f"{len(value)} items".encode()
        for item in value:
            yield from _parts(item)
    else:
        yield repr(value).encode()
