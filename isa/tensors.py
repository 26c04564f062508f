"""What a program's segments hold, as arrays: ``meta["tensors"]`` gives the dtype and shape of each that has one.

In assembly text that is a line like ``.meta tensors {"x": {"dtype": "int8", "shape": [64, 16]}}``. A segment without an
entry holds int8, as many as it has bytes. Elements lie in C order from the segment's first byte on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.isa.program import Program, Segment, SegmentKind, check_program
from tilewright.kinds import instance, shown
from tilewright.schema import Count, Holds, OneOf, SchemaError, conform

DTYPES = ("int8", "uint8", "int16", "int32")


class TensorError(TilewrightError):
    """Arrays do not fit the segments of a program: names the segment, its dtype and shape, and what was given."""


class _Declared(TypedDict):
    dtype: Annotated[str, OneOf(DTYPES)]
    shape: tuple[Count, ...]


@dataclass(frozen=True)
class Tensor:
    """What a segment holds. ``number``: of the segment in its program."""

    name: str
    number: int
    kind: SegmentKind
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.dtype} {'x'.join(map(str, self.shape))})"

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def of(self, data: NDArray[np.uint8]) -> NDArray[Any]:
        """The array in a segment's bytes."""
        return data[: self.nbytes].view(self.dtype).reshape(self.shape)


def tensors_of(program: Program) -> dict[str, Tensor]:
    """By name, what each segment holds that is no constant.

    Raises :class:`TensorError` for a declaration that fits no segment.
    """
    check_program(program)
    declared = program.meta.get("tensors", {})
    instance("meta tensors", declared, dict, "an object of segments by name", error=TensorError)
    numbers = {segment.name: number for number, segment in enumerate(program.segments) if segment.kind != "constant"}
    for name in declared:
        if name not in numbers:
            raise TensorError(f"meta tensors: {shown(name)} is no segment; they are {listed(numbers)}")
    return {name: _tensor(program.segments[k], k, declared.get(name)) for name, k in numbers.items()}


def _tensor(segment: Segment, number: int, declared: Any) -> Tensor:
    if declared is None:
        return Tensor(segment.name, number, segment.kind, (segment.size,), np.dtype(np.int8))
    where = f"meta tensors: {segment.name}"
    try:
        conform(Annotated[dict[str, Any], Holds(_Declared)], declared, where)
    except SchemaError as error:
        raise TensorError(str(error)) from error
    tensor = Tensor(segment.name, number, segment.kind, tuple(declared["shape"]), np.dtype(declared["dtype"]))
    if tensor.nbytes > segment.size:
        raise TensorError(f"{where}: {tensor.nbytes} bytes exceed the segment's {segment.size}; make it larger")
    return tensor


def check_array(tensor: Tensor, array: Any) -> None:
    """Raise :class:`TensorError` for an array of another dtype or shape than a segment's."""
    instance(f"{tensor}", array, np.ndarray, "a NumPy array", error=TensorError)
    if array.dtype != tensor.dtype or array.shape != tensor.shape:
        given = f"{array.dtype} {'x'.join(map(str, array.shape))}"
        raise TensorError(f"{tensor}: {given} was given; convert or reshape it, or declare it so in the program")


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(names) or "none"
