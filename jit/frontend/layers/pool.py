"""Average, maximum and global pooling, and the mean over space."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.float_scaling import tune
from tilewright.jit.frontend.builder import LITERT, Layer, Operand, Output
from tilewright.jit.frontend.layers.scaling import float_requant
from tilewright.jit.frontend.layers.weighted import spatial
from tilewright.jit.graph import AvgPool2D, MaxPool2D, Requant
from tilewright.jit.numbers import average_requant, mean_requant
from tilewright.jit.reference import valid_counts


@dataclass(frozen=True)
class Window:
    """A pooling window; ``padding`` is (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    def result(self, x: Operand) -> tuple[int, int, int, int]:
        """Shape of the pooled tensor."""
        return 1, *spatial(x.shape, self.kernel, self.strides, (1, 1), self.padding), x.shape[3]

    def counts(self, x: Operand) -> list[int]:
        """The numbers of valid elements that windows over ``x`` have; Unsupported where one has none."""
        probe = AvgPool2D(name="", inputs=[], output="", requants={}, **vars(self))
        found = sorted({int(n) for n in np.unique(valid_counts((x.shape[1], x.shape[2]), probe))})
        if 0 in found:
            raise Unsupported("a pooling window that lies in the padding alone")
        return found


def max_pool(layer: Layer, x: Operand, window: Window, out: Output) -> str:
    """The largest valid element of each window, clamped; input and result share one quantisation."""
    if x.quantisation != out.quantisation:
        raise Unsupported("maximum pooling between different scales")
    window.counts(x)
    layer.report_exact(x.shape[3])
    return layer.emit(MaxPool2D, [x.name], window.result(x), out.quantisation, lo=out.lo, hi=out.hi, **vars(window))


def average_pool_litert(layer: Layer, x: Operand, window: Window, out: Output, unsigned: bool = False) -> str:
    """TFLite's average: int8 rounds half away from zero, uint8 (``unsigned``) half up; one quantisation."""
    if x.quantisation != out.quantisation:
        raise Unsupported("average pooling between different scales")
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
    uncertain = 0.0
    requants = {}
    for n in window.counts(x):
        divisor = area if count_include_pad else n
        requants[n], doubt = _float_average(x, out, n, divisor, ties_with_zero_point)
        uncertain = max(uncertain, doubt)
    channels = x.shape[3]
    layer.report(
        LayerExactness(
            layer.name,
            layer.semantics,
            channels,
            0 if uncertain else channels,
            1 if uncertain else 0,
            uncertain,
            "float32 sums in window order there, integer sums here",
        )
    )
    return layer.emit(AvgPool2D, [x.name], window.result(x), out.quantisation, requants=requants, **vars(window))


def _float_average(x: Operand, tail: Output, count: int, divisor: int, inside: bool) -> tuple[Requant, float]:
    """(requant, fraction of sums for which equality with ONNX Runtime is not certain).

    There: ``rint(float32 sum / divisor / scale_out + zero_point)``, the zero point added before (``inside``) or after
    rounding, the sum over dequantised values in window order.
    A sum is certain where no order of float32 additions can carry the value across a tie, or where the scales are
    powers of two and nothing is ever rounded. QLinearAveragePool adds the zero point before or after, as the shape and
    layout choose its kernel: ties that go either way are not certain.
    """
    out = tail.quantisation
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
    slack = (count + 4) * 2.0**-24 * (255.0 * count * float(ratio) + abs(out.zero_point) + 1)
    real = sums * (x.scale / divisor / out.scale) + out.zero_point
    between = (real > tail.lo) & (real < tail.hi)
    doubtful = between & (np.abs(real - np.floor(real) - 0.5) <= slack)
    doubt = 0.0 if exact_floats and tuned.exact.all() else max(float(doubtful.mean()), tuned.worst)
    if inside:
        after = np.clip(np.rint(value) + out.zero_point, tail.lo, tail.hi)
        doubt = max(doubt, float((after != wanted).mean()))
    channels = x.shape[3]
    requant = Requant(
        bias=np.full(channels, moved - x.zero_point * count, np.int32),
        multiplier=np.full(channels, tuned.multiplier[0], np.int32),
        shift=np.full(channels, tuned.shift[0], np.int32),
        offset=np.full(channels, tuned.offset[0], np.int32),
        rounding=tuned.rounding,
        zero_point=zero_point,
        lo=tail.lo,
        hi=tail.hi,
    )
    return requant, doubt


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
    window = Window((x.shape[1], x.shape[2]), (1, 1), (0, 0, 0, 0))
    return layer.emit(
        AvgPool2D, [x.name], (1, 1, 1, channels), out.quantisation, requants={count: requant}, **vars(window)
    )


def _float_mean(layer: Layer, x: Operand, out: Output, count: int) -> Requant:
    """ONNX Runtime's QLinearGlobalAveragePool: the integer sum times float32 scale_in / (scale_out * count)."""
    scale = np.float32(x.scale) / (np.float32(out.quantisation.scale) * np.float32(count))
    bias = np.full(x.shape[3], -x.zero_point * count, np.int64)
    low, high = bias - 128 * count, bias + 127 * count
    return float_requant(layer, np.full(x.shape[3], scale, np.float32), bias, low, high, out)
