"""Channels that nobody reads, that are constant, or that equal others: the integer graph without them.

Exact for all inputs. Only weights move (:mod:`fold`), by what operators know of their channels; then channels
go that no weight but zero multiplies (:mod:`live`). ``docs/compiler.md`` has the rules. They stop where padding has
another value than a constant channel, a bias would leave int32, or a sum of weights the layer's bits; additions keep
alike channels in all their tensors, and a grouped convolution loses whole groups, or equally many channels of each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from tilewright.config import PARAMETERS
from tilewright.jit import graph as g
from tilewright.jit.channels.fold import fold
from tilewright.jit.channels.live import Live, live_channels
from tilewright.jit.ir.facts import Facts, unknown

__all__ = ["Reduced", "reduce_channels"]

#: channels of the largest block of any Config
WIDEST_BLOCK = max(PARAMETERS["block_in"].high, PARAMETERS["block_out"].high)


@dataclass(frozen=True)
class Reduced:
    """A graph with fewer channels, that gives the same outputs for all inputs.

    ``dropped``: by operator that lost channels of its output, how many were ``unread``, ``constant`` and ``duplicate``.
    """

    graph: g.Graph
    dropped: dict[str, dict[str, int]]


def reduce_channels(graph: g.Graph, block: int = WIDEST_BLOCK) -> Reduced:
    """The graph without the channels that its outputs do not need; inputs, outputs and host operators keep all.

    ``block``: channels of a block of the accelerator, which concatenations care for (:func:`live_channels`).
    """
    dropped: dict[str, Counter[str]] = {}
    while (smaller := _smaller(graph, block, dropped)) is not graph:  # weights that went were in the way of others
        graph = smaller
    reasons = ("unread", "constant", "duplicate")
    return Reduced(graph, {name: {why: n[why] for why in reasons if n[why]} for name, n in dropped.items()})


def _smaller(graph: g.Graph, block: int, dropped: dict[str, Counter[str]]) -> g.Graph:
    """The graph after one round, which counts in ``dropped``; the graph itself if nothing can go."""
    unread = live_channels(graph, block)
    folded, facts = _folded(graph)
    changed = any(new is not old for new, old in zip(folded.ops, graph.ops, strict=True))
    live = live_channels(folded, block) if changed else unread
    if all(mask.all() for mask in live.values()):
        return graph
    for op in graph.ops:
        gone = np.flatnonzero(~live[op.output]) if op.outputs else ()
        if len(gone):
            known, read = facts[op.output], unread[op.output]
            dropped.setdefault(op.name, Counter()).update(_why(bool(read[c]), known, int(c)) for c in gone)
    return _without(folded, live)


def _why(read: bool, known: Facts, channel: int) -> str:
    if read and known.constant[channel]:
        return "constant"
    return "duplicate" if read and known.same[channel] != channel else "unread"


def _folded(graph: g.Graph) -> tuple[g.Graph, dict[str, Facts]]:
    """The same graph with weights folded, operator by operator, and what is known of every tensor."""
    facts = {name: unknown(graph.tensors[name].shape) for name in graph.inputs}
    ops: list[g.Op] = []
    for op in graph.ops:
        inputs = [facts[name] for name in op.inputs]
        ops.append(fold(op, inputs[0]) if isinstance(op, g.Conv2D) else op)
        known = ops[-1].facts(*inputs)
        facts |= {name: known or unknown(graph.tensors[name].shape) for name in op.outputs}
    return replace(graph, ops=ops), facts


def _without(graph: g.Graph, live: Live) -> g.Graph:
    tensors = dict(graph.tensors)
    for name, mask in live.items():
        if not mask.all():
            tensors[name] = replace(tensors[name], shape=(*tensors[name].shape[:-1], int(mask.sum())))
    ops = [
        op.narrowed([live[name] for name in op.inputs], live[op.output], tensors[op.output].shape) if op.outputs else op
        for op in graph.ops
    ]
    return replace(graph, tensors=tensors, ops=ops)
