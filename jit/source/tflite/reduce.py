"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN over rows, columns and channels of an image, in whatever order its axes are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import pool
from tilewright.jit.layers.builder import Operand
from tilewright.jit.numbers.scales import make_requant, mean_requant
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View


@dataclass(frozen=True)
class _Over:
    """What is reduced: the image and the axes of it that go. ``view``: how what is left is one, where it is."""

    x: Operand
    gone: set[int]
    view: View | None

    def result(self, site: Site, tensor: str) -> list[str | View | Rearranged]:
        """The result, which ``tensor`` is with ones in the place of axes that go."""
        if self.view is not None:
            return [View(tensor, self.view.axes)]
        return [site.in_order(tensor)]


def _source(site: Site) -> _Over:
    site.same_kind(0)
    tensor = site.tensor(0)
    view = site.values.view(tensor.index) if site.image is None else View(site.image.name, (0, 1, 2, 3))
    rank = len(tensor.shape)
    axes = sorted({int(a) % max(1, rank) for a in site.constant(1).reshape(-1)})
    if not axes:
        raise Unsupported("nothing to reduce")
    if site.image is not None and 0 in axes:
        raise Unsupported("a reduction across images")
    x = Operand(view.tensor, site.builder.tensors[view.tensor].shape, tensor.quantisation())
    if site.image is None and not site.values.specs[tensor.index].has_image():
        return _Over(x, _gone_of_rows(tensor.shape, axes), None)
    gone = [view.axes[a + 4 - rank] for a in axes]
    if not site.option("keepDims"):
        left = [axis for axis in view.axes if axis not in gone]
        ones = [axis for axis in view.axes if axis in gone]
        order = (*ones, *left)
        view = View(view.tensor, (order[0], order[1], order[2], order[3]))
    return _Over(x, set(gone) - {0}, view)


def _gone_of_rows(shape: tuple[int, ...], axes: list[int]) -> set[int]:
    """The axes that go of a tensor of any rank whose axes ahead of the last two are rows: of these all or none."""
    rank = len(shape)
    ahead = [axis for axis in range(rank - 2) if shape[axis] > 1]
    going = [axis for axis in ahead if axis in axes]
    if going and going != ahead:
        raise Unsupported(f"a reduction of shape {shape} over the axes {axes}")
    return {axis + 4 - rank for axis in axes if axis >= rank - 2} | ({1} if going else set())


def _summed(site: Site, mean: bool) -> list[str | View | Rearranged]:
    over = _source(site)
    x, gone = over.x, over.gone
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
    return over.result(site, pool.summed(site, x, gone, requant, out).name)


def mean(site: Site) -> list[str | View | Rearranged]:
    """MEAN over rows, columns and channels"""
    return _summed(site, mean=True)


def total(site: Site) -> list[str | View | Rearranged]:
    """SUM of uint8 over rows, columns and channels"""
    if site.tensor(0).dtype != "uint8":
        raise Unsupported("LiteRT's sum of int8, which takes negative numbers for others")
    return _summed(site, mean=False)


def _extreme(site: Site, least: bool) -> list[str | View | Rearranged]:
    over = _source(site)
    if over.x.quantisation != site.result.quantisation():  # which LiteRT compares when it runs
        raise Unsupported("a change of scale within a reduction to an extreme")
    return over.result(site, pool.extreme_over(site, over.x, over.gone, least).name)


def greatest(site: Site) -> list[str | View | Rearranged]:
    """REDUCE_MAX over rows, columns and channels"""
    return _extreme(site, least=False)


def least(site: Site) -> list[str | View | Rearranged]:
    """REDUCE_MIN over rows, columns and channels"""
    return _extreme(site, least=True)
