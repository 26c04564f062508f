"""Average, maximum and global pooling, and the mean over space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import scale_round
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import AvgPool2D, Conv2D, Maximum, MaxPool2D, Minimum, Pairwise, Requant
from tilewright.jit.layers.builder import LITERT, Layer, Operand, Output
from tilewright.jit.layers.elementwise import looked_up
from tilewright.jit.layers.moves import channels_of
from tilewright.jit.layers.pairwise import extreme
from tilewright.jit.layers.scaling import float_requant, tuned_requant
from tilewright.jit.layers.weighted import spatial
from tilewright.jit.layers.windows import meeting
from tilewright.jit.numbers.float_scaling import tune
from tilewright.jit.numbers.scales import LEAST_FLOAT32, average_requant, mean_requant

_NOT = np.arange(255, -1, -1).astype(np.uint8).view(np.int8)  #: -1 - x, of which the greatest is that of the least x
_MOST_TAPS = 1024  #: of a maximum: passes of ALU
_UNIT = 2.0**-24  #: what rounding to float32 changes at most, relatively
_ROOM = 1 + 2.0**-10  #: times a bound that holds but for its own roundings
_NARROW = 16  #: channels that are about a vector: turning them is one product instead of two


@dataclass(frozen=True)
class Window:
    """A pooling window; ``padding`` is (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    @classmethod
    def whole(cls, x: Operand, gone: set[int]) -> Window:
        """All rows of ``x`` where ``gone`` has axis 1, all columns where it has axis 2."""
        return cls((x.shape[1] if 1 in gone else 1, x.shape[2] if 2 in gone else 1), (1, 1), (0, 0, 0, 0))

    def meeting(self, x: Operand) -> Window:
        """The window without rows and columns that lie in the padding wherever it is."""
        a, b = (
            meeting(x.shape[1 + axis], self.kernel[axis], self.strides[axis], 1, *self.padding[axis::2])
            for axis in (0, 1)
        )
        return Window((a.count, b.count), self.strides, (a.before, b.before, a.after, b.after))

    def result(self, x: Operand) -> tuple[int, int, int, int]:
        """Shape of the pooled tensor."""
        return 1, *spatial(x.shape, self.kernel, self.strides, (1, 1), self.padding), x.shape[3]

    def parts(self, x: Operand) -> list[Window]:
        """Windows one after another that see the same: rows, then columns, where that saves two thirds of the taps."""
        rows = Window((self.kernel[0], 1), (self.strides[0], 1), (self.padding[0], 0, self.padding[2], 0))
        columns = Window((1, self.kernel[1]), (1, self.strides[1]), (0, self.padding[1], 0, self.padding[3]))
        width = self.result(x)[2]
        apart = x.shape[2] * self.kernel[0] + width * self.kernel[1]
        return [rows, columns] if 3 * apart <= width * math.prod(self.kernel) else [self]

    def counts(self, x: Operand) -> list[int]:
        """The numbers of valid elements that windows over ``x`` have; Unsupported where one has none."""
        probe = AvgPool2D(name="", inputs=[], output="", requants={}, **vars(self))
        found = sorted({int(n) for n in np.unique(probe.counts((x.shape[1], x.shape[2])))})
        if 0 in found:
            raise Unsupported("a pooling window that lies in the padding alone")
        return found


def max_pool(layer: Layer, x: Operand, window: Window, out: Output) -> str:
    """The largest valid element of each window, clamped; input and result share one quantisation."""
    if x.quantisation != out.quantisation:
        raise Unsupported("maximum pooling between different scales")
    window = window.meeting(x)
    window.counts(x)
    layer.report_exact(x.shape[3])
    for part in window.parts(x):
        shape = part.result(x)
        name = layer.emit(MaxPool2D, [x.name], shape, out.quantisation, lo=out.lo, hi=out.hi, **vars(part))
        x = Operand(name, shape, out.quantisation)
    return x.name


def average_pool_litert(layer: Layer, x: Operand, window: Window, out: Output, unsigned: bool = False) -> str:
    """TFLite's average: int8 rounds half away from zero, uint8 (``unsigned``) half up; one quantisation."""
    if x.quantisation != out.quantisation:
        raise Unsupported("average pooling between different scales")
    window = window.meeting(x)
    requants = {n: average_requant(n, x.shape[3], out.lo, out.hi, unsigned) for n in window.counts(x)}
    layer.report_exact(x.shape[3])
    return layer.emit(AvgPool2D, [x.name], window.result(x), out.quantisation, requants=requants, **vars(window))


def average_pool_onnx_runtime(
    layer: Layer,
    x: Operand,
    window: Window,
    out: Output,
    *,
    count_include_pad: bool = False,
    ties_with_zero_point: bool = True,
) -> str:
    """QLinearAveragePool: float32 sums, divided and scaled in float32.

    There ties are decided after the zero point is added; behind a float32 AveragePool QuantizeLinear decides them
    ahead of it (not ``ties_with_zero_point``).
    """
    area = window.kernel[0] * window.kernel[1]
    window = window.meeting(x)
    doubts = []
    requants = {}
    for n in window.counts(x):
        divisor = area if count_include_pad else n
        requants[n], doubt = _float_average(x, out, n, divisor, x.shape[3], ties_with_zero_point)
        doubts.append(doubt)
    _report_floats(layer, x.shape[3], doubts)
    return layer.emit(AvgPool2D, [x.name], window.result(x), out.quantisation, requants=requants, **vars(window))


@dataclass(frozen=True)
class _Doubt:
    """``share``: of the sums for which equality with ONNX Runtime is not certain. ``sure``: whether some are known to
    differ: ties, which float32 carries to either side as the order of the values has it."""

    share: float
    sure: bool


def _report_floats(layer: Layer, channels: int, doubts: Sequence[_Doubt]) -> None:
    method = "float32 sums in window order there, integer sums here"
    worst = max(doubt.share for doubt in doubts)
    exact, bound = (0, 1) if worst else (channels, 0)
    entry = LayerExactness(layer.name, layer.semantics, channels, exact, bound, worst, method)
    layer.report(replace(entry, compared=any(doubt.sure for doubt in doubts)))


def _float_average(
    x: Operand, tail: Output, count: int, divisor: int, channels: int, inside: bool
) -> tuple[Requant, _Doubt]:
    """The requant, and for how many sums equality with ONNX Runtime is not certain.

    There: ``rint(float32 sum / divisor / scale_out + zero_point)``, the zero point added before (``inside``) or after
    rounding, the sum over dequantised values in window order.
    A sum is certain where no order of float32 additions can carry the value across a tie, or where the scales are
    powers of two and nothing is ever rounded. QLinearAveragePool adds the zero point before or after, as the shape and
    layout choose its kernel: ties that go either way are not certain.
    """
    out = tail.quantisation
    if not LEAST_FLOAT32 <= x.scale <= 2.0**126 / (255 * count):
        raise Unsupported(f"float32 sums of {count} values of the scale {x.scale:.3g}")
    sums = np.arange(-128 * count, 127 * count + 1, dtype=np.int64) - x.zero_point * count
    f = np.float32
    value = sums.astype(f) * f(x.scale) / f(divisor) / f(out.scale)
    rounded = np.rint(value + f(out.zero_point)) if inside else np.rint(value) + out.zero_point
    wanted = np.clip(rounded, tail.lo, tail.hi).astype(np.int64)
    levels = np.arange(tail.lo + 1, tail.hi + 1)
    table = (sums[0] + np.searchsorted(wanted, levels, side="left")).astype(np.int64)[None, :]
    low, high = sums[:1], sums[-1:]
    ratio = f(x.scale) / (f(out.scale) * f(divisor))
    tuned = tune([ratio], low, high, out.zero_point, tail.lo, tail.hi, table)
    zero_point, moved = out.zero_point, 0
    step = out.zero_point * divisor * out.scale / x.scale
    if inside and not tuned.exact.all() and step.is_integer():
        # ties are decided after the zero point is added: add it to the sum, where it is a whole number
        shifted = tune([ratio], low + int(step), high + int(step), 0, tail.lo, tail.hi, table + int(step))
        if shifted.exact.all():
            tuned, zero_point, moved = shifted, 0, int(step)
    exact_floats = all(math.frexp(v)[0] == 0.5 for v in (x.scale, out.scale, float(divisor)))
    slack = _slack(sums, x, count) * (x.scale / divisor / out.scale)
    if inside:
        slack += _UNIT * (np.abs(value) + abs(out.zero_point))
    real = sums * (x.scale / divisor / out.scale) + out.zero_point
    between = (real > tail.lo) & (real < tail.hi)
    off = np.abs(real - np.floor(real) - 0.5)
    doubt, sure = 0.0, False
    if not (exact_floats and tuned.exact.all()):
        constants = tuned.multiplier, tuned.shift, tuned.offset
        got = np.clip(scale_round(sums + moved, *constants, tuned.rounding) + zero_point, tail.lo, tail.hi)
        doubt = float(((between & (off <= slack)) | (got != wanted)).mean())
        sure = bool((between & (off <= 2.0**-40 * (np.abs(real) + 1))).any())
    if inside:
        after = np.clip(np.rint(value) + out.zero_point, tail.lo, tail.hi)
        doubt = max(doubt, float((after != wanted).mean()))
    bias = np.full(channels, moved - x.zero_point * count)
    return replace(tuned_requant(tuned, bias, tail), zero_point=zero_point), _Doubt(doubt, sure)


def _slack(sums: NDArray[np.int64], x: Operand, count: int) -> NDArray[np.float64]:
    """How far float32 may carry each sum of ``count`` dequantised values, in units of the scale, whatever its order.

    A node of the tree of additions with k values below it is at most k times the largest value, and at most what the
    positive or the negative ones can come to for this sum. Of ``count - 1`` nodes at most ``count - k + 1`` have k or
    more. Each rounds by half a unit in its last place; so does each value as it is dequantised, and the sum as it is
    divided by the count and by the scale of the result.
    """
    low, high = abs(-128 - x.zero_point), 127 - x.zero_point
    above = high * (sums + count * low) / (high + low)  # the most that positive values come to, beside the others
    most = np.maximum(above, above - sums)
    sizes = np.arange(2, count + 1) * float(max(low, high))
    ulps = np.spacing((sizes * x.scale * _ROOM).astype(np.float32)).astype(np.float64) / 2
    tops = np.spacing((most * x.scale * _ROOM).astype(np.float32)).astype(np.float64) / 2
    below = np.concatenate([[0.0], np.cumsum(ulps)])
    first = np.searchsorted(sizes, most)  # nodes from here on are bounded by the sum
    added = below[first] + (len(sizes) - first) * tops
    return added / x.scale + _UNIT * _ROOM * (2 * above - sums + 2 * np.abs(sums))


def summed(layer: Layer, x: Operand, gone: set[int], requant: Requant, out: Output) -> Operand:
    """The sums over the axes ``gone`` of NHWC, with one ``requant`` for all."""
    window = Window.whole(x, gone)
    shape = window.result(x)
    if 3 in gone:
        weight, shape = np.ones((1, *window.kernel, x.shape[3]), np.int8), (*shape[:3], 1)
        name = layer.emit(Conv2D, [x.name], shape, out.quantisation, weight=weight, requant=requant)
    else:
        requants = {math.prod(window.kernel): requant}
        name = layer.emit(AvgPool2D, [x.name], shape, out.quantisation, requants=requants, **vars(window))
    return Operand(name, shape, out.quantisation)


def float_sum(layer: Layer, x: Operand, gone: set[int], mean: bool, out: Output) -> Operand:
    """Sums or means over axes of NHWC that ONNX Runtime adds in float32 between DequantizeLinear and QuantizeLinear."""
    count = math.prod(x.shape[axis] for axis in gone)
    channels = 1 if 3 in gone else x.shape[3]
    requant, doubt = _float_average(x, out, count, count if mean else 1, channels, inside=False)
    _report_floats(layer, channels, [doubt])
    return summed(layer, x, gone, requant, out)


def extreme_over(layer: Layer, x: Operand, gone: set[int], least: bool) -> Operand:
    """The greatest or the least integers over rows, columns and channels. Raises Unsupported for too many of them."""
    window, channels = Window.whole(x, gone), x.shape[3] if 3 in gone else 1
    if max(math.prod(window.kernel), channels) > _MOST_TAPS:
        raise Unsupported(f"an extreme over the axes {sorted(gone)} of shape {x.shape}")
    out = Output(x.quantisation)

    def turned(tensor: Operand) -> Operand:
        return replace(tensor, name=looked_up(layer, tensor, out, _NOT)) if least else tensor

    if window.kernel != (1, 1) or channels == 1:
        x = turned(Operand(max_pool(layer, turned(x), window, out), window.result(x), x.quantisation))
    return _over_channels(layer, x, Minimum if least else Maximum, out) if 3 in gone else x


def _over_channels(layer: Layer, x: Operand, kind: type[Pairwise], out: Output) -> Operand:
    """The extreme of all channels: of their two halves, as long as these are wide, then of a vector and its turns.

    Halves of an odd number have a channel in common, and so have turns: an extreme does not mind.
    """

    def joined(a: Operand, b: Operand) -> Operand:
        return replace(a, name=extreme(layer, kind, a, b, out))

    while (count := x.shape[3]) > _NARROW:
        half = (count + 1) // 2
        x = joined(*(channels_of(layer, x, np.arange(half) + first) for first in (0, count - half)))
    seen = 1
    while seen < count:
        step = min(seen, count - seen)
        x = joined(x, channels_of(layer, x, (np.arange(count) + step) % count))
        seen += step
    return channels_of(layer, x, np.arange(1))


def global_mean(layer: Layer, x: Operand, out: Output) -> str:
    """The mean over height and width."""
    count, channels = x.shape[1] * x.shape[2], x.shape[3]
    if layer.semantics == LITERT:
        q = out.quantisation
        requant = mean_requant(x.scale, x.zero_point, q.scale, q.zero_point, count, channels)
        requant = replace(requant, lo=out.lo, hi=out.hi)
        layer.report_exact(channels)
    else:
        requant = _float_mean(layer, x, out, count)
    return summed(layer, x, {1, 2}, requant, out).name


def _float_mean(layer: Layer, x: Operand, out: Output, count: int) -> Requant:
    """ONNX Runtime's QLinearGlobalAveragePool: the integer sum times float32 scale_in / (scale_out * count)."""
    scale = np.float32(x.scale) / (np.float32(out.quantisation.scale) * np.float32(count))
    bias = np.full(x.shape[3], -x.zero_point * count, np.int64)
    low, high = bias - 128 * count, bias + 127 * count
    return float_requant(layer, np.full(x.shape[3], scale, np.float32), bias, low, high, out)
