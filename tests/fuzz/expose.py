"""Model files with every tensor between their operators as an output: to find where a difference begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.runtime.litert.schema import DTYPES, kinds, read_model, written

_STORED = (2, 3)  #: ONNX element types uint8 and int8
#: position of the output's zero point among the inputs of nodes that give a quantised tensor
_ZERO_POINT = {
    "QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7, "QLinearAdd": 7, "QLinearMul": 7,
    "QLinearGlobalAveragePool": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Exposed:
    """One output of the file: the outputs it is computed from, and the operators between, by number."""

    name: str
    sources: frozenset[str]
    operators: dict[int, str]


def expose(path: Path, target: Path) -> list[Exposed]:
    """Write the model with all tensors as outputs, its own ones first; returns the outputs in order."""
    return _expose_tflite(path, target) if path.suffix == ".tflite" else _expose_onnx(path, target)


def computed_in_float(path: Path) -> list[bool]:
    """Of each output of a model, whether something other than a dequantisation gives it as floats."""
    if path.suffix == ".tflite":
        model = read_model(path.read_bytes())
        graph, names = model.subgraphs[0], kinds(model)
        producers = {int(t): names[op.opcodeIndex] for op in graph.operators for t in op.outputs}
        return [
            DTYPES.get(graph.tensors[t].type) == "float32" and producers.get(int(t)) != "DEQUANTIZE"
            for t in graph.outputs
        ]
    import onnx

    network = onnx.load(str(path), load_external_data=False).graph
    producing = {name: node.op_type for node in network.node for name in node.output}
    return [
        info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and producing.get(info.name) != "DequantizeLinear"
        for info in network.output
    ]


def _expose_tflite(path: Path, target: Path) -> list[Exposed]:
    model = read_model(path.read_bytes())
    graph, names = model.subgraphs[0], kinds(model)
    producers = {int(t): k for k, op in enumerate(graph.operators) for t in op.outputs}
    outputs = [int(t) for t in graph.outputs]
    outputs += [t for t in producers if t not in outputs and graph.tensors[t].quantization is not None]
    graph.outputs = outputs
    target.write_bytes(written(model))
    operators = [
        (names[op.opcodeIndex], [str(t) for t in op.inputs if t >= 0], [str(t) for t in op.outputs])
        for op in graph.operators
    ]
    return _exposed(operators, [str(t) for t in outputs])


def _expose_onnx(path: Path, target: Path) -> list[Exposed]:
    import onnx
    from onnx import helper

    model = onnx.load(str(path))
    graph = model.graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {info.name: info for info in [*inferred.value_info, *inferred.output, *inferred.input]}
    present = {info.name for info in graph.output}
    for node in graph.node:
        position = _ZERO_POINT.get(node.op_type, 1 << 10)
        kind = types.get(node.input[position]) if position < len(node.input) else None
        if kind in _STORED and node.output[0] not in present:
            info = shapes.get(node.output[0])
            dims: Any = None if info is None else [d.dim_value for d in info.type.tensor_type.shape.dim]
            graph.output.append(helper.make_tensor_value_info(node.output[0], kind, dims))
    onnx.save(model, str(target))
    operators = [(node.op_type, list(node.input), list(node.output)) for node in graph.node]
    return _exposed(operators, [info.name for info in graph.output])


def _exposed(operators: Sequence[tuple[str, list[str], list[str]]], outputs: list[str]) -> list[Exposed]:
    """Each output with what it depends on directly; operators are given by kind, inputs and outputs."""
    producers = {name: k for k, (_, _, made) in enumerate(operators) for name in made}

    def exposed(name: str) -> Exposed:
        sources, between, waiting = set(), {}, [name]
        while waiting:
            current = waiting.pop()
            if current not in producers or (current in outputs and current != name):
                sources.add(current)
                continue
            number = producers[current]
            between[number], inputs, _ = operators[number]
            waiting += inputs
        return Exposed(name, frozenset(sources), between)

    return [exposed(name) for name in outputs]
