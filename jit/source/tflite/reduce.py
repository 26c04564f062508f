"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN over rows, columns and channels of an image, in whatever order its axes are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import pool
from tilewright.jit.layers.builder import Operand
from tilewright.jit.numbers.scales import make_requant, mean_requant
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import View


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
    count = int(np.prod([x.shape[axis] for axis in gone]))
    channels = 1 if 3 in gone else x.shape[3]
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
    return [View(pool.summed(site, x, gone, requant, out).name, view.axes)]


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
    return [View(pool.extreme_over(site, x, gone, least).name, view.axes)]


def greatest(site: Site) -> list[View]:
    """REDUCE_MAX over rows, columns and channels"""
    return _extreme(site, least=False)


def least(site: Site) -> list[View]:
    """REDUCE_MIN over rows, columns and channels"""
    return _extreme(site, least=True)


RULES: dict[str, Callable[[Site], list[View]]] = {
    "MEAN": mean,
    "REDUCE_MAX": greatest,
    "REDUCE_MIN": least,
    "SUM": total,
}
