"""The host's side of an artifact: what happens to a user's tensors before, between and after launches.

An artifact runs as an ordered list of steps over an environment of named arrays. Every array in the
environment has the shape ``(N, *shape)``: N inferences, then the tensor's own shape (whose first axis is
the model's batch of 1). Steps are plain data that serialise to JSON; this module needs NumPy alone, so
that a board can run it.

* :class:`PackStep` turns a tensor into the bytes of an input segment;
* :class:`LaunchStep` runs a program once per inference, or several at once on cores of their own;
* :class:`UnpackStep` turns bytes of an output segment back into a tensor;
* the remaining steps are host operators: a :class:`HostStep` each, :class:`JoinStep` and :class:`InterpreterStep`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime import host, interpreters
from tilewright.runtime.native import calls
from tilewright.runtime.native.library import library
from tilewright.runtime.packing import PackStep, UnpackStep
from tilewright.runtime.step_base import (
    INTEGERS,
    Axis,
    DType,
    Extent,
    Form,
    Index,
    Int32,
    Integer,
    Scale,
    Size,
    Step,
    StepError,
    TensorSpec,
    form_of,
)
from tilewright.schema import OneOf, Range, SchemaError, parse

__all__ = [
    "STEP_TYPES", "CastStep", "ConstantStep", "CutStep", "DequantizeStep", "Form", "HostStep", "InterpreterStep",
    "JoinStep", "LaunchStep", "PackStep", "QuantizeStep", "ReshapeStep", "SoftmaxStep", "Step", "StepError",
    "TableSoftmaxStep", "TensorSpec", "TransposeStep", "UnpackStep", "form_of", "step_from_dict", "step_to_dict",
]  # fmt: skip

Array = NDArray[Any]


@dataclass(frozen=True)
class LaunchStep(Step):
    """Run program number ``program`` of the artifact, once per inference; those of ``beside`` at the same time, each on
    a core of its own, where the device has so many and can. The step ends when all have ended."""

    kind: ClassVar[str] = "launch"
    program: Index = 0
    beside: tuple[Index, ...] = ()

    @property
    def programs(self) -> tuple[int, ...]:
        """All that it runs."""
        return (self.program, *self.beside)


@dataclass(frozen=True)
class HostStep(Step, ABC):
    """``output`` from ``input``, by NumPy on the host."""

    input: str
    output: str

    @abstractmethod
    def result(self, form: Form) -> Form:
        """The form of ``output``. Raises :class:`StepError` unless the step can take an input of ``form``."""

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """``input`` of shape (N, *its own) -> ``output`` likewise."""


@dataclass(frozen=True)
class SoftmaxStep(HostStep):
    """TFLite int8 softmax over the last axis, in exact integers (parameters as in ``jit.graph.Softmax``)."""

    kind: ClassVar[str] = "softmax"
    multiplier: Annotated[int, Range(0, (1 << 31) - 1)]
    left_shift: Annotated[int, Range(0, 31)]
    diff_min: Annotated[int, Range(-(1 << 31), 0)]

    def result(self, form: Form) -> Form:
        self.refuse(form.dtype == "int8" and form.elements > 0 and len(form.shape) > 0, f"{form} is no int8 vector")
        widest = min(255, -self.diff_min) << self.left_shift
        self.refuse(widest <= 1 << 31, f"a difference of {self.diff_min} shifted by {self.left_shift} is beyond int32")
        return form

    def apply(self, x: Array) -> Array:
        if library() is None:
            return host.softmax_int8(x, self.multiplier, self.left_shift, self.diff_min)
        return calls.softmax_int8(x, self._exponentials, self.diff_min)

    @cached_property
    def _exponentials(self) -> Array:
        return calls.softmax_table(self.multiplier, self.left_shift, self.diff_min)


@dataclass(frozen=True)
class TableSoftmaxStep(HostStep):
    """ONNX Runtime's 8-bit softmax over the last axis, by a ``table`` (parameters as in ``jit.graph.TableSoftmax``)."""

    kind: ClassVar[str] = "table_softmax"
    table: tuple[Annotated[float, Range(0.0, float(np.finfo(np.float32).max))], ...]
    factor: Scale
    zero_point: Annotated[int, Range(0, 255)]

    def result(self, form: Form) -> Form:
        self.refuse(form.dtype == "int8" and form.elements > 0 and len(form.shape) > 0, f"{form} is no int8 vector")
        self.refuse(len(self.table) == 256, f"a table of {len(self.table)} values, not 256")
        most = self.table[-1] * max(self.factor, form.shape[-1])
        sound = 0 < most < float(np.finfo(np.float32).max) and max(self.table) == self.table[-1]
        self.refuse(sound, "a table whose last value is not the greatest, or whose sums leave float32")
        return form

    def apply(self, x: Array) -> Array:
        softmax = host.softmax_by_table if library() is None else calls.softmax_by_table
        return softmax(x, self._exponentials, self.factor, self.zero_point)

    @cached_property
    def _exponentials(self) -> Array:
        return np.array(self.table, np.float32)


@dataclass(frozen=True)
class CastStep(HostStep):
    """``output = (input + offset)`` as ``dtype``, e.g. uint8 <-> int8 with an offset of -+128."""

    kind: ClassVar[str] = "cast"
    offset: Int32
    dtype: Integer

    def result(self, form: Form) -> Form:
        self.refuse(form.dtype in INTEGERS, f"{form} are no integers of at most 32 bits")
        return Form(form.shape, self.dtype)

    def apply(self, x: Array) -> Array:
        made = None if library() is None else calls.cast(x, self.offset, self.dtype)
        return host.cast(x, self.offset, self.dtype) if made is None else made  # which names what does not fit


@dataclass(frozen=True)
class QuantizeStep(HostStep):
    """float32 -> integer: ``clamp(round(input / scale) + zero_point)`` in float32, to the range of ``dtype``.

    ``rounding``: ``even`` (ONNX QuantizeLinear) or ``away`` (TFLite QUANTIZE). NaN is an error.
    """

    kind: ClassVar[str] = "quantize"
    scale: Scale
    zero_point: Int32
    dtype: Integer = "int8"
    rounding: Literal["even", "away"] = "even"

    def result(self, form: Form) -> Form:
        self.refuse(form.dtype == "float32", f"{form} is not float32")
        return Form(form.shape, self.dtype)

    def apply(self, x: Array) -> Array:
        how = self.scale, self.zero_point, self.dtype, self.rounding
        made = None if library() is None else calls.quantize(x, *how)
        return host.quantize(x, *how) if made is None else made  # which refuses NaN


@dataclass(frozen=True)
class DequantizeStep(HostStep):
    """Integer -> float32: ``(input - zero_point) * scale``, the product in float32."""

    kind: ClassVar[str] = "dequantize"
    scale: Scale
    zero_point: Annotated[int, Range(-(1 << 15), 1 << 16)]

    def result(self, form: Form) -> Form:
        wide = form.dtype == "int32" and self.zero_point != 0
        fits = form.dtype in INTEGERS and not wide
        self.refuse(fits, f"{form} less {self.zero_point} does not stay within int32")
        return Form(form.shape, "float32")

    def apply(self, x: Array) -> Array:
        dequantize = host.dequantize if library() is None else calls.dequantize
        return dequantize(x, self.scale, self.zero_point)


@dataclass(frozen=True)
class ReshapeStep(HostStep):
    """The same elements in row-major order; ``shape`` is the output tensor's whole shape."""

    kind: ClassVar[str] = "reshape"
    shape: tuple[Size, ...]

    def result(self, form: Form) -> Form:
        self.refuse(form.elements == math.prod(self.shape), f"shape {list(form.shape)} does not fill {self.shape}")
        return Form(self.shape, form.dtype)

    def apply(self, x: Array) -> Array:
        return host.reshape(x, (len(x), *self.shape))


@dataclass(frozen=True)
class TransposeStep(HostStep):
    """``output = transpose(input, permutation)``; the axes are the tensor's own."""

    kind: ClassVar[str] = "transpose"
    permutation: tuple[Axis, ...]

    def result(self, form: Form) -> Form:
        ordered = sorted(self.permutation) == list(range(len(form.shape)))
        self.refuse(ordered, f"{self.permutation} is no order of the axes of {form}")
        return Form(tuple(form.shape[axis] for axis in self.permutation), form.dtype)

    def apply(self, x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(0, *(axis + 1 for axis in self.permutation)))


@dataclass(frozen=True)
class CutStep(HostStep):
    """A part of a tensor: along each axis ``size`` elements from ``begin`` on."""

    kind: ClassVar[str] = "cut"
    begin: tuple[Size, ...]
    size: tuple[Extent, ...]

    def result(self, form: Form) -> Form:
        axes = len(self.begin) == len(self.size) == len(form.shape)
        inside = axes and all(b + s <= n for b, s, n in zip(self.begin, self.size, form.shape))
        self.refuse(inside, f"{list(self.size)} from {list(self.begin)} on is no part of {form}")
        return Form(self.size, form.dtype)

    def apply(self, x: Array) -> Array:
        return x[(slice(None), *(slice(b, b + s) for b, s in zip(self.begin, self.size)))]


@dataclass(frozen=True)
class ConstantStep(HostStep):
    """The same tensor of ``shape`` for every inference, ``data`` in base64, as this machine holds it (little-endian);
    ``input`` says how many these are."""

    kind: ClassVar[str] = "constant"
    shape: tuple[Size, ...]
    data: str
    dtype: DType = "int8"

    @classmethod
    def of(cls, input: str, output: str, values: Array) -> ConstantStep:
        """With the values of an array."""
        data = base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode("ascii")
        return cls(input, output, values.shape, data, values.dtype.name)

    def result(self, form: Form) -> Form:
        wanted = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        self.refuse(len(self._bytes) == wanted, f"{len(self._bytes)} bytes for {self.dtype}{list(self.shape)}")
        return Form(self.shape, self.dtype)

    def apply(self, x: Array) -> Array:
        values = np.frombuffer(self._bytes, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)
        return np.broadcast_to(values, (len(x), *self.shape))

    @cached_property
    def _bytes(self) -> bytes:
        """Raises :class:`StepError` for what is no base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise StepError(f"{self.kind} {self.output}: {error}") from error


@dataclass(frozen=True)
class JoinStep(Step):
    """``output`` of ``shape`` from parts that begin at ``origins``; what lies in two is equal, what in none is 0."""

    kind: ClassVar[str] = "join"
    inputs: tuple[str, ...]
    output: str
    origins: tuple[tuple[Size, ...], ...]
    shape: tuple[Extent, ...]

    def result(self, forms: Sequence[Form]) -> Form:
        """The form of ``output``. Raises :class:`StepError` unless the step can take inputs of ``forms``."""
        known = len(forms) == len(self.inputs) == len(self.origins) > 0
        known = known and len({form.dtype for form in forms}) == 1
        inside = known and all(
            len(form.shape) == len(origin) == len(self.shape)
            and all(o + s <= n for o, s, n in zip(origin, form.shape, self.shape))
            for form, origin in zip(forms, self.origins)
        )
        self.refuse(inside, f"{', '.join(map(str, forms))} at {self.origins} are no parts of {list(self.shape)}")
        return Form(self.shape, forms[0].dtype)

    def apply(self, parts: Sequence[Array]) -> Array:
        """``inputs`` of shape (N, *their own) -> ``output`` likewise."""
        joined = np.zeros((len(parts[0]), *self.shape), parts[0].dtype)
        for part, origin in zip(parts, self.origins):
            joined[(slice(None), *(slice(o, o + s) for o, s in zip(origin, part.shape[1:])))] = part
        return joined


@dataclass(frozen=True)
class InterpreterStep(Step):
    """Operators of the model file in the interpreter that it came from: blob ``model``, run by ``runtime``.

    The model takes the ``inputs`` and gives the ``outputs`` in order, one inference at a time. A ``stateful`` one
    (variables, recurrent cells) starts each inference from its initial state. ``fast``: the interpreter's optimised
    kernels, which may differ from its reference kernels by an LSB. ``shapes``: of the ``outputs``, for which the rest
    of the network is compiled; none in artifacts of before. An artifact that has such a step is refused, by name, where
    the interpreter is not installed.
    """

    kind: ClassVar[str] = "interpreter"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model: str
    runtime: Annotated[str, OneOf(tuple(interpreters.PACKAGES))]
    operators: tuple[str, ...] = ()  #: names of the operators inside, for reports and errors
    stateful: bool = False
    fast: bool = False
    shapes: tuple[tuple[Size, ...], ...] = ()


STEP_TYPES: dict[str, type[Step]] = {
    cls.kind: cls
    for cls in (
        PackStep, LaunchStep, UnpackStep, SoftmaxStep, TableSoftmaxStep, CastStep, QuantizeStep, DequantizeStep,
        ReshapeStep, TransposeStep, CutStep, ConstantStep, JoinStep, InterpreterStep,
    )
}  # fmt: skip


def step_to_dict(step: Step) -> dict[str, Any]:
    """Plain values for JSON; :func:`step_from_dict` gives an equal step back."""
    return {"kind": step.kind, **dataclasses.asdict(step)}


def step_from_dict(values: dict[str, Any]) -> Step:
    """The step of a mapping. Raises :class:`StepError` on an unknown kind, an unknown field and a bad value."""
    fields = dict(values)
    kind = fields.pop("kind", None)
    cls = STEP_TYPES.get(str(kind))
    if cls is None:
        raise StepError(f"{kind}: no such step; the steps are {', '.join(STEP_TYPES)}")
    try:
        return parse(cls, fields, f"{kind} step")
    except SchemaError as error:
        raise StepError(str(error)) from error
