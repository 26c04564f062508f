"""The host's side of an artifact: what happens to a user's tensors before, between and after launches.

An artifact runs as an ordered list of steps over an environment of named arrays. Every array in the
environment has the shape ``(N, *shape)``: N inferences, then the tensor's own shape (whose first axis is
the model's batch of 1). Steps are plain data that serialise to JSON; this module needs NumPy alone, so
that a board can run it.

* :class:`PackStep` turns a tensor into the bytes of an input segment;
* :class:`LaunchStep` runs a program once per inference;
* :class:`UnpackStep` turns bytes of an output segment back into a tensor;
* the remaining steps are host operators: a :class:`HostStep` each, and :class:`InterpreterStep`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.runtime import host

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class StepError(TilewrightError):
    """A step is malformed or is given a tensor of another shape; names the step and the tensor."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the network: shape with the leading batch of 1 (NHWC in programs), NumPy dtype name, quantisation."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True)
class Step:
    """Base of all steps; ``kind`` is the tag in the serialised form."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class PackStep(Step):
    """Pack tensor ``tensor`` into ``segment`` of ``program`` from byte ``offset`` on.

    The tensor is permuted (``permutation``, axes of the user's tensor in NHWC order; None to leave it),
    reshaped to ``shape`` = (1, H, W, C), ``value_offset`` is added (-128 for uint8 models), and the values,
    which must then fit int8, are surrounded by ``padding`` = (top, left, bottom, right) of ``pad_value``:
    (1, H', W', C) with H' = H + top + bottom. Then, by ``layout``:

    * ``rows``: units ``[h][w][u][batch][lane]``, H' x W' x ``units`` of them, channel c in unit ``c // lanes``,
      lane ``c % lanes``; channels beyond C hold ``channel_pad``;
    * ``patches``: for each output position of a ``kernel`` = (KH, KW) window with ``strides`` and ``dilation``
      over the padded image, the KH*KW*C values in (ky, kx, c) order, then ``channel_pad`` up to
      ``units * lanes``: units ``[oy][ox][unit][batch][lane]``.

    Batch row 0 carries the image; the others are zero.
    """

    kind: ClassVar[str] = "pack"
    tensor: str
    segment: int
    shape: tuple[int, int, int, int]
    lanes: int
    units: int
    layout: Literal["rows", "patches"] = "rows"
    program: int = 0
    offset: int = 0
    batch: int = 1
    permutation: tuple[int, ...] | None = None
    value_offset: int = 0
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    channel_pad: int = 0
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of the packed data: H' x W' for ``rows``, OH x OW for ``patches``."""
        top, left, bottom, right = self.padding
        height, width = self.shape[1] + top + bottom, self.shape[2] + left + right
        if self.layout == "rows":
            return height, width
        reach_y, reach_x = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation))
        return (height - reach_y) // self.strides[0] + 1, (width - reach_x) // self.strides[1] + 1

    @property
    def size(self) -> int:
        """Bytes written per inference."""
        rows, columns = self.positions
        return rows * columns * self.units * self.batch * self.lanes

    def apply(self, x: Array) -> Bytes:
        """``x`` of shape (N, *tensor shape) -> the packed bytes, uint8 of shape (N, size)."""
        if self.value_offset:
            x = x.astype(np.int32) + self.value_offset
        narrow = x.astype(np.int8, copy=False)
        if narrow.dtype != x.dtype and not np.array_equal(narrow, x):
            raise StepError(f"pack {self.tensor}: values from {x.min()} to {x.max()} do not fit int8")
        return self.arrange(narrow).view(np.uint8)

    def arrange(self, x: Array) -> Array:
        """Values of any dtype, shape (N, *tensor shape), where the segment holds them: (N, size).

        What :meth:`apply` does but for ``value_offset`` and the check for int8.
        """
        image = self._image(x)
        values = image if self.layout == "rows" else self._patches(image)
        count, rows, columns, channels = values.shape
        width = self.units * self.lanes
        if channels > width:
            raise StepError(f"pack {self.tensor}: {channels} values do not fit {self.units} units of {self.lanes}")
        packed = np.full((count, rows, columns, width), self.channel_pad, x.dtype)
        packed[..., :channels] = values
        if self.batch > 1:
            batched = np.zeros((count, rows, columns, self.units, self.batch, self.lanes), x.dtype)
            batched[..., 0, :] = packed.reshape(count, rows, columns, self.units, self.lanes)
            return batched.reshape(count, -1)
        return packed.reshape(count, -1)

    def _image(self, x: Array) -> Array:
        """The NHWC image, padded: (N, H', W', C)."""
        count = x.shape[0]
        if self.permutation is not None:
            x = x.transpose(0, *(axis + 1 for axis in self.permutation))
        if x.size != count * int(np.prod(self.shape)):
            raise StepError(f"pack {self.tensor}: shape {x.shape[1:]} does not hold {self.shape}")
        x = x.reshape(count, *self.shape[1:])
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return x
        spread = ((0, 0), (top, bottom), (left, right), (0, 0))
        return np.pad(x, spread, constant_values=self.pad_value)

    def _patches(self, image: Array) -> Array:
        """Patches of the padded image: (N, OH, OW, KH * KW * C)."""
        image = np.ascontiguousarray(image)
        count, _, _, channels = image.shape
        rows, columns = self.positions
        if rows < 1 or columns < 1:
            raise StepError(f"pack {self.tensor}: a {self.kernel} window does not fit the image {self.shape}")
        n, h, w, c = image.strides
        shape = (count, rows, columns, *self.kernel, channels)
        strides = (n, h * self.strides[0], w * self.strides[1], h * self.dilation[0], w * self.dilation[1], c)
        view = as_strided(image, shape, strides, writeable=False)
        return view.reshape(count, rows, columns, -1)


@dataclass(frozen=True)
class LaunchStep(Step):
    """Run program number ``program`` of the artifact, once per inference."""

    kind: ClassVar[str] = "launch"
    program: int = 0


@dataclass(frozen=True)
class UnpackStep(Step):
    """Read tensor ``tensor`` from ``segment`` of ``program``, byte ``offset`` on.

    The segment holds units ``[h][w][u][batch][lane]`` (batch row 0 carries the image); ``shape`` is
    (1, H, W, C). The first C channels are taken, ``value_offset`` is added, the axes are permuted
    (``permutation``, axes of NHWC in the user's order), and the result becomes ``dtype`` in ``tensor_shape``.
    """

    kind: ClassVar[str] = "unpack"
    tensor: str
    segment: int
    shape: tuple[int, int, int, int]
    tensor_shape: tuple[int, ...]
    lanes: int
    units: int
    program: int = 0
    offset: int = 0
    batch: int = 1
    permutation: tuple[int, ...] | None = None
    value_offset: int = 0
    dtype: str = "int8"

    @property
    def size(self) -> int:
        """Bytes read per inference."""
        return self.shape[1] * self.shape[2] * self.units * self.batch * self.lanes

    def apply(self, data: Bytes) -> Array:
        """``data``: uint8 of shape (N, size) -> the tensor, shape (N, *tensor_shape)."""
        values = self.collect(data.view(np.int8))
        if self.value_offset:
            values = values.astype(np.int32) + self.value_offset
        return np.ascontiguousarray(values.astype(self.dtype, copy=False))

    def collect(self, data: Array) -> Array:
        """Values of any dtype as the segment holds them, shape (N, size) -> the tensor's, (N, *tensor_shape).

        What :meth:`apply` does but for ``value_offset`` and the change of dtype.
        """
        count = data.shape[0]
        _, height, width, channels = self.shape
        units = data.reshape(count, height, width, self.units, self.batch, self.lanes)
        values: Array = units[..., 0, :].reshape(count, 1, height, width, -1)[..., :channels]
        if self.permutation is not None:
            values = values.transpose(0, *(axis + 1 for axis in self.permutation))
        return values.reshape(count, *self.tensor_shape)


@dataclass(frozen=True)
class HostStep(Step):
    """``output`` from ``input``, by NumPy on the host."""

    input: str
    output: str

    def apply(self, x: Array) -> Array:
        """``input`` of shape (N, *its own) -> ``output`` likewise."""
        raise NotImplementedError


@dataclass(frozen=True)
class SoftmaxStep(HostStep):
    """TFLite int8 softmax over the last axis, in exact integers (parameters as in ``jit.graph.Softmax``)."""

    kind: ClassVar[str] = "softmax"
    multiplier: int
    left_shift: int
    diff_min: int

    def apply(self, x: Array) -> Array:
        return host.softmax_int8(x, self.multiplier, self.left_shift, self.diff_min)


@dataclass(frozen=True)
class CastStep(HostStep):
    """``output = (input + offset)`` as ``dtype``, e.g. uint8 <-> int8 with an offset of -+128."""

    kind: ClassVar[str] = "cast"
    offset: int
    dtype: str

    def apply(self, x: Array) -> Array:
        return host.cast(x, self.offset, self.dtype)


@dataclass(frozen=True)
class QuantizeStep(HostStep):
    """float32 -> integer: ``clamp(round(input / scale) + zero_point)`` in float32, to the range of ``dtype``.

    ``rounding``: ``even`` (ONNX QuantizeLinear) or ``away`` (TFLite QUANTIZE). NaN is an error.
    """

    kind: ClassVar[str] = "quantize"
    scale: float
    zero_point: int
    dtype: str = "int8"
    rounding: Literal["even", "away"] = "even"

    def apply(self, x: Array) -> Array:
        return host.quantize(x, self.scale, self.zero_point, self.dtype, self.rounding)


@dataclass(frozen=True)
class DequantizeStep(HostStep):
    """Integer -> float32: ``(input - zero_point) * scale``, the product in float32."""

    kind: ClassVar[str] = "dequantize"
    scale: float
    zero_point: int

    def apply(self, x: Array) -> Array:
        return host.dequantize(x, self.scale, self.zero_point)


@dataclass(frozen=True)
class ReshapeStep(HostStep):
    """The same elements in row-major order; ``shape`` is the output tensor's whole shape."""

    kind: ClassVar[str] = "reshape"
    shape: tuple[int, ...]

    def apply(self, x: Array) -> Array:
        return host.reshape(x, (len(x), *self.shape))


@dataclass(frozen=True)
class TransposeStep(HostStep):
    """``output = transpose(input, permutation)``; the axes are the tensor's own."""

    kind: ClassVar[str] = "transpose"
    permutation: tuple[int, ...]

    def apply(self, x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(0, *(axis + 1 for axis in self.permutation)))


@dataclass(frozen=True)
class InterpreterStep(Step):
    """Operators of the model file in the interpreter that it came from: blob ``model``, run by ``runtime``.

    The model takes the ``inputs`` and gives the ``outputs`` in order, one inference at a time. A ``stateful`` one
    (variables, recurrent cells) starts each inference from its initial state. ``fast``: the interpreter's optimised
    kernels, which may differ from its reference kernels by an LSB. An artifact that has such a step is refused, by
    name, where the interpreter is not installed.
    """

    kind: ClassVar[str] = "interpreter"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model: str
    runtime: str
    operators: tuple[str, ...] = ()  #: names of the operators inside, for reports and errors
    stateful: bool = False
    fast: bool = False


STEP_TYPES: dict[str, type[Step]] = {
    cls.kind: cls
    for cls in (
        PackStep, LaunchStep, UnpackStep, SoftmaxStep, CastStep, QuantizeStep, DequantizeStep, ReshapeStep,
        TransposeStep, InterpreterStep,
    )
}  # fmt: skip


def step_to_dict(step: Step) -> dict[str, Any]:
    """Plain values for JSON; :func:`step_from_dict` gives an equal step back."""
    return {"kind": step.kind, **dataclasses.asdict(step)}


def step_from_dict(values: dict[str, Any]) -> Step:
    """The step of a mapping. Raises :class:`StepError` on an unknown kind or field."""
    fields = dict(values)
    kind = fields.pop("kind", None)
    cls = STEP_TYPES.get(str(kind))
    if cls is None:
        raise StepError(f"{kind}: no such step; the steps are {', '.join(STEP_TYPES)}")
    try:
        return cls(**{name: _freeze(value) for name, value in fields.items()})
    except TypeError as error:
        raise StepError(f"{kind} step: {error}") from error


def _freeze(value: Any) -> Any:
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value
