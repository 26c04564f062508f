"""Nodes whose results are elements of what they read, at places that follow from constants.

ONNX Runtime is asked where each element comes from.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import moves
from tilewright.jit.layers.builder import Operand
from tilewright.jit.source.boxes import asked, hold_box
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.site import Site
from tilewright.runtime import interpreters

Array = NDArray[np.generic]

_METHOD = "places asked of ONNX Runtime"


def take(site: Site, key: object, results: list[object]) -> None:
    """``results``, keys for what the node makes, have elements of the 8-bit tensor ``key``; raises Unsupported."""
    x, positions = _source(site, key)
    site.report_exact(x.shape[3], _METHOD)
    for result, found in zip(results, places(site), strict=True):
        if (found < 0).any():
            raise Unsupported(f"{site.kind} with elements of its own")
        hold(site, result, x, positions[found])


def padded(site: Site, key: object, x: Operand, fill: int) -> str:
    """``x``, arranged as the image of ``key`` is, with the node's padding: of ``fill``, or of its own elements."""
    (found,) = places(site)
    site.report_exact(x.shape[3], _METHOD)
    positions = np.where(found < 0, -1, site.values.own_places(key).reshape(-1)[found])
    return straight(site, site.node.outputs[0], x, positions, fill)


def hold(site: Site, result: object, x: Operand, positions: NDArray[np.int64]) -> None:
    """``result`` has its elements, in the file's order, at these places of ``x``; its axes may be in another order."""
    spec = site.values.specs[result]
    if not positions.size:
        raise Unsupported(f"{site.kind} to a tensor without elements")
    if not spec.has_image():
        hold_box(site, site.values, result, x, positions.reshape(spec.shape))
        return
    try:
        found = moves.moved(site, x, _image(site, result, positions))
    except Unsupported as error:
        try:
            hold_box(site, site.values, result, x, positions.reshape(spec.shape))
        except Unsupported:
            raise error from None
    else:
        _set(site, result, *found)


def straight(site: Site, result: object, x: Operand, positions: NDArray[np.int64], fill: int = 0) -> str:
    """The image with these elements of ``x``; raises Unsupported where its axes would be in another order."""
    tensor, axes = moves.moved(site, x, _image(site, result, positions), fill)
    if axes != (0, 1, 2, 3):
        raise Unsupported(f"{site.kind} between different layouts")
    return tensor


def places(site: Site) -> list[NDArray[np.int64]]:
    """For each result, the place in input 0 (counted in the file's order) of each of its elements; -1 for others'."""
    node, prepared = site.node, site.prepared
    name = site.input(0)
    others = [t for t in node.reads if t != name and t not in prepared.constants]
    ahead = [prepared.producers.get(t) for t in others]
    fixed = [n for n in ahead if n is not None and all(t in prepared.constants for t in n.reads)]
    if len(fixed) < len(others) or name in node.inputs[1:]:
        raise Unsupported(f"{site.kind} whose places are computed")
    dtype, shape = prepared.types[name]
    run = interpreters.load("onnxruntime", cut(prepared, [*fixed, node], [name], list(node.makes), {}), site.name)

    def moved(values: NDArray[np.uint8]) -> list[Array]:
        given = values.astype(np.float32) if dtype == "float32" else values.view(dtype)
        results = run([given.reshape(shape)])
        return results if dtype == "float32" else [result.view(np.uint8) for result in results]

    return asked(moved, math.prod(shape))


def _source(site: Site, key: object) -> tuple[Operand, NDArray[np.int64]]:
    """The accelerator's image of a tensor, and where in it each element is, in the file's order."""
    values, numbers = site.values, site.values.specs[key].quantisation
    tensor, positions = values.places(key)
    assert numbers is not None
    return Operand(tensor, site.builder.tensors[tensor].shape, numbers), positions.reshape(-1)


def _image(site: Site, result: object, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in the file's shape of ``result`` as NHWC."""
    spec = site.values.specs[result]
    shape = spec.chip_shape()
    return positions.reshape(spec.shape).transpose(spec.order or range(len(spec.shape))).reshape(shape)


def _set(site: Site, result: object, tensor: str, axes: moves.Axes) -> None:
    """``result`` is a tensor with its axes in another order, which somebody may be able to do without."""
    values = site.values
    if axes == (0, 1, 2, 3):
        values.set_chip(result, tensor)
        return
    shape = site.builder.tensors[tensor].shape
    image = np.arange(math.prod(shape)).reshape(shape).transpose(axes)
    values.gather(result, tensor, image.reshape(-1)[values.own_places(result)])
