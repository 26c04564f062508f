"""QLinearAveragePool with a window larger than its image: its kernels divide by the number of results, of which there
are none, and that ends the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.jit.errors import ModelError
from tilewright.model_files import bodies, every_node

_KIND = "QLinearAveragePool"


def refuse_empty(path: Path, model: Any, session: Any, load: Callable[[Any], Any]) -> None:
    """Raises ModelError for one of a model, bodies and branches in it included, that ONNX Runtime knows to be empty.

    ``session``: ONNX Runtime's of the model, which gives what all its nodes make; ``load``: makes another.
    """
    values = {value.name: value for value in (*session.get_inputs(), *session.get_outputs())}
    for node in model.graph.node:
        if node.op_type == _KIND and node.output[0] in values and 0 in (shape := values[node.output[0]].shape):
            raise ModelError(
                f"{path}: {_KIND} ({node.output[0]}) with a window larger than its image gives the shape "
                f"{tuple(shape)}, which ends ONNX Runtime; export it with a smaller kernel_shape"
            )
        for body in bodies(node):
            if any(inner.op_type == _KIND for inner in every_node(body.node)):
                alone = _alone(model, body, values)
                refuse_empty(path, alone, load(alone), load)


def _alone(model: Any, body: Any, around: dict[str, Any]) -> Any:
    """A body as a model of its own, which takes what the body reads of the values ``around`` it, and gives all that its
    nodes make."""
    from onnx import TensorProto, ValueInfoProto, helper

    made = type(model)(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = made.graph
    graph.name = "body"
    graph.node.extend(body.node)
    own = {tensor.name for tensor in body.initializer}
    graph.initializer.extend(body.initializer)
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name not in own)
    graph.sparse_initializer.extend(body.sparse_initializer)
    graph.input.extend(body.input)
    stored = {value.name for value in (*graph.initializer, *graph.input)}
    read = {name for node in every_node(body.node) for name in node.input}
    for name in sorted(read & around.keys() - stored):
        kind = around[name].type.removeprefix("tensor(").removesuffix(")").upper()
        graph.input.append(helper.make_tensor_value_info(name, getattr(TensorProto, kind), around[name].shape))
    graph.output.extend(ValueInfoProto(name=name) for node in body.node for name in node.output if name)
    return made
