"""Constants that ONNX Runtime's optimiser leaves to be computed at every inference.

Its last passes make some after it has folded others: a float bias that it quantises becomes a division, a rounding and
a cast of constants. They are computed here by the same kernels, so that layers see the numbers.
"""

from __future__ import annotations

from typing import Any

from tilewright.jit.source.operators import onnx_row

#: kept as they are: rules read a constant's integers and numbers from them
_KEPT = ("DequantizeLinear",)


def foldable(model: Any) -> list[Any]:
    """Nodes that follow from constants alone, in the order of the graph."""
    known = {tensor.name for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        subgraphs = any(a.HasField("g") or len(a.graphs) for a in node.attribute)
        if node.op_type in _KEPT or subgraphs or not node.input or onnx_row(node.op_type).family == "random":
            continue
        if all(name in known for name in node.input if name):
            known.update(node.output)
            found.append(node)
    return found


def part(model: Any, nodes: list[Any]) -> Any:
    """A model that gives all results of these nodes, which follow from constants alone."""
    from onnx import ModelProto, ValueInfoProto

    made = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    made.graph.name = "constants"
    made.graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    made.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in read)
    made.graph.output.extend(ValueInfoProto(name=name) for node in nodes for name in node.output if name)
    return made


def replace(model: Any, nodes: list[Any], values: list[Any]) -> None:
    """Puts constants in the place of nodes; ``values``: of all their results."""
    from onnx import numpy_helper

    names = [name for node in nodes for name in node.output if name]
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in zip(names, values, strict=True))
    kept = [node for node in model.graph.node if node.output[0] not in names]
    del model.graph.node[:]
    model.graph.node.extend(kept)
