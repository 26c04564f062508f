"""Operators that hand elements on unchanged."""

from __future__ import annotations

from tilewright.jit.graph import Reshape
from tilewright.jit.layers.builder import GraphBuilder
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.values import PreparedValues
from tilewright.jit.source.values import FileTensor


def hand_on(builder: GraphBuilder, values: PreparedValues, node: Node, source: object, result: object) -> None:
    """``result`` is ``source`` under another shape or, for Transpose, with its axes in another order.

    Nothing is computed where the accelerator's layout of both is the same, and nothing before somebody asks for it.
    """
    before, after = values.specs[source], values.specs[result]
    images = before.has_image() and after.has_image()
    if node.kind == "Transpose":
        permutation = tuple(node.attribute("perm", tuple(reversed(range(len(before.shape))))))
        moves = tuple(permutation[a] for a in _axes(after)) != _axes(before)
        if moves or source in values.rearranged or values.is_pending(source) or not images:
            values.rearrange(result, source, permutation)
        else:
            values.chips[result] = values.chip(source).name
    elif source in values.rearranged:
        values.rearrange(result, source, None)
    elif before.shape == after.shape and _axes(before) == _axes(after):
        values.chips[result] = values.chip(source).name
    elif _keeps_order(before) and _keeps_order(after) and not values.is_pending(source) and images:
        x, shape = values.chip(source), after.chip_shape()
        values.chips[result] = (
            x.name
            if x.shape == shape
            else builder.append(Reshape, f"reshape_{x.name}", [x.name], shape, like=x.quantisation, shape=shape)
        )
    else:
        values.set_reshaped(result, source)


def _axes(spec: FileTensor) -> tuple[int, ...]:
    return spec.order or tuple(range(len(spec.shape)))


def _keeps_order(spec: FileTensor) -> bool:
    """Whether the elements come in the same order on the accelerator as in the file."""
    moving = [axis for axis in _axes(spec) if spec.shape[axis] > 1]
    return moving == sorted(moving)
