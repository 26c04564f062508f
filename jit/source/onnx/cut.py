"""Nodes of the prepared graph as a model of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.jit.source.onnx.prepared import Node, Prepared
from tilewright.jit.source.onnx.turned import refuse_turned
from tilewright.runtime.interpreters import PREPARED


def cut(
    prepared: Prepared, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], same: Mapping[str, str]
) -> bytes:
    """A model of these nodes that takes and gives these tensors.

    ``same``: tensors -> the one of equal content that stands for them.

    The nodes are those that ONNX Runtime has optimised for the whole model, so that it computes the same in the part.
    Constants that the file lets its user replace stay replaceable, since that too decides about optimisations. Raises
    ModelError for what it would compute otherwise by itself.
    """
    import onnx
    from onnx import helper

    whole = prepared.model
    used = {t for node in nodes for t in node.reads}
    made = {t for node in nodes for t in node.makes}
    graph = onnx.GraphProto(name="cut")
    copies = sorted((same[t], t) for t in used - made - set(inputs) if same.get(t, t) != t)

    def copied(sources: Collection[str]) -> None:
        graph.node.extend(helper.make_node("Identity", [s], [t]) for s, t in copies if s in sources)

    copied(inputs)
    for node in nodes:
        graph.node.append(node.proto)
        copied(node.makes)
    constants = [t for t in used | set(outputs) if t in prepared.constants and t not in made]
    kept = set(constants)
    graph.initializer.extend(t for t in whole.graph.initializer if t.name in kept)
    graph.sparse_initializer.extend(t for t in whole.graph.sparse_initializer if t.values.name in kept)
    graph.input.extend(_value(prepared, name) for name in inputs)
    graph.input.extend(v for v in whole.graph.input if v.name in kept)
    graph.output.extend(_value(prepared, name) for name in outputs)
    model = onnx.ModelProto(ir_version=whole.ir_version, producer_name=PREPARED, graph=graph)
    model.opset_import.extend(whole.opset_import)
    model.functions.extend(whole.functions)
    refuse_turned(prepared.path, model, model)
    return bytes(model.SerializeToString())


def _value(prepared: Prepared, name: str) -> Any:
    from onnx import ValueInfoProto, helper

    dtype, shape = prepared.types[name]
    for value in (*prepared.model.graph.input, *prepared.model.graph.output):
        if value.name == name and _is_typed(value):
            return value
    if dtype == "object":
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def _is_typed(value: Any) -> bool:
    """Whether it says a type, which a network's outputs need not, but the inputs of a part."""
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.elem_type != 0)
