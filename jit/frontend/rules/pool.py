"""Average, maximum and global pooling, and the mean over space."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tilewright.jit import compat
from tilewright.jit.compat import Expr
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.float_scaling import tune
from tilewright.jit.frontend.rules.common import Result, Rule, clip, integer_clip, result, results_of, tensor
from tilewright.jit.frontend.scaling import float_requant
from tilewright.jit.frontend.site import LITERT, Operand, Site
from tilewright.jit.graph import AvgPool2D, MaxPool2D, Requant
from tilewright.jit.numbers import average_requant, mean_requant
from tilewright.jit.reference import valid_counts


def _window(site: Site, pool: Expr) -> dict[str, tuple[int, ...]]:
    attrs = pool.attrs
    if str(attrs.layout) != "NHWC":
        raise Unsupported(f"pooling in layout {attrs.layout}")
    if any(d != 1 for d in compat.ints(attrs.dilation)):
        raise Unsupported("pooling with dilation")
    window = {
        "kernel": compat.ints(attrs.pool_size),
        "strides": compat.ints(attrs.strides),
        "padding": compat.ints(attrs.padding),
    }
    height, width = compat.shape(site.argument(pool))[1:3]
    top, left, bottom, right = window["padding"]
    for size, kernel, stride, out in zip(
        (height + top + bottom, width + left + right),
        window["kernel"],
        window["strides"],
        compat.shape(pool)[1:3],
        strict=True,
    ):
        if (size - kernel) // stride + 1 != out:
            raise Unsupported("pooling in ceil mode with windows that reach past the padding")
    return window


def counts(x: Operand, window: dict[str, tuple[int, ...]]) -> list[int]:
    """The numbers of valid elements that windows over ``x`` have."""
    probe = AvgPool2D(name="", inputs=[], output="", requants={}, **window)  # type: ignore[arg-type]
    return sorted({int(n) for n in np.unique(valid_counts((x.shape[1], x.shape[2]), probe))} - {0})


def _report(site: Site, channels: int) -> None:
    site.builder.exactness.append(LayerExactness(site.name, site.semantics, channels, channels))


def lower_integer_average(site: Site) -> str:
    """The TFLite importer's AVERAGE_POOL_2D: astype(int32) -> avg_pool2d -> astype(int8) [-> clip].

    Lowered as TFLite defines it (half away from zero), not as the importer wrote it (truncation).
    """
    narrowed, lo, hi = integer_clip(site, site.root)
    pool = site.argument(narrowed)
    x = site.tensor(site.argument(pool).args[0])
    window = _window(site, pool)
    requants = {n: average_requant(n, x.shape[3], lo, hi) for n in counts(x, window)}
    _report(site, x.shape[3])
    return site.emit(AvgPool2D, [x.name], compat.shape(pool), x.quantisation, requants=requants, **window)


def lower_integer_maximum(site: Site) -> str:
    """max_pool2d on integers [-> clip]."""
    pool, lo, hi = integer_clip(site, site.root)
    x = site.tensor(pool.args[0])
    _report(site, x.shape[3])
    return site.emit(MaxPool2D, [x.name], compat.shape(pool), x.quantisation, lo=lo, hi=hi, **_window(site, pool))


def lower_maximum(site: Site) -> str:
    """dequantize -> max_pool2d -> quantize with the same scale and zero point."""
    tail = result(site)
    pool = site.value(tail.inner)
    x = site.dequantised(pool.args[0])
    if x.quantisation != tail.quantisation:
        raise Unsupported("maximum pooling between different scales")
    _report(site, x.shape[3])
    window = _window(site, pool)
    return site.emit(MaxPool2D, [x.name], compat.shape(pool), tail.quantisation, lo=tail.lo, hi=tail.hi, **window)


def lower_average(site: Site) -> str:
    """dequantize -> avg_pool2d -> quantize: ONNX Runtime's QLinearAveragePool."""
    tail = result(site)
    pool = site.value(tail.inner)
    x = site.dequantised(pool.args[0])
    if site.semantics == LITERT:
        raise Unsupported("average pooling of dequantised tensors, which TFLite does not have")
    window = _window(site, pool)
    include = bool(pool.attrs.count_include_pad)
    area = window["kernel"][0] * window["kernel"][1]
    uncertain = 0.0
    requants = {}
    for n in counts(x, window):
        requants[n], doubt = _float_average(x, tail, n, area if include else n)
        uncertain = max(uncertain, doubt)
    channels = x.shape[3]
    site.builder.exactness.append(
        LayerExactness(
            site.name,
            site.semantics,
            channels,
            0 if uncertain else channels,
            1 if uncertain else 0,
            uncertain,
            "float32 sums in window order there, integer sums here",
        )
    )
    return site.emit(AvgPool2D, [x.name], compat.shape(pool), tail.quantisation, requants=requants, **window)


def _float_average(x: Operand, tail: Result, count: int, divisor: int) -> tuple[Requant, float]:
    """(requant, fraction of sums for which equality with ONNX Runtime is not certain).

    There: ``rint(float32 sum / divisor / scale_out + zero_point)``, the sum over dequantised values in window order.
    A sum is certain where no order of float32 additions can carry the value across a tie, or where the scales are
    powers of two and nothing is ever rounded.
    """
    out = tail.quantisation
    sums = np.arange(-128 * count, 127 * count + 1, dtype=np.int64) - x.zero_point * count
    f = np.float32
    value = sums.astype(f) * f(x.scale) / f(divisor) / f(out.scale) + f(out.zero_point)
    wanted = np.clip(np.rint(value), tail.lo, tail.hi).astype(np.int64)
    levels = np.arange(tail.lo + 1, tail.hi + 1)
    table = (sums[0] + np.searchsorted(wanted, levels, side="left")).astype(np.int64)[None, :]
    low, high = sums[:1], sums[-1:]
    ratio = f(x.scale) / (f(out.scale) * f(divisor))
    tuned = tune([ratio], low, high, out.zero_point, tail.lo, tail.hi, table)
    zero_point, moved = out.zero_point, 0
    step = out.zero_point * divisor * out.scale / x.scale
    if not tuned.exact.all() and step.is_integer():
        # ties are decided after the zero point is added: add it to the sum, where it is a whole number
        shifted = tune([ratio], low + int(step), high + int(step), 0, tail.lo, tail.hi, table + int(step))
        if shifted.exact.all():
            tuned, zero_point, moved = shifted, 0, int(step)
    exact_floats = all(math.frexp(v)[0] == 0.5 for v in (x.scale, out.scale, float(divisor)))
    slack = (count + 4) * 2.0**-24 * (255.0 * count * float(ratio) + abs(out.zero_point) + 1)
    real = sums * (x.scale / divisor / out.scale) + out.zero_point
    inside = (real > tail.lo) & (real < tail.hi)
    doubtful = inside & (np.abs(real - np.floor(real) - 0.5) <= slack)
    doubt = 0.0 if exact_floats and tuned.exact.all() else max(float(doubtful.mean()), tuned.worst)
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


def lower_mean(site: Site) -> str:
    """dequantize -> mean over height and width -> quantize."""
    tail = result(site)
    mean = site.value(tail.inner)
    x = site.dequantised(mean.args[0])
    rank = len(compat.shape(site.value(mean.args[0])))
    axes = sorted(a % rank for a in compat.ints(mean.attrs.axis)) if mean.attrs.axis is not None else list(range(rank))
    if rank != 4 or axes != [1, 2]:
        raise Unsupported(f"mean over the axes {axes} of a tensor of rank {rank}")
    count, channels = x.shape[1] * x.shape[2], x.shape[3]
    out = tail.quantisation
    if site.semantics == LITERT:
        requant = mean_requant(x.scale, x.zero_point, out.scale, out.zero_point, count, channels)
        requant = replace(requant, lo=tail.lo, hi=tail.hi)
        _report(site, channels)
    else:
        requant = _float_mean(site, x, tail, count)
    return site.emit(
        AvgPool2D,
        [x.name],
        (1, 1, 1, channels),
        out,
        kernel=(x.shape[1], x.shape[2]),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        requants={count: requant},
    )


def _float_mean(site: Site, x: Operand, tail: Result, count: int) -> Requant:
    """ONNX Runtime's QLinearGlobalAveragePool: the integer sum times float32 scale_in / (scale_out * count)."""
    scale = np.float32(x.scale) / (np.float32(tail.quantisation.scale) * np.float32(count))
    bias = np.full(x.shape[3], -x.zero_point * count, np.int64)
    low, high = bias - 128 * count, bias + 127 * count
    return float_requant(site, np.full(x.shape[3], scale, np.float32), bias, low, high, tail)


_CAST = compat.is_op("relax.astype")
_INTEGER_AVERAGE = _CAST(compat.is_op("relax.nn.avg_pool2d")(_CAST(compat.wildcard())))
_MAXIMUM = compat.is_op("relax.nn.max_pool2d")

RULES = (
    Rule("tilewright.average_pool2d_int", (clip(_INTEGER_AVERAGE), _INTEGER_AVERAGE), lower_integer_average),
    Rule("tilewright.average_pool2d", results_of(compat.is_op("relax.nn.avg_pool2d")(tensor())), lower_average),
    Rule("tilewright.max_pool2d", results_of(_MAXIMUM(tensor())), lower_maximum),
    Rule(
        "tilewright.max_pool2d_int",
        (clip(_MAXIMUM(compat.wildcard())), _MAXIMUM(compat.wildcard())),
        lower_integer_maximum,
    ),
    Rule("tilewright.mean", results_of(compat.is_op("relax.mean")(tensor())), lower_mean),
)
