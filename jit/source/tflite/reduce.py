"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN over rows, columns and channels of an image, in whatever order its axes are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.builder import Operand
from tilewright.jit.frontend.layers.elementwise import looked_up
from tilewright.jit.frontend.layers.pool import Window, max_pool
from tilewright.jit.graph import AvgPool2D, Conv2D
from tilewright.jit.numbers import make_requant, mean_requant
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import View

_NOT = np.arange(255, -1, -1).astype(np.uint8).view(np.int8)  #: -1 - x, of which the greatest is that of the least x
_MOST_TAPS = 1024  #: of a maximum: passes of ALU


def _source(site: Site) -> tuple[Operand, set[int], View]:
    """The image, the axes of it that go, and how what is left is a view."""
    site.same_kind(0)
    tensor, view = site.tensor(0), site.values.view(site.tensor(0).index)
    rank = len(tensor.shape)
    axes = sorted({int(a) % max(1, rank) for a in site.constant(1).reshape(-1)})
    if not axes:
        raise Unsupported("nothing to reduce")
    shape = site.builder.tensors[view.tensor].shape
    gone = [view.axes[a + 4 - rank] for a in axes]
    if not site.option("keepDims"):
        left = [axis for axis in view.axes if axis not in gone]
        ones = [axis for axis in view.axes if axis in gone]
        order = (*ones, *left)
        view = View(view.tensor, (order[0], order[1], order[2], order[3]))
    return Operand(view.tensor, shape, tensor.quantisation()), set(gone) - {0}, view


def _summed(site: Site, mean: bool) -> list[View]:
    x, gone, view = _source(site)
    out = site.output()
    counts = [size if axis in gone else 1 for axis, size in enumerate(x.shape)]
    count, channels = int(np.prod(counts)), 1 if 3 in gone else x.shape[3]
    if mean:
        q = out.quantisation
        requant = mean_requant(x.scale, x.zero_point, q.scale, q.zero_point, count, channels)
    else:
        requant = make_requant(
            float(np.float32(x.scale) / np.float32(out.quantisation.scale)), bias=-x.zero_point * count,
            rounding=Rounding.DOUBLE, zero_point=out.quantisation.zero_point, channels=channels, reach=255 * count,
        )  # fmt: skip
    requant = replace(requant, lo=out.lo, hi=out.hi)
    site.report_exact(channels)
    shape = tuple(1 if axis in gone else size for axis, size in enumerate(x.shape))
    if 3 in gone:
        weight = np.ones((1, counts[1], counts[2], x.shape[3]), np.int8)
        name = site.emit(Conv2D, [x.name], shape, out.quantisation, weight=weight, requant=requant)
    else:
        over = Window((counts[1], counts[2]), (1, 1), (0, 0, 0, 0))
        name = site.emit(AvgPool2D, [x.name], shape, out.quantisation, requants={count: requant}, **vars(over))
    return [View(name, view.axes)]


def mean(site: Site) -> list[View]:
    """MEAN over rows, columns and channels"""
    return _summed(site, mean=True)


def total(site: Site) -> list[View]:
    """SUM of uint8 over rows, columns and channels"""
    if site.tensor(0).dtype != "uint8":
        raise Unsupported("LiteRT's sum of int8, which takes negative numbers for others")
    return _summed(site, mean=False)


def _extreme(site: Site, least: bool) -> list[View]:
    x, gone, view = _source(site)
    kernel = x.shape[1] if 1 in gone else 1, x.shape[2] if 2 in gone else 1
    if 3 in gone or int(np.prod(kernel)) > _MOST_TAPS:
        raise Unsupported(f"an extreme over the axes {sorted(gone)} of shape {x.shape}")
    out = replace(site.output(), quantisation=x.quantisation)  # the integers, whatever the scales

    def turned(tensor: Operand) -> Operand:
        return replace(tensor, name=looked_up(site, tensor, out, _NOT)) if least else tensor

    shape = (1, x.shape[1] // kernel[0], x.shape[2] // kernel[1], x.shape[3])
    pooled = max_pool(site, turned(x), Window(kernel, (1, 1), (0, 0, 0, 0)), out)
    return [View(turned(Operand(pooled, shape, x.quantisation)).name, view.axes)]


def greatest(site: Site) -> list[View]:
    """REDUCE_MAX over rows and columns"""
    return _extreme(site, least=False)


def least(site: Site) -> list[View]:
    """REDUCE_MIN over rows and columns"""
    return _extreme(site, least=True)


RULES: dict[str, Callable[[Site], list[View]]] = {
    "MEAN": mean,
    "REDUCE_MAX": greatest,
    "REDUCE_MIN": least,
    "SUM": total,
}
