"""A program's constants: one segment of blobs, each kept once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.builder.places import problem
from tilewright.isa.codec import pack_integers
from tilewright.isa.program import Segment
from tilewright.isa.spec import Memory

#: dtype of the elements of each memory that constants are loaded to
DTYPES = {Memory.ACT: "int8", Memory.ACC8: "int8", Memory.ACC: "int32", Memory.WGT: "int8", Memory.PRM: "int32"}


class Constants:
    """Bytes that LOAD brings on chip; :meth:`add` says at which beat they are."""

    def __init__(self, config: Config) -> None:
        self._config, self._data = config, bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """First beat of these bytes."""
        beat = self._config.beat_bytes
        if data not in self._known:
            self._known[data] = len(self._data) // beat
            self._data += data + bytes(-len(data) % beat)
        return self._known[data]

    def segment(self) -> Segment:
        """The segment of all of them."""
        return Segment("constants", "constant", max(len(self._data), self._config.beat_bytes), bytes(self._data))


def content(array: NDArray[Any], memory: Memory, config: Config) -> bytes:
    """What LOAD reads of an array for a memory: numbers of its width, weights of ``weight_bits`` packed."""
    bits = config.weight_bits if memory == Memory.WGT else np.dtype(DTYPES[memory]).itemsize * 8
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if array.dtype.kind not in "iu":
        raise problem(f"{memory.name.lower()} takes integers, not {array.dtype}; quantise them")
    if array.size and (array.min() < low or array.max() > high):
        given = f"from {array.min()} to {array.max()}"
        raise problem(f"{memory.name.lower()} takes integers from {low} to {high}, not {given}; quantise them so")
    return pack_integers(array, bits) if bits < 8 else array.astype(f"<i{bits // 8}").tobytes()
