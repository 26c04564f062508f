"""What a file says of shapes and numbers, and what ONNX Runtime takes instead: from values, from other declarations.

All is compared with ONNX Runtime on the file as it is; what a network's inputs decide is its, or refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tilewright.jit.errors import ModelError
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime.interpreters import InterpreterError, load

IMAGE = (1, 4, 4, 4)


def convolved(b: NetBuilder) -> Tensor:
    """A convolution of an 8-bit input, between pairs."""
    return b.pair(b.conv(b.raw_input(IMAGE), 4, pads=[1] * 4), IMAGE, 0.05, 0)


def changed(path: Path, change: Callable[[Any], None]) -> None:
    model = onnx.load(str(path))
    change(model)
    onnx.save(model, str(path))


def stacked(x: NDArray[Any]) -> NDArray[Any]:
    """One inference's, as they are handed in and out."""
    return x if x.shape[:1] == (1,) else x[None]


# -- names of dimensions ---------------------------------------------------------------------------------------


def test_a_dimension_of_the_batch_s_name_need_not_be_the_batch(tmp_path: Path) -> None:
    """The count of what NonZero finds, called N like the batch: ONNX Runtime counts, whatever names say."""
    b = NetBuilder(3, "uint8")
    q = b.quantise(b.op("Relu", [b.raw_input(IMAGE).name]), 0.03, -128)
    found = b.op("NonZero", [q])
    sizes = b.op("Cast", [b.op("Shape", [found])], to=1)
    b.output(b.op("QuantizeLinear", [sizes, b.constant(F(1)), b.constant(np.uint8(0))]), (2,), "uint8")

    def named(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        model.graph.value_info.append(helper.make_tensor_value_info(found, onnx.TensorProto.INT64, [4, "N"]))

    path = b.save(tmp_path / "m.onnx")
    changed(path, named)
    exe = tw.compile(path, config="tiny", cache=False)
    x = np.random.default_rng(0).integers(0, 256, IMAGE).astype(np.uint8)
    got, _ = exe.run(x)
    wanted = load("onnxruntime", path.read_bytes(), "whole")([x])[0]
    assert wanted[1] > 1
    np.testing.assert_array_equal(got[0], wanted)


@pytest.mark.parametrize("dimension", ["N", "k", None])
def test_a_default_that_the_caller_may_replace_keeps_its_size(dimension: str | None, tmp_path: Path) -> None:
    """Since IR version 4 an input may have a stored value: its open dimension is not the batch's."""
    b = NetBuilder(4, "uint8")
    x = convolved(b)
    factors = b.constant(np.array([0.5, 1, 2, 3], F))
    b.output(b.pair(b.op("Relu", [b.op("Mul", [x.name, factors])]), IMAGE, 0.05, -128).name, IMAGE)

    def declared(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        model.graph.input.append(helper.make_tensor_value_info(factors, onnx.TensorProto.FLOAT, [dimension]))

    path = b.save(tmp_path / "m.onnx")
    changed(path, declared)
    _, built = compared(path)
    assert "Conv2D" in kinds(built)


# -- numbers of constants --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [1, -2, 3])
def test_a_constant_with_scales_along_an_axis_beside_a_computed_tensor(axis: int, tmp_path: Path) -> None:
    b = NetBuilder(5, "uint8")
    x = b.op("Add", [b.raw_input(IMAGE).name, b.raw_input(IMAGE, 0.03).name])  # which has ONNX Runtime join in float32
    values = b.constant(b.rng.integers(0, 256, IMAGE).astype(np.uint8))
    scales, zeros = np.array([0.01, 0.02, 0.03, 0.05]), np.array([90, 120, 130, 140], np.uint8)
    constant = b.dequantise(values, scales, zeros, axis=axis)
    shape = (1, 8, 4, 4)
    b.output(b.pair(b.op("Concat", [x, constant], axis=1), shape, 0.03, 0).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


def test_what_is_dequantised_to_float16_is_the_interpreters(tmp_path: Path) -> None:
    """Since opset 23 a DequantizeLinear says the type of its result beside that of its scale."""
    b = NetBuilder(10, "uint8", opset=23)
    convolved(b)
    half = onnx.TensorProto.FLOAT16
    operands = [b.nodes[-1].input[0], b.constant(F(0.0137)), b.constant(np.uint8(3))]
    y = b.op("DequantizeLinear", operands, output_dtype=half)
    b.outputs.append(helper.make_tensor_value_info(y, half, IMAGE))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]
    assert len(interpreted(built)) == 1


# -- a batch ---------------------------------------------------------------------------------------------------


def several_results(b: NetBuilder, kind: str) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
    """A node with results besides the first on a convolution of a batch of 2; (results, their shapes)."""
    x = b.pair(b.conv(b.raw_input((2, 3, 8, 8)), 2), (2, 2, 6, 6), 0.05, 0)
    if kind == "MaxPool":
        results = [b.name("y"), b.name("places")]
        b.nodes.append(helper.make_node(kind, [x.name], results, kernel_shape=[2, 2], strides=[2, 2]))
        return results, (2, 2, 3, 3), (2, 2, 3, 3)
    results = [b.name("y"), b.name("mean"), b.name("variance")]
    numbers = [b.constant(np.array([k, k + 1], F)) for k in range(1, 5)]
    b.nodes.append(helper.make_node(kind, [x.name, *numbers], results, training_mode=1))
    return results[:2], (2, 2, 6, 6), (2,)


@pytest.mark.parametrize("kind", ["MaxPool", "BatchNormalization"])
def test_results_that_tell_of_the_whole_batch(kind: str, tmp_path: Path) -> None:
    """Places of maxima count through the batch, and statistics are its: as many channels as images hide that."""
    b = NetBuilder(6, "uint8", opset=15)
    (first, second), shape, others = several_results(b, kind)
    b.output(b.quantise(first, 0.05, 0), shape, "uint8")
    b.output(second, others, "int64" if kind == "MaxPool" else "float32")
    source, built = compared(b.save(tmp_path / "m.onnx"))
    assert source.batch == 1
    assert interpreted(built)


def test_statistics_that_are_left_out_are_refused(tmp_path: Path) -> None:
    """ONNX Runtime writes them to nowhere, which ends the process."""
    b = NetBuilder(7, "uint8", opset=15)
    numbers = [b.constant(np.array([k] * 4, F)) for k in range(1, 5)]
    b.nodes.append(
        helper.make_node("BatchNormalization", [convolved(b).name, *numbers], ["y", "", ""], training_mode=1)
    )
    b.output(b.quantise("y", 0.05, 0), IMAGE, "uint8")
    with pytest.raises(ModelError, match=r"training mode \(y\) leaves out its statistics.*; export it for inference"):
        OnnxSource(b.save(tmp_path / "m.onnx"))


@pytest.mark.parametrize("position", [3, 6])
def test_a_computed_zero_point_of_a_qlinear_where_is_refused(position: int, tmp_path: Path) -> None:
    """ONNX Runtime's kernel reads it before there is an inference, which ends the process."""

    def network(computed: bool) -> NetBuilder:
        b = NetBuilder(8, "uint8", opset=15)
        chosen = b.constant(b.rng.random(IMAGE) < 0.5)
        numbers = [b.constant(F(0.05)), b.op("Identity", [b.constant(np.uint8(7))])]
        operands = [chosen, *(t for _ in range(2) for t in (b.input(IMAGE, "uint8"), *numbers)), *numbers]
        if computed:
            operands[position] = b.input((), "uint8")
        b.output(b.op("QLinearWhere", operands, "com.microsoft"), IMAGE, "uint8")
        b.output(b.quantise(b.input(IMAGE), 0.05, 0), IMAGE, "uint8")
        return b

    with pytest.raises(
        ModelError, match=r"QLinearWhere \(.*\) with a computed zero point .*; export it with a constant"
    ):
        OnnxSource(network(computed=True).save(tmp_path / "m.onnx"))
    compared(network(computed=False).save(tmp_path / "constant.onnx"))


# -- operands that are inputs of the network -------------------------------------------------------------------

_I = np.int64
GIVEN: dict[str, tuple[str, NDArray[Any], tuple[int, ...], dict[str, Any]]] = {
    "Reshape": ("int64", np.array([0, 4, 0, 4], _I), IMAGE, {}),
    "Gather": ("int64", np.array([3, 1, -1], _I), (1, 3, 4, 4), {"axis": 1}),
    "Unsqueeze": ("int64", np.array([0], _I), (1, *IMAGE), {}),
    "Squeeze": ("int64", np.array([0], _I), IMAGE[1:], {}),
    "Pad": ("int64", np.zeros(8, _I), IMAGE, {}),
    "Clip": ("float32", np.array(-0.3, F), IMAGE, {}),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_an_operand_that_an_input_gives_is_the_interpreters(kind: str, tmp_path: Path) -> None:
    dtype, value, shape, attributes = GIVEN[kind]
    b = NetBuilder(8, "uint8")
    x = convolved(b)
    y = b.quantise(b.op(kind, [x.name, b.input(value.shape, dtype)], **attributes), 0.04, 0)
    b.output(y, shape, "uint8")
    path = b.save(tmp_path / "m.onnx")
    exe = tw.compile(path, config="tiny", cache=False)
    assert {o["op"]: o["place"] for o in exe.artifact.options["operators"]}[kind] == "interpreter"
    image = np.random.default_rng(0).integers(0, 256, IMAGE).astype(np.uint8)
    (wanted,) = load("onnxruntime", path.read_bytes(), "whole")([image, value])
    got, _ = exe.run([image, stacked(value)])
    np.testing.assert_array_equal(got, stacked(wanted))


def test_another_shape_than_an_input_of_zeros_gives_is_refused(tmp_path: Path) -> None:
    b = NetBuilder(9, "uint8")
    y = b.op("Reshape", [convolved(b).name, b.input((4,), "int64")])
    b.output(b.quantise(y, 0.05, 0), IMAGE, "uint8")
    exe = tw.compile(b.save(tmp_path / "m.onnx"), config="tiny", cache=False)
    with pytest.raises(InterpreterError, match=r"has the shape \(1, 2, 8, 4\) .* compiled for \(1, 4, 4, 4\)"):
        exe.run([np.zeros(IMAGE, np.uint8), np.array([[1, 2, 8, 4]], np.int64)])


def test_what_has_no_shape_for_zeros_is_refused_with_that_reason(tmp_path: Path) -> None:
    """ONNX Runtime runs it on other numbers: it is not said to be a model that cannot run."""
    b = NetBuilder(11, "uint8")
    y = b.op("Expand", [convolved(b).name, b.input((4,), "int64")])
    b.output(b.quantise(y, 0.05, 0), IMAGE, "uint8")
    with pytest.raises(ModelError, match=r"on inputs of zeros, .*Expand.*export it again with constants for what"):
        OnnxSource(b.save(tmp_path / "m.onnx"))
