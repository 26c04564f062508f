"""What all steps of an artifact share: tensors, their forms, and what the numbers of a step may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.schema import OneOf, Range

#: Of one inference's tensor, padding included; 1 GiB of float32. A few changed bytes of a file ask for more, and a
#: system that lends memory ends a process that uses it instead of refusing it.
MOST_ELEMENTS = 1 << 28

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")  #: dtypes that the steps compute in
DTYPES = (*INTEGERS, "bool", "uint32", "int64", "uint64", "float16", "float32", "float64")
Integer = Annotated[str, OneOf(INTEGERS)]
DType = Annotated[str, OneOf(DTYPES)]
Extent = Annotated[int, Range(1, MOST_ELEMENTS)]  #: of an image, a window or a stride
Size = Annotated[int, Range(0, MOST_ELEMENTS)]
Axis = Annotated[int, Range(0, 63)]
Index = Annotated[int, Range(0, 1 << 16)]  #: of a program or a segment
Int8 = Annotated[int, Range(-128, 127)]
Int32 = Annotated[int, Range(-(1 << 31), (1 << 31) - 1)]
_FLOAT = np.finfo(np.float32)
_LEAST = float(np.nextafter(np.float32(0), np.float32(1)))
Scale = Annotated[float, Range(_LEAST, float(_FLOAT.max))]


class StepError(TilewrightError):
    """A step is malformed or is given a tensor of another form; names the step and the tensor."""


@dataclass(frozen=True)
class Form:
    """Shape and dtype of one inference's tensor between the steps."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def elements(self) -> int:
        """How many values it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the network: shape with the leading batch of 1 (NHWC in programs), NumPy dtype name, quantisation."""

    name: str
    shape: tuple[Size, ...]
    dtype: DType = "int8"
    scale: Annotated[float, Range(0, float(_FLOAT.max))] = 1.0
    zero_point: Int32 = 0

    @property
    def form(self) -> Form:
        """Its form between the steps."""
        return Form(self.shape, self.dtype)


@dataclass(frozen=True)
class Step:
    """Base of all steps; ``kind`` is the tag in the serialised form. Annotations say what a field may hold."""

    kind: ClassVar[str] = ""

    def refuse(self, holds: bool, what: str) -> None:
        """Raise :class:`StepError`, naming the step, unless ``holds``."""
        if not holds:
            raise StepError(f"{self.kind} {getattr(self, 'tensor', getattr(self, 'input', ''))}: {what}")


def form_of(array: NDArray[Any]) -> Form:
    """The form of (N, *shape) in the environment."""
    return Form(array.shape[1:], array.dtype.name)
