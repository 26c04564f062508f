"""Which channels must stay: those that reach an output of the graph, and those that an operator's form asks for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g

Mask = NDArray[np.bool_]
Live = dict[str, Mask]  #: by tensor, whether each channel stays


def live_channels(graph: g.Graph, block: int) -> Live:
    """The least channels that stay, by tensor: at least one of each, all of the graph's inputs and outputs.

    A convolution reads the channels that it multiplies by anything but zero for an output channel that stays. Tensors
    that other operators join keep alike channels. A part of a concatenation that fills whole blocks of ``block``
    channels still does afterwards: what follows it begins with a block, which costs no copy.
    """
    names = dict.fromkeys([*graph.inputs, *graph.outputs, *(t for op in graph.ops for t in (*op.inputs, *op.outputs))])
    live: Live = {name: np.zeros(math.prod(graph.tensors[name].shape[-1:]), np.bool_) for name in names}
    for name in [*graph.inputs, *graph.outputs]:
        live[name][:] = True
    reads = {op.name: np.any(op.weight, axis=(1, 2)) for op in graph.ops if isinstance(op, g.Conv2D)}
    before = -1
    while (count := sum(int(mask.sum()) for mask in live.values())) != before:
        before = count
        for op in reversed(graph.ops):
            for name in op.outputs:
                _fill(live[name], 1)
            if isinstance(op, g.Conv2D):
                _convolution(live[op.inputs[0]], live[op.output], reads[op.name], op.groups)
            elif isinstance(op, g.Concat):
                _concat([live[name] for name in op.inputs], live[op.output], block)
            elif isinstance(op, g.Reshape):
                _reshape(live[op.inputs[0]], live[op.output])
            elif isinstance(op, (*g.HOST_KINDS, g.Recurrent, g.MatMul, g.PartialSums, g.Total)):
                for name in (*op.inputs, *op.outputs):
                    live[name][:] = True
            else:
                _alike([live[name] for name in (*op.inputs, op.output)])
    return live


def _fill(mask: Mask, count: int) -> None:
    """More channels, the first that are not there, up to a count."""
    mask[np.flatnonzero(~mask)[: max(0, count - int(mask.sum()))]] = True


def _convolution(source: Mask, out: Mask, reads: Mask, groups: int) -> None:
    """``reads``: (OC, IC / groups). Groups go as a whole or stay, with as many channels of each as of any other."""
    sides = source, out = source.reshape(groups, -1), out.reshape(groups, -1)
    for group, used in enumerate(reads.reshape(*out.shape, -1)):
        source[group] |= used[out[group]].any(axis=0)
    if groups > 1:
        stay = np.flatnonzero(source.any(axis=1) | out.any(axis=1))
        for side in sides:
            for number in stay:
                _fill(side[number], max(1, *side.sum(axis=1).tolist()))


def _concat(inputs: list[Mask], out: Mask, block: int) -> None:
    parts = np.split(out, np.cumsum([len(mask) for mask in inputs])[:-1])
    for number, (mask, part) in enumerate(zip(inputs, parts, strict=True)):
        _alike([mask, part])
        if number + 1 < len(inputs) and len(part) % block == 0:
            _fill(part, -(-int(part.sum()) // block) * block)


def _reshape(source: Mask, out: Mask) -> None:
    """Where pixels are put together, a channel goes with all its pixels; where they are cut up, all stay."""
    if len(out) % len(source):
        source[:], out[:] = True, True
    else:
        _alike([source, *out.reshape(-1, len(source))])


def _alike(masks: list[Mask]) -> None:
    together = np.logical_or.reduce(masks)
    for mask in masks:
        mask[:] = together
