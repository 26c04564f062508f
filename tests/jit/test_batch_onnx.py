"""``.onnx`` models of a batch: image by image where no operator looks across it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tests.jit.test_batch import BATCH, compared, places


def onnx_net(b: NetBuilder) -> tuple[Tensor, str]:
    """Convolutions, an addition, pooling, a joint and a reshape that names the batch; (images, rows)."""
    x = b.real_input((BATCH, 4, 8, 8))
    y = b.fitted(b.conv(x, 8, pads=[1, 1, 1, 1]), (BATCH, 8, 8, 8), 0.6)
    z = b.fitted(b.conv(y, 8, group=8, pads=[1, 1, 1, 1]), (BATCH, 8, 8, 8), 0.4)
    y = b.fitted(b.op("Add", [y.name, z.name]), y.shape, 0.7)
    joined = b.fitted(b.op("Concat", [y.name, z.name], axis=1), (BATCH, 16, 8, 8), 0.7)
    pooled = b.op("MaxPool", [joined.name], kernel_shape=[4, 4], strides=[4, 4])
    return joined, b.op("Reshape", [pooled, b.constant(np.array([BATCH, -1], np.int64))])


@pytest.mark.parametrize("activations", ["int8", "uint8"])
def test_onnx(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(40, activations)
    joined, rows = onnx_net(b)
    flat = Tensor(rows, (BATCH, 64), joined.scale, 1.0)
    b.output(b.fitted(b.gemm(rows, flat, 64, 5), (BATCH, 5), 0.6).name, (BATCH, 5))
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == BATCH
    assert [t.shape for t in (*exe.inputs, *exe.outputs)] == [(BATCH, 4, 8, 8), (BATCH, 5)]
    assert set(places(exe).values()) == {"accelerator"}


def test_onnx_in_operator_form(tmp_path: Path) -> None:
    b = NetBuilder(41, "uint8")

    def numbers(scale: float, zero_point: int) -> list[str]:
        return [b.constant(F(scale)), b.constant(b.zero(zero_point))]

    at, mid = numbers(0.02, 3), numbers(0.05, -4)
    w = b.constant(b.rng.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8))
    y = b.op("QLinearConv", [b.input((BATCH, 4, 6, 6), "uint8"), *at, w, *numbers_of_weights(b), *mid])
    pooled = b.op("QLinearGlobalAveragePool", [y, *mid, *at], "com.microsoft")
    b.output(b.op("QLinearAdd", [pooled, *at, pooled, *at, *mid], "com.microsoft"), (BATCH, 6, 1, 1), "uint8")
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == BATCH
    assert places(exe) == {"QLinearConv": "accelerator"}


def numbers_of_weights(b: NetBuilder) -> list[str]:
    return [b.constant(F(0.004)), b.constant(np.int8(0))]


def across(kind: str, **attributes: Any) -> Callable[[NetBuilder, Tensor], str]:
    return lambda b, x: b.op(kind, [x.name], **attributes)


def other_order(b: NetBuilder, x: Tensor) -> str:
    """A row for each of as many, that holds elements of several images."""
    return b.op("Reshape", [b.op("Transpose", [x.name], perm=[1, 0, 2, 3]), b.constant(np.array([BATCH, -1]))])


def one_constant_each(b: NetBuilder, x: Tensor) -> str:
    return b.op("Add", [x.name, b.constant(np.arange(BATCH, dtype=F).reshape(BATCH, 1, 1, 1))])


def scales_of_images(b: NetBuilder, x: Tensor) -> str:
    zeros = b.constant(np.zeros(BATCH, np.int8))
    q = b.op("QuantizeLinear", [x.name, b.constant(np.array([0.01, 0.02, 0.03], F)), zeros], axis=0)
    return b.op("DequantizeLinear", [q, b.constant(np.array([0.01, 0.02, 0.03], F)), zeros], axis=0)


def bias_of_images(b: NetBuilder, x: Tensor) -> str:
    """Rows of a constant that a product adds, one for each image."""
    rows = b.op("Flatten", [x.name])
    weight, _ = b.weight((5, 144))
    return b.op("Gemm", [rows, weight, b.constant(b.rng.normal(0, 1, (BATCH, 5)).astype(F))], transB=1)


def shifted(b: NetBuilder, x: Tensor) -> str:
    """Each image in the place of the next one, by padding of an axis that an operand names last."""
    b.opset = 18
    pads, axes = np.array([0, 1, 0, -1]), np.array([2, 0])
    return b.op("Pad", [x.name, b.constant(pads), b.constant(F(0)), b.constant(axes)])


ACROSS = {
    "bias": bias_of_images,
    "shifted": shifted,
    "softmax": across("Softmax", axis=0),
    "mean": across("ReduceMean", axes=[0], keepdims=1),
    "concat": lambda b, x: b.op("Concat", [x.name, x.name], axis=0),
    "slice": lambda b, x: b.op("Slice", [x.name, *(b.constant(np.array([v])) for v in (0, 2, 0))]),
    "gather": lambda b, x: b.op("Gather", [x.name, b.constant(np.array([2, 0]))], axis=0),
    "tile": lambda b, x: b.op("Tile", [x.name, b.constant(np.array([2, 1, 1, 1]))]),
    "cumulated": lambda b, x: b.op("CumSum", [x.name, b.constant(np.int64(0))]),
    "order": other_order,
    "constants": one_constant_each,
    "scales": scales_of_images,
    "padding": lambda b, x: b.op("Pad", [x.name, b.constant(np.array([1, 0, 0, 0, 0, 0, 0, 0]))]),
    "dynamic": lambda b, x: dynamic(b, x),
}


def dynamic(b: NetBuilder, x: Tensor) -> str:
    """Its scale comes from all images."""
    from onnx import helper

    names = [b.name("d") for _ in range(3)]
    b.nodes.append(helper.make_node("DynamicQuantizeLinear", [x.name], names))
    return b.op("DequantizeLinear", names)


def test_moves_and_transposed_convolutions_of_a_batch(tmp_path: Path) -> None:
    b = NetBuilder(44)
    y = b.fitted(b.conv(b.real_input((BATCH, 4, 4, 4)), 8), (BATCH, 8, 2, 2), 0.6)
    moves: list[tuple[str, list[Any], dict[str, Any], tuple[int, ...]]] = [
        ("DepthToSpace", [], {"blocksize": 2}, (2, 4, 4)),
        ("SpaceToDepth", [], {"blocksize": 2}, (8, 2, 2)),
        ("Gather", [np.array([5, 1, 1])], {"axis": 1}, (3, 2, 2)),
        ("Tile", [np.array([1, 1, 2, 1])], {}, (3, 4, 2)),
    ]
    for kind, operands, attributes, shape in moves:
        moved = b.op(kind, [y.name, *map(b.constant, operands)], **attributes)
        y = b.pair(moved, (BATCH, *shape), y.scale, 3)
    weight, _ = b.weight((3, 5, 2, 2), 1)
    last = b.op("ConvTranspose", [y.name, weight], strides=[2, 2])
    b.output(b.fitted(last, (BATCH, 5, 8, 4), 0.4).name, (BATCH, 5, 8, 4))
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == BATCH
    assert set(places(exe).values()) == {"accelerator"}


@pytest.mark.parametrize("kind", ["Add", "Sum", "Sigmoid", "ReduceMax", "Max", "Log", "FastGelu"])
def test_onnx_without_convolutions(kind: str, tmp_path: Path) -> None:
    b = NetBuilder(45)
    x = b.real_input((BATCH, 4, 6, 6))
    reduced: dict[str, Any] = {"axes": [1]} if kind == "ReduceMax" else {}
    domain = "com.microsoft" if kind == "FastGelu" else ""
    y = b.op(kind, [x.name] * (2 if kind in ("Add", "Sum", "Max") else 1), domain, **reduced)
    shape = (BATCH, 1, 6, 6) if kind == "ReduceMax" else x.shape
    b.output(b.pair(y, shape, x.scale, 3).name, shape)
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == BATCH
    assert "interpreter" not in {o["place"] for o in exe.artifact.options["operators"]}


def test_onnx_with_a_transposed_convolution_alone(tmp_path: Path) -> None:
    b = NetBuilder(46)
    weight, _ = b.weight((4, 5, 2, 2), 1)
    last = b.op("ConvTranspose", [b.real_input((BATCH, 4, 6, 6)).name, weight], strides=[2, 2])
    b.output(b.fitted(last, (BATCH, 5, 12, 12), 0.4).name, (BATCH, 5, 12, 12))
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == BATCH
    assert set(places(exe).values()) == {"accelerator"}


def test_axes_of_a_constant_node_that_is_its_numbers_itself(tmp_path: Path) -> None:
    """As exporters of PyTorch write them: ``value_ints`` rather than a tensor."""
    from onnx import helper

    b = NetBuilder(46, opset=18)
    x = b.real_input((BATCH, 4, 6, 6))
    b.nodes.append(helper.make_node("Constant", [], ["axes"], value_ints=[1]))
    shape = (BATCH, 1, 6, 6)
    b.output(b.pair(b.op("ReduceMax", [x.name, "axes"]), shape, x.scale, 3).name, shape)
    assert compared(b.save(tmp_path / "m.onnx")).artifact.batch == BATCH


@pytest.mark.parametrize("name", ACROSS)
def test_onnx_that_looks_across_the_batch(name: str, tmp_path: Path) -> None:
    """Left whole, and exact, because the interpreter runs the convolution."""
    b = NetBuilder(42, "uint8")
    x = b.fitted(b.conv(b.real_input((BATCH, 4, 6, 6)), 4, pads=[1, 1, 1, 1]), (BATCH, 4, 6, 6), 0.6)
    y = ACROSS[name](b, x)
    shapes: dict[str, tuple[int, ...]] = {
        "mean": (1, 4, 6, 6),
        "concat": (6, 4, 6, 6),
        "slice": (2, 4, 6, 6),
        "padding": (4, 4, 6, 6),
    }
    shapes |= {"gather": (2, 4, 6, 6), "tile": (6, 4, 6, 6)}
    shapes |= {"order": (BATCH, 144), "bias": (BATCH, 5)}
    b.output(y, shapes.get(name, x.shape))
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == 1
    assert places(exe)["Conv"] == "interpreter"


def test_rows_in_float32_are_said_to_depend_on_the_batch(tmp_path: Path) -> None:
    """ONNX Runtime adds float32 products of one row in another order than those of several."""
    b = NetBuilder(43, "uint8")
    _, rows = onnx_net(b)
    path = b.save(tmp_path / "m.onnx")
    weight = b.constant(b.rng.normal(0, 0.1, (64, 5)).astype(F))
    b.output(b.op("MatMul", [rows, weight]), (BATCH, 5))
    path = b.save(tmp_path / "m.onnx")
    exe = tw.compile(path, "tiny", cache=False)
    exact = {o["op"]: o["exact"] for o in exe.artifact.options["operators"] if o["macs"]}
    assert exact["MatMul"] == "sums in float32, whose order may depend on the batch"
    assert compared(path, exact="proven").artifact.batch == 1


def test_rows_alone_stay_together(tmp_path: Path) -> None:
    """A batch of vectors is a matrix: its weights are loaded once."""
    b = NetBuilder(44, "uint8")
    x = b.real_input((BATCH, 16))
    b.output(b.fitted(b.gemm(x.name, x, 16, 5), (BATCH, 5), 0.6).name, (BATCH, 5))
    exe = compared(b.save(tmp_path / "m.onnx"))
    assert exe.artifact.batch == 1
    assert places(exe) == {"Gemm": "accelerator"}
