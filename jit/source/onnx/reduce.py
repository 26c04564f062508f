"""Sums, means and extremes over axes of a tensor: ReduceMean, ReduceSum, ReduceMax, ReduceMin, GlobalMaxPool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import pool
from tilewright.jit.layers.builder import Operand, Output
from tilewright.jit.source.onnx import elements
from tilewright.jit.source.onnx.site import Site


def gone(site: Site) -> set[int]:
    """The axes of NHWC that the node reduces; raises Unsupported for others."""
    node, spec = site.node, site.values.specs[site.input(0)]
    rank = len(spec.shape)
    if node.kind.startswith("Global"):
        axes = list(range(2, rank))
    else:
        given = site.constant(1) if site.has(1) else np.asarray(node.attribute("axes", ()), np.int64)
        axes = [int(axis) % max(1, rank) for axis in given.reshape(-1)]
    if not axes:
        raise Unsupported(f"{site.kind} over no axes, or all")
    order = spec.order or tuple(range(rank))
    return {order.index(axis) + 4 - rank for axis in axes} - {0}


def extreme(site: Site, key: object, result: object) -> None:
    """``result`` holds the greatest or least of the 8-bit tensor ``key``; raises Unsupported."""
    found = pool.extreme_over(site, site.values.chip(key), gone(site), site.node.kind == "ReduceMin")
    elements.hold(site, result, found, _in_order(site, found))


def total(site: Site, x: Operand, axes: set[int], out: Output) -> str:
    """Sums or means of dequantised values, as ONNX Runtime adds them in float32."""
    found = pool.float_sum(site, x, axes, site.node.kind != "ReduceSum", out)
    return elements.straight(site, site.node.outputs[0], found, _in_order(site, found))


def _in_order(site: Site, found: Operand) -> NDArray[np.int64]:
    """The elements of what was reduced in the file's order."""
    spec = site.values.specs[site.input(0)]
    order = spec.order or tuple(range(len(spec.shape)))
    positions = np.arange(int(np.prod(found.shape))).reshape(found.shape[4 - len(order) :])
    return positions.transpose([order.index(axis) for axis in range(len(order))]).reshape(-1)
