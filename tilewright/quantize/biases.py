"""Biases as ONNX Runtime's quantiser takes them: each of one layer, and of one axis.

It compares the scales of a bias row by row, where a Gemm may have one of (1, N). And of a bias that several layers read
it gives a copy the name of the bias with a number behind, and looks for constants of that name alone: tf2onnx has named
results of layers so, too, and one of them would be read in the other's place. A bias that an Add reads too, as where
exporters merge equal constants, it quantises to 8 bits for both.
"""

from __future__ import annotations

import itertools
from typing import Any

from tilewright.jit.source.operators import onnx_row

_BIAS = 2  #: which input of a layer it is


def own_biases(model: Any) -> None:
    """Gives every layer of a float model a bias of one axis that nothing else reads. Computes the same."""
    graph = model.graph
    initial = {tensor.name: tensor for tensor in graph.initializer}
    names = {name for node in graph.node for name in (*node.input, *node.output)} | set(initial)
    taken = {
        name
        for node in graph.node
        for position, name in enumerate(node.input)
        if position != _BIAS or not _has_bias(node)
    }
    for node in graph.node:
        if not _has_bias(node) or len(node.input) <= _BIAS or node.input[_BIAS] not in initial:
            continue
        name = node.input[_BIAS]
        dims = list(initial[name].dims)
        row = node.op_type == "Gemm" and len(dims) == 2 and dims[0] == 1 < dims[1]
        if name in taken or row:
            own = graph.initializer.add()
            own.CopyFrom(initial[name])
            own.name = next(new for k in itertools.count(1) if (new := f"{name}@{k}") not in names)
            node.input[_BIAS] = own.name
            if row:
                own.dims[:] = dims[1:]
            names.add(own.name)
        else:
            taken.add(name)


def _has_bias(node: Any) -> bool:
    return onnx_row(node.op_type).at("b") == _BIAS
