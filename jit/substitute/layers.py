"""Layers in other forms: a kernel of single channels as one of all, a pointwise layer ahead of the repetition of
pixels, layers beside each other as one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.jit import graph as g
from tilewright.jit.substitute.rewrite import rewritten, sole_reader

#: channels of a layer on single channels beyond which its kernel as one of all channels is never cheaper
_FEW = 32


def depthwise_as_dense(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """A layer on single channels as a convolution in as many groups, which the array multiplies as a dense one."""
    if not isinstance(op, g.DepthwiseConv2D) or op.weight.shape[2] > _FEW:
        return None
    dense = g.Conv2D(
        name=op.name, inputs=op.inputs, output=op.output, source=op.source, covers=op.covers,
        weight=op.weight.transpose(2, 0, 1)[..., None], requant=op.requant, strides=op.strides, dilation=op.dilation,
        padding=op.padding, pad_value=op.pad_value, groups=op.weight.shape[2],
    )  # fmt: skip
    return rewritten(graph, {op.name: [dense]})


def pointwise_ahead_of_repetition(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """A pointwise layer on an image whose pixels are repeated gives what repeating its results gives."""
    if not isinstance(op, g.Conv2D) or op.weight.shape[1:3] != (1, 1) or any(op.padding) or op.transposed:
        return None
    wide = graph.producer(op.inputs[0])
    if op.strides != (1, 1) or not isinstance(wide, g.Resample) or sole_reader(graph, wide.output) is not op:
        return None
    if not _repeats(wide):
        return None
    spec = graph.tensors[op.output]
    n, height, width, _ = graph.tensors[wide.inputs[0]].shape
    between = replace(spec, name=f"{spec.name}, once", shape=(n, height, width, spec.shape[-1]))
    first = replace(op, inputs=wide.inputs, output=between.name)
    alike = wide.requant.of(np.zeros(spec.shape[-1], np.int64))
    second = replace(wide, inputs=[between.name], output=spec.name, requant=alike)
    return rewritten(graph, {wide.name: [], op.name: [first, second]}, between)


def layers_joined(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """Two convolutions of one tensor that differ in weights alone, next to each other in a concatenation, are one."""
    if not isinstance(op, g.Concat):
        return None
    makers = [graph.producer(name) for name in op.inputs]
    for k, (a, b) in enumerate(itertools.pairwise(makers)):
        if not isinstance(a, g.Conv2D) or not isinstance(b, g.Conv2D) or op.parts[k : k + 2] != [None, None]:
            continue
        here_alone = all(sole_reader(graph, t) is op and op.inputs.count(t) == 1 for t in (a.output, b.output))
        if here_alone and _alike(a, b):
            return _joined(graph, op, k, a, b)
    return None


def _joined(graph: g.Graph, op: g.Concat, k: int, a: g.Conv2D, b: g.Conv2D) -> g.Graph:
    """Parts k and k + 1 of a concatenation as one layer, where the later was; that alone if no other part is left."""
    first, second = (graph.tensors[layer.output] for layer in (a, b))
    shape = (*first.shape[:-1], first.shape[-1] + second.shape[-1])
    both = replace(first, name=f"{first.name}, {second.name}", shape=shape)
    earlier, later = (a, b) if graph.ops.index(a) < graph.ops.index(b) else (b, a)
    alone = len(op.inputs) == 2
    layer = replace(
        later, name=f"{a.name}, {b.name}", output=op.output if alone else both.name, covers=(*a.covers, *b.covers),
        weight=np.concatenate([a.weight, b.weight]), requant=_beside(a.requant, b.requant),
    )  # fmt: skip
    rest = replace(
        op, inputs=[*op.inputs[:k], both.name, *op.inputs[k + 2 :]], parts=[*op.parts[:k], *op.parts[k + 1 :]]
    )
    return rewritten(graph, {earlier.name: [], later.name: [layer], op.name: [] if alone else [rest]}, both)


def _alike(a: g.Conv2D, b: g.Conv2D) -> bool:
    """Whether two layers compute the same windows of the same tensor and clamp alike."""
    fields = ("inputs", "strides", "dilation", "padding", "pad_value", "groups", "spread")
    numbers = ("rounding", "zero_point", "lo", "hi")
    return (
        a.groups == 1 and a.weight.shape[1:] == b.weight.shape[1:] and a.weight.dtype == b.weight.dtype
        and all(getattr(a, field) == getattr(b, field) for field in fields)
        and all(getattr(a.requant, field) == getattr(b.requant, field) for field in numbers)
    )  # fmt: skip


def _beside(a: g.Requant, b: g.Requant) -> g.Requant:
    """The requantisation of channels of one behind those of another."""
    names = ("bias", "multiplier", "shift", "offset")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(a, name), getattr(b, name)]) for name in names}
    return replace(a, **arrays)


def _repeats(op: g.Resample) -> bool:
    """Whether each pixel of the result is one of the input, as it is."""
    one = op.rows.selects.all() and op.columns.selects.all()
    every = np.arange(-128, 128)
    same = op.requant.of(slice(0, 1)).apply((every - op.offset)[:, None])[:, 0] == every
    return bool(one and op.requant.uniform and same.all())
