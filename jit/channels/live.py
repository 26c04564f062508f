"""Which channels must stay: those that reach an output of the graph, and those that an operator's form asks for."""

from __future__ import annotations

import math

import numpy as np

from tilewright.jit import graph as g
from tilewright.jit.ir.base import Mask, keep_at_least

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
    before = -1
    while (count := sum(int(mask.sum()) for mask in live.values())) != before:
        before = count
        for op in reversed(graph.ops):
            made = [live[name] for name in op.outputs]
            for mask in made:
                keep_at_least(mask, 1)
            op.keep([live[name] for name in op.inputs], made, block)
    return live
