"""Float ONNX models that ONNX Runtime or its quantiser takes in part, and losses where values are not finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.errors import TilewrightError
from tilewright.quantize import quantize_file
from tilewright.quantize.base import Layer
from tilewright.quantize.loss import layer_losses


def model(
    path: Path,
    nodes: list[Any],
    shape: list[int],
    constants: dict[str, Any],
    kind: int = TensorProto.FLOAT,
    opset: int = 17,
) -> Path:
    """A float model of input ``x`` and output ``y``, whose shape is left open."""
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    outputs = [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))
    return path


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def test_products_that_onnx_runtime_joins_with_sums_one_after_the_other(tmp_path: Path) -> None:
    """Those of an attention in a second pass, where its new constants took the names of the first pass."""
    names = ("query", "key", "value", "out", "first")
    constants = {name: normal(8, 8, seed=k) / 3 for k, name in enumerate(names)}
    constants |= {"b": normal(8), "g": normal(8) + 2, "heads": np.array([2, 6, 2, 4]), "whole": np.array([2, 6, 8])}

    def linear(x: str, name: str) -> list[Any]:
        return [
            helper.make_node("MatMul", [x, name], [f"{name}_product"], f"{name}_product"),
            helper.make_node("Add", [f"{name}_product", "b"], [f"{name}_sum"], f"{name}_sum"),
        ]

    nodes = [*linear("x", "first"), helper.make_node("LayerNormalization", ["first_sum", "g", "b"], ["n"], "norm")]
    for name, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        nodes += [
            *linear("n", name),
            helper.make_node("Reshape", [f"{name}_sum", "heads"], [f"{name}_split"], f"{name}_split"),
            helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], f"{name}_heads", perm=perm),
        ]
    nodes += [
        helper.make_node("MatMul", ["query_heads", "key_heads"], ["scores"], "scores"),
        helper.make_node("Softmax", ["scores"], ["shares"], "softmax", axis=-1),
        helper.make_node("MatMul", ["shares", "value_heads"], ["mixed"], "mixed"),
        helper.make_node("Transpose", ["mixed"], ["back"], "back", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["back", "whole"], ["joined"], "joined"),
        *linear("joined", "out"),
        helper.make_node("Add", ["out_sum", "n"], ["y"], "residual"),
    ]
    x = normal(4, 2, 6, 8, seed=5)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(model(tmp_path / "float.onnx", nodes, [2, 6, 8], constants), tmp_path / "x.npy")
    assert min(layer.after for layer in result.layers) > 20


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("operands,shape", [(("w", "x"), (2, 6, 8)), (("x", "w"), (2, 5, 6)), (("u", "x"), (2, 6, 8))])
def test_products_with_constants_on_the_left_or_in_stacks(
    operands: tuple[str, str], shape: tuple[int, ...], bits: int, tmp_path: Path
) -> None:
    """ONNX Runtime knows no scale per channel for these; the quantised model must be one that it runs."""
    constants = {"w": normal(2, 6, 6), "u": normal(6, 6)}
    nodes = [helper.make_node("MatMul", operands, ["y"], "product")]
    path = model(tmp_path / "float.onnx", nodes, list(shape), {k: v for k, v in constants.items() if k in operands})
    x = normal(4, *shape, seed=1)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(path, tmp_path / "x.npy", bits=bits)
    assert result.layers[0].after > 25
    result.save(tmp_path / "quantised.onnx")
    exe = tw.compile(tmp_path / "quantised.onnx", "tiny", cache=False)
    np.testing.assert_array_equal(exe(x), reference_outputs(tmp_path / "quantised.onnx", [x])[0])


@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions_in_groups(bias: bool, tmp_path: Path) -> None:
    """The quantiser fails at a bias where each channel of a group has a scale; all products are on the accelerator."""
    constants = {"w": normal(8, 3, 3, 3), **({"b": normal(6)} if bias else {})}
    nodes = [helper.make_node("ConvTranspose", ["x", *constants], ["y"], "up", group=2, strides=[2, 2])]
    path = model(tmp_path / "float.onnx", nodes, [1, 8, 5, 5], constants)
    x = normal(4, 8, 5, 5, seed=1)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(path, tmp_path / "x.npy")
    assert result.layers[0].after > 25
    result.save(tmp_path / "quantised.onnx")
    exe = tw.compile(tmp_path / "quantised.onnx", "tiny", cache=False)
    y, report = exe.run(x)
    np.testing.assert_array_equal(y, reference_outputs(tmp_path / "quantised.onnx", [x])[0])
    assert {layer["place"] for layer in report.layers if layer["macs"]} == {"accelerator"}


def test_types_without_operators(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime convolves no float64; its tools print a traceback of that, and go on."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv")]
    weight = {"w": normal(4, 3, 3, 3).astype(np.float64)}
    path = model(tmp_path / "wide.onnx", nodes, [1, 3, 8, 8], weight, TensorProto.DOUBLE)
    held = onnx.load(str(path))
    held.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1, 4, 6, 6]))
    onnx.save(held, str(path))
    np.save(tmp_path / "x.npy", normal(4, 3, 8, 8).astype(np.float64))
    with pytest.raises(TilewrightError, match=r"wide.onnx: onnxruntime .*; export it again in float32 rather than d"):
        quantize_file(path, tmp_path / "x.npy")
    shown = capfd.readouterr()
    assert "Traceback" not in shown.out + shown.err


def test_nothing_to_quantise(tmp_path: Path) -> None:
    """A file would be refused as float by all else, with the advice to quantise it."""
    path = model(tmp_path / "pool.onnx", [helper.make_node("Abs", ["x"], ["y"], "a")], [1, 3, 8, 8], {})
    np.save(tmp_path / "x.npy", normal(4, 3, 8, 8))
    with pytest.raises(TilewrightError, match=r"pool.onnx: nothing in it that .*\(operators: Abs\)"):
        quantize_file(path, tmp_path / "x.npy")


def test_losses_of_what_is_not_finite() -> None:
    """The float network's own infinities are no loss; a number that became none is all that could be lost."""
    layers = [Layer("log", "Log", ("x",), "log"), Layer("clip", "Clip", ("log",), "clip")]
    x = np.array([0.0, 1.0, 2.0])
    real = {"x": x, "log": np.array([-np.inf, 0.0, np.log(2)]), "clip": np.array([-3.0, 0.0, 0.7])}

    def lost(quantised: dict[str, Any]) -> dict[str, tuple[float, float]]:
        found = layer_losses(layers, lambda _: real, lambda _: quantised, [[x]], lambda *_: None)
        return {layer.name: (layer.after, layer.lost) for layer in found}

    near = lost(real | {"log": np.array([np.nan, 0.0, 0.7])})
    assert 30 < near["log"][0] < 50
    assert near["log"][1] == math.inf
    gone = lost(real | {"log": np.array([-np.inf, np.nan, 0.7]), "clip": np.array([-3.0, np.inf, 0.7])})
    assert gone == {"log": (-math.inf, math.inf), "clip": (-math.inf, 0.0)}


def test_a_bias_that_layers_share_and_a_result_of_the_name_that_its_copy_would_get(tmp_path: Path) -> None:
    """ONNX Runtime's quantiser calls the copy of ``b`` for the second layer ``b0``; tf2onnx calls results so, too."""
    constants = {"w": normal(4, 3, 3, 3), "v": normal(4, 3, 3, 3, seed=2), "b": normal(4, seed=3)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "one"),
        helper.make_node("Conv", ["x", "v", "b"], ["b0"], "two"),
        helper.make_node("Neg", ["b0"], ["n"], "negated"),
        helper.make_node("Add", ["c", "n"], ["y"], "sum"),
    ]
    path = model(tmp_path / "float.onnx", nodes, [1, 3, 6, 6], constants)
    x = normal(4, 3, 6, 6, seed=1)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(path, tmp_path / "x.npy")
    assert result.layers[0].after > 25
    (tmp_path / "int8.onnx").write_bytes(result.content)
    y, _ = tw.compile(tmp_path / "int8.onnx", "tiny", cache=False).run(x)
    np.testing.assert_array_equal(y, reference_outputs(tmp_path / "int8.onnx", [x])[0])


def test_a_bias_of_one_row(tmp_path: Path) -> None:
    """As networks of CNTK have it: the quantiser compares arrays where it expects numbers."""
    constants = {"w": normal(8, 5), "b": normal(1, 5, seed=3)}
    path = model(
        tmp_path / "float.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "classes")], [1, 8], constants
    )
    x = normal(4, 8, seed=1)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(path, tmp_path / "x.npy")
    assert result.layers[0].after > 25
    (tmp_path / "int8.onnx").write_bytes(result.content)
    y, _ = tw.compile(tmp_path / "int8.onnx", "tiny", cache=False).run(x)
    np.testing.assert_array_equal(y, reference_outputs(tmp_path / "int8.onnx", [x])[0])


@pytest.mark.parametrize(
    "nodes,said",
    [
        (
            [
                helper.make_node("Conv", ["x", "w"], ["a"], "first"),
                helper.make_node("Resize", ["a", "", "", "sizes"], ["b"], "larger", mode="cubic"),
                helper.make_node("Conv", ["b", "w"], ["y"], "second"),
            ],
            "its quantised form: .*Resize node",
        ),
        (
            [helper.make_node("Conv", ["x", "w3"], ["y"], "dilated", auto_pad="SAME_LOWER", dilations=[2, 2])],
            "it: .*Dilation not supported",
        ),
    ],
    ids=["quantised", "float"],
)
def test_what_fails_on_data_alone_is_said_in_one_line(nodes: list[Any], said: str, tmp_path: Path) -> None:
    """Sizes of images, and padding to them, are looked at when ONNX Runtime meets one."""
    constants = {"w": normal(8, 8, 1, 1), "w3": normal(8, 8, 3, 3), "sizes": np.array([1, 8, 13, 5], np.int64)}
    path = model(tmp_path / "float.onnx", nodes, [1, 8, 9, 10], constants)
    np.save(tmp_path / "x.npy", normal(4, 8, 9, 10))
    with pytest.raises(TilewrightError, match=f"ONNX Runtime cannot run {said}") as caught:
        quantize_file(path, tmp_path / "x.npy")
    assert "\n" not in str(caught.value)
