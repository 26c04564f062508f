"""A way round an optimiser of ONNX Runtime that makes a shared int8 constant uint8 once for each of its readers.

It gives all of them one name and then refuses the model ("Attempt to replace the existing tensor"). Weights are shared
by heads that run on several feature maps, by tied layers, and by fresh normalisations, which exporters merge.
"""

from __future__ import annotations

import itertools
from typing import Any

#: what ONNX Runtime says of a model in which an int8 constant is shared
REFUSAL = "Attempt to replace the existing tensor"


def separated(model: bytes) -> bytes:
    """The ONNX model with a DequantizeLinear and a constant of its own for each reader of an int8 constant.

    Raises ModuleNotFoundError without the package onnx.
    """
    import onnx

    proto = onnx.load_from_string(model)
    graph = proto.graph
    constants = {t.name: t for t in graph.initializer if t.data_type == onnx.TensorProto.INT8}
    decoders = {
        node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in constants
    }
    taken = {value.name for value in graph.output}
    names = {name for node in graph.node for name in (node.name, *node.input, *node.output)}

    def another(name: str) -> str:
        found = next(new for k in itertools.count(1) if (new := f"{name}_{k}") not in names)
        names.add(found)
        return found

    def own(decoder: Any) -> None:
        """The values and their zero point; scales stay shared."""
        for place, name in enumerate(decoder.input):
            if name in constants and name in taken:
                copy = graph.initializer.add()
                copy.CopyFrom(constants[name])
                copy.name = decoder.input[place] = another(name)
                constants[copy.name] = copy
            taken.add(decoder.input[place])

    nodes = []
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name not in decoders:
                continue
            if name in taken:
                decoder = onnx.NodeProto()
                decoder.CopyFrom(decoders[name])
                decoder.output[0] = node.input[place] = another(name)
                decoder.name = another(decoder.name)
                own(decoder)
                nodes.append(decoder)
            taken.add(name)
        if node.output[0] in decoders:
            own(node)
        nodes.append(node)
    del graph.node[:]  # its elements live on in the list
    graph.node.extend(nodes)
    return bytes(proto.SerializeToString())
