"""Functions of single elements in another place: in the layer that makes what they read, in the operator that reads
what they make, behind a pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.substitute.looked_up import VALUES, Table, is_function, look_up, table_of
from tilewright.jit.substitute.rewrite import rewritten, sole_reader

_LEAST, _MOST = -128, 127


def clamp_in_layer(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """A constant added and a clamp, behind a layer that adds and clamps itself, are that layer's own.

    ``clip(clip(r + z, lo, hi) + c, a, b) = clip(r + z + c, clip(lo + c, a, b), clip(hi + c, a, b))``.
    """
    f = _function(graph, op)
    maker = None if f is None else graph.producer(op.inputs[0])
    if f is None or maker is None or sole_reader(graph, op.inputs[0]) is not op:
        return None
    made = _clamped_layer(maker, f)
    return None if made is None else rewritten(graph, {maker.name: [replace(made, output=op.output)], op.name: []})


def table_where_read(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """A function whose result one sum, product, extreme or concatenation reads is the table of that operand."""
    f = _function(graph, op)
    reader = sole_reader(graph, op.output)
    if f is None or reader is None:
        return None
    mine = [name == op.output for name in reader.inputs]
    inputs = [op.inputs[0] if here else name for here, name in zip(mine, reader.inputs, strict=True)]
    if isinstance(reader, g.Pairwise):
        a, b, *more = (_after(f, scale) if mine[k] else scale for k, scale in reader.terms)
        made = replace(reader, inputs=inputs, scale_a=a, scale_b=b)
        if isinstance(made, g.Add):
            corrections = tuple((k, scale) for (k, _), scale in zip(made.corrections, more, strict=True))
            made = replace(made, corrections=corrections)
        return rewritten(graph, {reader.name: [made], op.name: []})
    if isinstance(reader, g.Concat):
        copied = (IDENTITY_SCALE, identity_requant(graph.tensors[op.output].shape[-1]))
        parts = list(reader.parts)
        for k, (here, part) in enumerate(zip(mine, reader.parts, strict=True)):
            scale, requant = part or copied
            parts[k] = (_after(f, scale), requant) if here else part
        return rewritten(graph, {reader.name: [replace(reader, inputs=inputs, parts=parts)], op.name: []})
    return None


def function_behind_pool(graph: g.Graph, op: g.Op) -> g.Graph | None:
    """A function that never falls, read by a maximum of windows, is looked up for the maxima alone."""
    f = _function(graph, op)
    pool = sole_reader(graph, op.output)
    if f is None or not isinstance(pool, g.MaxPool2D) or (np.diff(_rising(f)) < 0).any():
        return None
    if any(pad >= size for pad, size in zip(pool.padding, 2 * pool.kernel, strict=True)):
        return None  # a window may reach no element, whose maximum is none of the function's values
    spec = graph.tensors[pool.output]
    between = replace(spec, name=f"{spec.name}, before {op.name}")
    first = replace(pool, inputs=op.inputs, output=between.name, lo=_LEAST, hi=_MOST)
    second = look_up(graph, op, between.name, spec.name, np.clip(f, pool.lo, pool.hi).astype(np.int8))
    return rewritten(graph, {op.name: [], pool.name: [first, second]}, between)


def _function(graph: g.Graph, op: g.Op) -> Table | None:
    """The table of an operator that is one function of single elements; None of any other."""
    return table_of(op, [VALUES]) if isinstance(op, g.Requantize) and is_function(graph, op) else None


def _after(f: Table, scale: g.Scale) -> g.Scale:
    """The scale of what a function gives."""
    values = f if scale.table is None else np.frombuffer(scale.table, np.int8)[f.view(np.uint8)]
    return replace(scale, table=values.tobytes())


def _rising(f: Table) -> NDArray[np.int32]:
    """What a function gives for -128 .. 127."""
    return np.roll(f, _LEAST).astype(np.int32)


def _clamped_layer(layer: g.Op, f: Table) -> g.Op | None:
    """A layer with a function behind it as one; None where it does not requantise, or that is more than a clamp."""
    if isinstance(layer, (g.Conv2D, g.DepthwiseConv2D, g.MatMul, g.Pairwise, g.Resample)):
        requant = _clamped(layer.requant, f)
        return None if requant is None else replace(layer, requant=requant)
    if isinstance(layer, g.AvgPool2D):
        clamped = {count: _clamped(requant, f) for count, requant in layer.requants.items()}
        requants = {count: requant for count, requant in clamped.items() if requant is not None}
        return replace(layer, requants=requants) if len(requants) == len(clamped) else None
    return None


def _clamped(requant: g.Requant, f: Table) -> g.Requant | None:
    """A requantisation with a function behind it as one; None where that is more than a sum and a clamp."""
    there = np.arange(requant.lo, requant.hi + 1)
    seen = _rising(f)[there - _LEAST]
    rises = int(np.argmax(seen > seen[0]))  # where it leaves its least value; 0 if it never does
    moved = int(seen[rises] - there[rises])
    zero_point = requant.zero_point + moved
    if not (np.clip(there + moved, seen[0], seen[-1]) == seen).all() or not _LEAST <= zero_point <= _MOST:
        return None
    return replace(requant, zero_point=zero_point, lo=int(seen[0]), hi=int(seen[-1]))
