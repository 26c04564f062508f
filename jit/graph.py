"""The exact integer graph: what the importers produce and what the planner schedules.

Every operator here has one meaning, in integers, stated in :mod:`tilewright.jit.reference`; scales and
zero points have already become multipliers, shifts and folded biases. Nothing in this file knows TVM,
the Config or the hardware.

Activations are NHWC with a leading batch axis of 1. A fully connected layer is a 1x1 convolution on a
(1, 1, 1, IC) tensor. All accumulators are int32 and wrap modulo 2^32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.sampling import Sampling
from tilewright.runtime.steps import TensorSpec

Place = Literal["accelerator", "host"]


@dataclass(frozen=True)
class Requant:
    """Per-channel int32 -> int8: ``clamp(round((acc + bias) * multiplier / 2^shift) + zero_point, lo, hi)``.

    ``bias``, ``multiplier`` (in [0, 2^31)), ``offset`` (added before the shift, beside the half) are
    int32 arrays of shape (C,); ``shift`` is in 0..63, shape (C,). The arithmetic is
    :func:`tilewright.isa.arithmetic.requantize`.
    """

    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    offset: NDArray[np.int32]
    rounding: Rounding
    zero_point: int
    lo: int = -128
    hi: int = 127

    @classmethod
    def alike(
        cls, channels: int, bias: int, multiplier: int, shift: int, offset: int, rounding: Rounding, zero_point: int,
        lo: int = -128, hi: int = 127,
    ) -> Requant:  # fmt: skip
        """One set of constants for all channels."""
        b, m, t, r = (np.full(channels, v, np.int32) for v in (bias, multiplier, shift, offset))
        return cls(b, m, t, r, rounding, zero_point, lo, hi)

    @cached_property
    def uniform(self) -> bool:
        """Whether all channels share one set of constants."""
        numbers = (self.bias, self.multiplier, self.shift, self.offset)
        return all(len(each) > 0 and bool((each == each[0]).all()) for each in numbers)

    def of(self, channels: slice | NDArray[np.integer]) -> Requant:
        """That of some of the channels."""
        arrays = {name: getattr(self, name)[channels] for name in ("bias", "multiplier", "shift", "offset")}
        return replace(self, **arrays)


@dataclass(frozen=True)
class Scale:
    """Per-tensor int8 -> int32: ``round(((x << 20) + bias) * multiplier / 2^shift)``, unclamped.

    The arithmetic is :func:`tilewright.isa.arithmetic.rescale` (TFLite ADD's input stage). ``table``: 256 int8, at the
    values of x modulo 256, that x is looked up in first.
    """

    bias: int
    multiplier: int
    shift: int
    rounding: Rounding = Rounding.DOUBLE
    offset: int = 0
    table: bytes | None = None


@dataclass(kw_only=True)
class Op:
    """Base of all operators: ``name`` is unique, ``inputs``/``output`` are tensor names."""

    name: str
    inputs: list[str]
    output: str
    source: str = ""  #: the operator's name in the model file, for reports (e.g. ``op003 CONV_2D``)
    covers: tuple[int, ...] = ()  #: positions in the model file of the operators that this one stands for

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors it writes; ``output`` alone but for :class:`Interpreted`."""
        return (self.output,)


@dataclass(kw_only=True)
class Conv2D(Op):
    """Dense or grouped convolution. ``acc = sum x * w`` with padding contributing ``pad_value``.

    ``weight`` is (OC, KH, KW, IC / groups), int8, or int16 within -255..255 (uint8 less its zero point). Biases live
    in ``requant.bias``, with the input's zero point already folded in (so x is used as stored). ``padding`` is
    (top, left, bottom, right).

    A transposed convolution reads the image with ``spread`` - 1 pixels of ``pad_value`` between neighbours, in rows and
    columns (XLA's ``lhs_dilation``), and may leave out pixels of its result: ``padding`` is that of the image so
    spread, and may be negative. ``strides`` are (1, 1) then.
    """

    weight: NDArray[np.int8]
    requant: Requant
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    groups: int = 1
    spread: tuple[int, int] = (1, 1)

    @property
    def transposed(self) -> bool:
        """Whether the kernel runs over other than the image with padding around it."""
        return self.spread != (1, 1) or min(self.padding) < 0


@dataclass(kw_only=True)
class PartialSums(Op):
    """What some input channels add to a convolution's sums of 32 bits, as *planes* of int8 beside each other.

    ``acc = sum x * w`` over as many channels as ``weight`` (OC, KH, KW, IC) has, from ``first`` on; ``strides``,
    ``dilation``, ``padding`` and ``pad_value`` as of :class:`Conv2D`. Plane k, channels k * OC and on, is
    ``requants[k](acc * factors[k])``, the product wrapping; each factor is a multiple of the one before it, the first
    is 1.
    """

    weight: NDArray[np.int8]
    factors: tuple[int, ...]
    requants: tuple[Requant, ...]
    first: int = 0
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0


@dataclass(kw_only=True)
class Total(Op):
    """``requant(sum over inputs x and k of scales[k](x[..., k * pitch + first + c]))``, wrapping: planes of sums put
    together and added up.

    C, the channels of the result, are those of ``requant``; ``first + C`` is at most ``pitch``.
    """

    scales: tuple[Scale, ...]
    requant: Requant
    pitch: int
    first: int = 0


@dataclass(kw_only=True)
class DepthwiseConv2D(Op):
    """Depthwise convolution, channel multiplier 1: ``weight`` is (KH, KW, C), as of :class:`Conv2D`. A multiplier
    above 1 is a grouped :class:`Conv2D`."""

    weight: NDArray[np.int8]
    requant: Requant
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0


@dataclass(kw_only=True)
class MatMul(Op):
    """Products of rows of two tensors: ``acc[m, n] = sum over k of (a[m, k] - offsets[0]) * (b[n, k] - offsets[1])``.

    ``b`` is read as weights are: a row of it for each channel of the result. There are ``heads`` such products beside
    each other. Each operand has them as its rows, (1, heads, pixels, channels), or one behind the other in its
    channels, (1, 1, pixels, heads * channels); the result has them as rows, or (``merged``) in its channels.
    ``requant`` is alike for all channels, of shape (N,).
    """

    heads: int
    offsets: tuple[int, int]
    requant: Requant
    merged: bool = False


@dataclass(kw_only=True)
class Pairwise(Op):
    """``requant(scale_a(a) JOIN scale_b(b))``, element by element. The requant arrays have shape (C,).

    ``a`` has the shape of the result, and so has ``b``, or a single row, a single column or both (a pixel), which
    then go with all of ``a``'s.
    """

    scale_a: Scale
    scale_b: Scale
    requant: Requant

    @property
    def terms(self) -> tuple[tuple[int, Scale], ...]:
        """(operand, its scale) of all that is joined."""
        return (0, self.scale_a), (1, self.scale_b)


@dataclass(kw_only=True)
class Add(Pairwise):
    """The sum, wrapping. ``corrections``: (0 for a or 1 for b, a further scale of it that is added)."""

    corrections: tuple[tuple[int, Scale], ...] = ()

    @property
    def terms(self) -> tuple[tuple[int, Scale], ...]:
        return (*super().terms, *self.corrections)


class Multiply(Pairwise):
    """The product, wrapping."""


class Maximum(Pairwise):
    """The greater."""


class Minimum(Pairwise):
    """The less."""


@dataclass(kw_only=True)
class AvgPool2D(Op):
    """``requant_n(sum over the window's valid elements)``; padding contributes nothing to sum or count.

    ``requants`` maps the number of valid elements n to its requantisation.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    requants: dict[int, Requant]


@dataclass(kw_only=True)
class MaxPool2D(Op):
    """Maximum over the window's valid elements, then clamp to [lo, hi]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    lo: int = -128
    hi: int = 127


@dataclass(kw_only=True)
class Requantize(Op):
    """Element-wise int8 -> int8: ``requant(scale(x))``: QUANTIZE, ReLU, clip, a rescale; by a table any function."""

    scale: Scale
    requant: Requant


@dataclass(kw_only=True)
class Pad(Op):
    """Spatial padding with a constant: ``padding`` is (top, left, bottom, right)."""

    padding: tuple[int, int, int, int]
    pad_value: int


@dataclass(kw_only=True)
class Slice(Op):
    """``size[0]`` rows, ``begin[0]``, ``begin[0] + strides[0]``, ...; columns likewise; all channels."""

    begin: tuple[int, int]
    size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)


@dataclass(kw_only=True)
class Resample(Op):
    """``requant(sum over i, j of rows[y, i] * columns[x, j] * (input[i, j] - offset))``, channel by channel.

    The sums of the weights' products' magnitudes times 255 stay within int32. ``requant`` is alike for all channels.
    """

    rows: Sampling
    columns: Sampling
    offset: int
    requant: Requant


@dataclass(kw_only=True)
class Concat(Op):
    """Concatenation over channels. ``scales``/``requants`` per input; None where the input is copied as is."""

    parts: list[tuple[Scale, Requant] | None] = field(default_factory=list)


@dataclass(kw_only=True)
class Reshape(Op):
    """Same elements in NHWC (row-major) order, other shape."""

    shape: tuple[int, ...]


@dataclass(kw_only=True)
class Softmax(Op):
    """TFLite int8 softmax over the last axis, exact integers; always on the host."""

    multiplier: int
    left_shift: int
    diff_min: int


@dataclass(kw_only=True)
class TableSoftmax(Op):
    """ONNX Runtime's softmax of uint8 (here 128 less) over the last axis, on the host: each value's place below the
    row's greatest is looked up in ``table``, of 256 float32, and its share of the sum times ``factor`` is rounded;
    ``zero_point`` as of uint8."""

    table: tuple[float, ...]
    factor: float
    zero_point: int


@dataclass(kw_only=True)
class HostCast(Op):
    """Host-side change of representation, e.g. uint8 <-> int8 (``x - 128``): ``y = (x + offset)`` as ``dtype``."""

    offset: int
    dtype: str


@dataclass(kw_only=True)
class QuantizeFloat(Op):
    """Host: float32 -> ``dtype``: ``clamp(round(x / scale) + zero_point)``; ``rounding`` of ties: even or away."""

    scale: float
    zero_point: int
    dtype: str
    rounding: Literal["even", "away"]


@dataclass(kw_only=True)
class DequantizeFloat(Op):
    """Host: integers -> float32: ``(x - zero_point) * scale``."""

    scale: float
    zero_point: int


@dataclass(kw_only=True)
class Transpose(Op):
    """Host: axes in the order ``permutation``."""

    permutation: tuple[int, ...]


@dataclass(kw_only=True)
class Constant(Op):
    """Host: ``values`` for every inference. Of ``inputs``, what the network is given, nothing is read."""

    values: NDArray[Any]


@dataclass(kw_only=True)
class Recurrent(Op, ABC):
    """An operator that keeps states from one inference to the next, whose program takes all of the chip
    (:mod:`tilewright.jit.recurrent`).

    What the inputs name besides the first is written too: the states that it begins with and ends in. Without them it
    begins with reset ones.
    """

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.output, *self.inputs[1:]

    @property
    @abstractmethod
    def pixel_macs(self) -> int:
        """Multiply-accumulates for each pixel of the input."""


@dataclass(kw_only=True)
class Interpreted(Op):
    """One operator of the model file that the interpreter the file came from runs on the host.

    ``results`` are all its outputs (``output`` the first, "" where there is none). Operators with a common ``state``
    must run in one interpreter: they read and write the same variable.
    """

    results: tuple[str, ...]
    reason: str
    state: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.results


def requants_of(op: Op) -> Iterator[Requant]:
    """All that an operator requantises with."""

    def within(value: object) -> Iterator[Requant]:
        if isinstance(value, Requant):
            yield value
        elif isinstance(value, (tuple, list, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from within(part)

    return within(list(vars(op).values()))


#: computed on the host in NumPy or by an interpreter, never on the accelerator
HOST_KINDS = (Softmax, TableSoftmax, HostCast, QuantizeFloat, DequantizeFloat, Transpose, Constant, Interpreted)


@dataclass
class Graph:
    """A topologically ordered list of operators over named tensors."""

    name: str
    inputs: list[str]
    outputs: list[str]
    tensors: dict[str, TensorSpec]
    ops: list[Op]

    def producer(self, tensor: str) -> Op | None:
        """The operator that writes ``tensor``; None for a graph input."""
        return next((op for op in self.ops if tensor in op.outputs), None)

    def consumers(self, tensor: str) -> list[Op]:
        """The operators that read ``tensor``, in order."""
        return [op for op in self.ops if tensor in op.inputs]
