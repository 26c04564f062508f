"""int8 constants that several operators read, which ONNX Runtime's own change to uint8 stumbles over."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.runtime import interpreters
from tilewright.runtime.shared_constants import separated

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def _model(*, decoders: int, zero_points: str = "own", captured: bool = False, handed_on: bool = False) -> bytes:
    """Four layer normalisations of one int8 weight through one, two or four DequantizeLinear, and what gives it on."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    constants = {
        "w": rng.integers(-127, 128, 8, dtype=np.int8), "b": rng.normal(size=8).astype(np.float32),
        "s": np.float32(0.02), "u": np.uint8(128),
    }  # fmt: skip
    nodes, x = [], "x"
    for k in range(4):
        decoded = f"d{k % decoders}"
        if k < decoders:
            zero = "z" if zero_points == "shared" else f"z{k}"
            constants[zero] = np.int8(0)
            nodes.append(helper.make_node("DequantizeLinear", ["w", "s", zero], [decoded], name=decoded))
        if handed_on and k < decoders:
            nodes += [
                helper.make_node("Identity", [decoded], [f"i{k}"]),
                helper.make_node("Cast", [f"i{k}"], [f"c{k}"], to=TensorProto.FLOAT),
            ]
        decoded = f"c{k % decoders}" if handed_on else decoded
        nodes += [
            helper.make_node("QuantizeLinear", [x, "s", "u"], [f"q{k}"]),
            helper.make_node("DequantizeLinear", [f"q{k}", "s", "u"], [f"f{k}"]),
            helper.make_node("LayerNormalization", [f"f{k}", decoded, "b"], [f"y{k}"], axis=-1),
        ]
        x = f"y{k}"
    outputs = [x, "d0"] if captured else [x]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 8] if name == x else [8]) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


CASES = [(1, "own", False), (2, "shared", False), (4, "shared", False), (4, "own", False), (1, "own", True)]


def _computes_the_same(model: bytes) -> None:
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(model, plain, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    got = interpreters.load("onnxruntime", model, "shared")([x])
    for mine, theirs in zip(got, reference.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("captured", [False, True])
def test_a_constant_that_is_handed_on_loads(captured: bool) -> None:
    """ONNX Runtime takes Identity and a Cast to float32 out before it looks who shares a constant."""
    _computes_the_same(_model(decoders=1, handed_on=True, captured=captured))


def test_constants_that_a_body_shares_load() -> None:
    """As quantised LSTMs have them in the body of a Scan."""
    from onnx import TensorProto, helper

    whole = onnx.load_from_string(_model(decoders=1))
    body = onnx.GraphProto()
    body.CopyFrom(whole.graph)
    for value in (*body.input, *body.output):
        value.name = f"one_{value.name}"
    for node in body.node:
        node.input[:] = ["one_x" if name == "x" else name for name in node.input]
        node.output[:] = ["one_y3" if name == "y3" else name for name in node.output]
    graph = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["x", "axis"], ["steps"]),
            helper.make_node("Scan", ["steps"], ["scanned"], body=body, num_scan_inputs=1),
            helper.make_node("Squeeze", ["scanned", "axis"], ["y"]),
        ],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor("axis", TensorProto.INT64, [1], [0])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    _computes_the_same(bytes(made.SerializeToString()))


@pytest.mark.parametrize(("decoders", "zero_points", "captured"), CASES)
def test_models_with_shared_constants_load_and_compute_the_same(
    decoders: int, zero_points: str, captured: bool
) -> None:
    _computes_the_same(_model(decoders=decoders, zero_points=zero_points, captured=captured))


@pytest.mark.parametrize(("decoders", "zero_points", "captured"), CASES)
def test_each_reader_of_a_separated_model_has_its_own(decoders: int, zero_points: str, captured: bool) -> None:
    apart = separated(_model(decoders=decoders, zero_points=zero_points, captured=captured))
    graph = onnx.load_from_string(apart).graph
    onnx.checker.check_model(onnx.load_from_string(apart))
    eights = {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.INT8}
    read = [name for node in graph.node for name in node.input if name in eights]
    assert len(read) == len(set(read)) == (10 if captured else 8)
    decoded = [name for node in graph.node if node.op_type == "LayerNormalization" for name in node.input[1:2]]
    assert len(set(decoded)) == 4


def test_the_refusal_is_still_there() -> None:
    """ONNX Runtime refuses what is separated here; when it no longer does, the module can go."""
    options = interpreters.onnxruntime_options()
    with pytest.raises(Exception, match="Attempt to replace the existing tensor"):
        onnxruntime.InferenceSession(_model(decoders=1), options, providers=["CPUExecutionProvider"])


def _computed(handed_on: bool) -> bytes:
    """Two layer normalisations of one weight that is quantised by the model itself, or of one that is handed on and
    quantised again."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    constants: dict[str, object] = {
        "w": rng.normal(size=8).astype(np.float32), "b": rng.normal(size=8).astype(np.float32),
        "s": np.float32(0.02), "u": np.uint8(128), "z": np.int8(0),
    }  # fmt: skip
    nodes, x = [helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"])], "x"
    if handed_on:
        constants["z1"], constants["v"] = np.int8(0), rng.integers(-127, 128, 8, dtype=np.int8)
        nodes = [
            helper.make_node("DequantizeLinear", ["v", "s", "z"], ["d0"]),
            helper.make_node("Identity", ["d0"], ["handed"]),
            helper.make_node("QuantizeLinear", ["handed", "s", "z1"], ["q"]),
        ]
    for k in range(2):
        if not (handed_on and k == 0):
            nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z1" if handed_on else "z"], [f"d{k}"]))
        nodes += [
            helper.make_node("QuantizeLinear", [x, "s", "u"], [f"q{k}"]),
            helper.make_node("DequantizeLinear", [f"q{k}", "s", "u"], [f"f{k}"]),
            helper.make_node("LayerNormalization", [f"f{k}", f"d{k}", "b"], [f"y{k}"], axis=-1),
        ]
        x = f"y{k}"
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [3, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def _operators() -> bytes:
    """Two integer convolutions whose weights have one zero point, as tools that merge equal constants leave them."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.integers(-127, 128, (4, 4, 1, 1), dtype=np.int8) for k in range(2)}
    constants: dict[str, object] = {**weights, "s": np.float32(0.02), "u": np.uint8(128), "z": np.int8(0)}
    nodes, x = [helper.make_node("QuantizeLinear", ["x", "s", "u"], ["q"])], "q"
    for k in range(2):
        nodes.append(helper.make_node("QLinearConv", [x, "s", "u", f"w{k}", "s", "z", "s", "u"], [f"q{k}"]))
        x = f"q{k}"
    nodes.append(helper.make_node("DequantizeLinear", [x, "s", "u"], ["y"]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 3, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("how", ["computed", "handed on", "operators"])
def test_constants_that_are_computed_and_those_of_operators(how: str) -> None:
    model = _operators() if how == "operators" else _computed(how == "handed on")
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(model, plain, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(size=(1, 4, 3, 8) if how == "operators" else (3, 8)).astype(np.float32)
    (got,) = interpreters.load("onnxruntime", model, "shared")([x])
    np.testing.assert_allclose(got, reference.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(Exception, match="Attempt to replace the existing tensor"):
        onnxruntime.InferenceSession(model, interpreters.onnxruntime_options(), providers=["CPUExecutionProvider"])
