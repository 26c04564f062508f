"""Average, maximum and global pooling, and the mean over space."""

from __future__ import annotations

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import pool as layers
from tilewright.jit.layers.builder import Output
from tilewright.jit.layers.pool import Window
from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr
from tilewright.jit.relax.rules.common import Rule, clip, integer_clip, result, results_of, tensor
from tilewright.jit.relax.site import Site


def _window(site: Site, pool: Expr) -> Window:
    attrs = pool.attrs
    if str(attrs.layout) != "NHWC" or str(attrs.out_layout) != "NHWC":
        raise Unsupported(f"pooling from layout {attrs.layout} to {attrs.out_layout}")
    if any(d != 1 for d in compat.ints(attrs.dilation)):
        raise Unsupported("pooling with dilation")
    kernel, strides = compat.ints(attrs.pool_size), compat.ints(attrs.strides)
    top, left, bottom, right = compat.ints(attrs.padding)
    height, width = compat.shape(site.argument(pool))[1:3]
    for size, k, stride, out in zip(
        (height + top + bottom, width + left + right), kernel, strides, compat.shape(pool)[1:3], strict=True
    ):
        if (size - k) // stride + 1 != out:
            raise Unsupported("pooling in ceil mode with windows that reach past the padding")
    return Window((kernel[0], kernel[1]), (strides[0], strides[1]), (top, left, bottom, right))


def lower_integer_average(site: Site) -> str:
    """The TFLite importer's AVERAGE_POOL_2D: astype(int32) -> avg_pool2d -> astype(int8) [-> clip].

    Lowered as TFLite defines it (half away from zero), not as the importer wrote it (truncation).
    """
    narrowed, lo, hi = integer_clip(site, site.root)
    pool = site.argument(narrowed)
    widened = site.argument(pool)
    kinds = [compat.dtype(e) for e in (widened.args[0], widened, site.value(narrowed))]
    if kinds != ["int8", "int32", "int8"]:
        raise Unsupported(f"average pooling of {kinds[0]} by way of {kinds[1]} to {kinds[2]}")
    window = _window(site, pool)
    if pool.attrs.count_include_pad and any(window.padding):
        raise Unsupported("an integer average that counts the padding")
    x = site.tensor(widened.args[0])
    return layers.average_pool_litert(site, x, window, Output(x.quantisation, lo, hi))


def lower_integer_maximum(site: Site) -> str:
    """max_pool2d on integers [-> clip]."""
    pool, lo, hi = integer_clip(site, site.root)
    x = site.tensor(pool.args[0])
    return layers.max_pool(site, x, _window(site, pool), Output(x.quantisation, lo, hi))


def lower_maximum(site: Site) -> str:
    """dequantize -> max_pool2d -> quantize with the same scale and zero point."""
    tail = result(site)
    pool = site.value(tail.inner)
    return layers.max_pool(site, site.dequantised(pool.args[0]), _window(site, pool), tail)


def lower_mean(site: Site) -> str:
    """dequantize -> mean over height and width -> quantize."""
    tail = result(site)
    mean = site.value(tail.inner)
    x = site.dequantised(mean.args[0])
    rank = len(compat.shape(site.value(mean.args[0])))
    axes = sorted(a % rank for a in compat.ints(mean.attrs.axis)) if mean.attrs.axis is not None else list(range(rank))
    if rank != 4 or axes != [1, 2]:
        raise Unsupported(f"mean over the axes {axes} of a tensor of rank {rank}")
    return layers.global_mean(site, x, tail)


_CAST = compat.is_op("relax.astype")
_INTEGER_AVERAGE = _CAST(compat.is_op("relax.nn.avg_pool2d")(_CAST(compat.wildcard())))
_MAXIMUM = compat.is_op("relax.nn.max_pool2d")

RULES = (
    Rule("tilewright.average_pool2d_int", (clip(_INTEGER_AVERAGE), _INTEGER_AVERAGE), lower_integer_average),
    Rule("tilewright.max_pool2d", results_of(_MAXIMUM(tensor())), lower_maximum),
    Rule(
        "tilewright.max_pool2d_int",
        (clip(_MAXIMUM(compat.wildcard())), _MAXIMUM(compat.wildcard())),
        lower_integer_maximum,
    ),
    Rule("tilewright.mean", results_of(compat.is_op("relax.mean")(tensor())), lower_mean),
)
