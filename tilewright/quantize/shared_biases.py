"""Biases that several layers read, each its own before ONNX Runtime's quantiser copies them.

It gives a copy the name of the bias with a number behind, and looks for constants of that name alone: tf2onnx has named
results of layers so, too, and one of them would be read in the other's place.
"""

from __future__ import annotations

import itertools
from typing import Any

_LAYERS = ("Conv", "ConvTranspose", "Gemm")
_BIAS = 2  #: which input of a layer it is


def own_biases(model: Any) -> None:
    """Gives every layer of a float model a bias that no other reads. Computes the same."""
    graph = model.graph
    initial = {tensor.name: tensor for tensor in graph.initializer}
    names = {name for node in graph.node for name in (*node.input, *node.output)} | set(initial)
    taken: set[str] = set()
    for node in graph.node:
        if node.op_type not in _LAYERS or len(node.input) <= _BIAS or node.input[_BIAS] not in initial:
            continue
        name = node.input[_BIAS]
        if name in taken:
            own = graph.initializer.add()
            own.CopyFrom(initial[name])
            own.name = next(new for k in itertools.count(1) if (new := f"{name}@{k}") not in names)
            node.input[_BIAS] = own.name
            names.add(own.name)
        taken.add(name)
