"""Networks with Resize ``linear``, quantised so that nothing of it is left to float32's last bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tests.jit.source.test_tflite_source import places
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.quantize import quantize_file
from tilewright.runtime import interpreters

F = np.float32


def upsampling(path: Path, factor: int, mode: str) -> Path:
    """A decoder's step: an image is resized, convolved, and its small form is read by a layer of its own."""
    rng = np.random.default_rng(3)
    constants: list[Any] = []

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(constants)}"))
        return str(constants[-1].name)

    def layer(x: str, y: str, *shape: int) -> Any:
        weight = constant(rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(F))
        return helper.make_node("Conv", [x, weight, constant(rng.normal(0, 1, shape[0]).astype(F))], [y], f"to_{y}")

    scales = constant(np.array([1, 1, factor, factor], F))
    nodes = [
        layer("x", "a", 8, 3, 1, 1),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node(
            "Resize", ["r", "", scales], ["u"], "up", mode="linear", coordinate_transformation_mode=mode
        ),
        layer("u", "y", 5, 8, 1, 1),
        layer("r", "z", 4, 8, 1, 1),
    ]  # fmt: skip
    size = 6 * factor
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", 1, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", 1, [1, 5, size, size]),
         helper.make_tensor_value_info("z", 1, [1, 4, 6, 6])], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("factor", "mode"), [(2, "half_pixel"), (2, "asymmetric"), (4, "half_pixel"), (3, "half_pixel")], ids=str
)
def test_every_layer_is_proven_and_on_the_accelerator(factor: int, mode: str, tmp_path: Path) -> None:
    path = upsampling(tmp_path / "float.onnx", factor, mode)
    data = np.random.default_rng(1).normal(0, 1, (20, 3, 6, 6)).astype(F)
    np.save(tmp_path / "x.npy", data)
    quantised = tmp_path / "int8.onnx"
    quantize_file(path, tmp_path / "x.npy").save(quantised)
    built = OnnxSource(quantised).build({})
    assert all(layer.proven for layer in built.exactness)
    exe: Any = tw.compile(quantised, "tiny", cache=False)
    assert places(exe.artifact)["Resize"] == "accelerator"
    (y, z), _ = exe.run(data)
    run = interpreters.load("onnxruntime", quantised.read_bytes(), "whole")
    real = interpreters.load("onnxruntime", path.read_bytes(), "real")
    for k, image in enumerate(data):
        wanted, exact = run([image[None]]), real([image[None]])
        np.testing.assert_array_equal(y[k], wanted[0][0])
        np.testing.assert_array_equal(z[k], wanted[1][0])
        for got, meant in zip(wanted, exact, strict=True):  # 8 bits are worth some 30 dB here
            assert np.square(meant).sum() > 1000 * np.square(got - meant).sum()
