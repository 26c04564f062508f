"""Small float models in both formats, with seeded weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite

F = np.float32


def float_onnx(path: Path, opset: int = 17, batch: Any = "N") -> Path:
    """Convolution, normalisation, depthwise convolution, addition, pooling and a classifier."""
    rng = np.random.default_rng(3)
    constants: list[Any] = []

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(constants)}"))
        return str(constants[-1].name)

    def weight(*shape: int) -> str:
        return constant(rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(F))

    def vector(count: int) -> str:
        return constant(rng.uniform(0.5, 1.5, count).astype(F))

    nodes = [
        helper.make_node("Conv", ["x", weight(8, 3, 3, 3), vector(8)], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", *(vector(8) for _ in range(4))], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["r"], "relu"),
        helper.make_node("Conv", ["r", weight(8, 1, 3, 3)], ["d"], "depthwise", pads=[1, 1, 1, 1], group=8),
        helper.make_node("Add", ["r", "d"], ["s"], "sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", weight(5, 8), vector(5)], ["y"], "classes", transB=1),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, [batch, 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", 1, [batch, 5])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))
    return path


def two_inputs(path: Path) -> Path:
    """The sum of two tensors."""
    inputs = [helper.make_tensor_value_info(name, 1, [1, 2, 4, 4]) for name in ("left", "right")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["left", "right"], ["y"], "sum")], "net", inputs,
        [helper.make_tensor_value_info("y", 1, [1, 2, 4, 4])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def float_tflite(path: Path) -> Path:
    """Convolution, depthwise convolution, mean over the image and a classifier."""
    rng = np.random.default_rng(4)
    tensors: list[StoredTensor] = []

    def tensor(name: str, shape: tuple[int, ...], data: Any = None) -> int:
        dtype = "float32" if data is None else str(data.dtype)
        tensors.append(StoredTensor(name, shape, dtype, data=data))
        return len(tensors) - 1

    def weight(name: str, *shape: int) -> int:
        return tensor(name, shape, rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(F))

    x, image, mean, y = (
        tensor(*spec) for spec in (("x", (1, 8, 8, 3)), ("image", (1, 8, 8, 8)), ("mean", (1, 8)), ("y", (1, 5)))
    )
    moved = tensor("moved", (1, 8, 8, 8))
    axes = tensor("axes", (2,), np.array([1, 2], np.int32))
    steps = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": 1}
    operators = [
        StoredOperator("CONV_2D", [x, weight("w", 8, 3, 3, 3), weight("b", 8)], [image], "Conv2DOptions", steps),
        StoredOperator(
            "DEPTHWISE_CONV_2D",
            [image, weight("d", 1, 3, 3, 8), weight("e", 8)],
            [moved],
            "DepthwiseConv2DOptions",
            {**steps, "depthMultiplier": 1},
        ),
        StoredOperator("MEAN", [moved, axes], [mean], "ReducerOptions", {"keepDims": False}),
        StoredOperator("FULLY_CONNECTED", [mean, weight("v", 5, 8), weight("c", 5)], [y], "FullyConnectedOptions"),
    ]
    return write_tflite(path, tensors, operators, [x], [y])
