"""Model files with every tensor between their operators as an output: to find where a difference begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]

from tilewright.fuzz.flatbuffer import schema

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
        s = schema()
        model = s.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
        graph = model.subgraphs[0]
        codes = [model.operatorCodes[op.opcodeIndex].builtinCode for op in graph.operators]
        producers = {int(t): code for op, code in zip(graph.operators, codes, strict=True) for t in op.outputs}
        plain = s.BuiltinOperator.DEQUANTIZE
        floats = [graph.tensors[t].type == s.TensorType.FLOAT32 for t in graph.outputs]
        return [is_float and producers.get(int(t)) != plain for t, is_float in zip(graph.outputs, floats, strict=True)]
    import onnx

    network = onnx.load(str(path), load_external_data=False).graph
    kinds = {name: node.op_type for node in network.node for name in node.output}
    return [
        info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and kinds.get(info.name) != "DequantizeLinear"
        for info in network.output
    ]


def _expose_tflite(path: Path, target: Path) -> list[Exposed]:
    s = schema()
    model = s.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    graph = model.subgraphs[0]
    kinds = {value: name for name, value in vars(s.BuiltinOperator).items() if isinstance(value, int)}
    producers = {int(t): k for k, op in enumerate(graph.operators) for t in op.outputs}
    outputs = [int(t) for t in graph.outputs]
    outputs += [t for t in producers if t not in outputs and graph.tensors[t].quantization is not None]
    graph.outputs = outputs
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    target.write_bytes(bytes(builder.Output()))

    def exposed(tensor: int) -> Exposed:
        sources, operators, waiting = set(), {}, [tensor]
        while waiting:
            current = waiting.pop()
            if current not in producers or (current in outputs and current != tensor):
                sources.add(str(current))
                continue
            number = producers[current]
            operators[number] = kinds[model.operatorCodes[graph.operators[number].opcodeIndex].builtinCode]
            waiting += [int(t) for t in graph.operators[number].inputs if t >= 0]
        return Exposed(str(tensor), frozenset(sources), operators)

    return [exposed(t) for t in outputs]


def _expose_onnx(path: Path, target: Path) -> list[Exposed]:
    import onnx
    from onnx import helper

    model = onnx.load(str(path))
    graph = model.graph
    producers = {name: k for k, node in enumerate(graph.node) for name in node.output}
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {info.name: info for info in [*inferred.value_info, *inferred.output, *inferred.input]}
    present = {info.name for info in graph.output}
    for node in graph.node:
        position = _ZERO_POINT.get(node.op_type, 1 << 10)
        kind = kinds.get(node.input[position]) if position < len(node.input) else None
        if kind in _STORED and node.output[0] not in present:
            info = shapes.get(node.output[0])
            dims: Any = None if info is None else [d.dim_value for d in info.type.tensor_type.shape.dim]
            graph.output.append(helper.make_tensor_value_info(node.output[0], kind, dims))
    onnx.save(model, str(target))
    outputs = [info.name for info in graph.output]

    def exposed(name: str) -> Exposed:
        sources, operators, waiting = set(), {}, [name]
        while waiting:
            current = waiting.pop()
            if current not in producers or (current in outputs and current != name):
                sources.add(current)
                continue
            number = producers[current]
            operators[number] = graph.node[number].op_type
            waiting += list(graph.node[number].input)
        return Exposed(name, frozenset(sources), operators)

    return [exposed(name) for name in outputs]
