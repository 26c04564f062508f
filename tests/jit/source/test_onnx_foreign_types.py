"""Tensors of types that NumPy lacks (int4, float8, bfloat16) between the nodes of an ``.onnx`` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tilewright.checking import reference_outputs
from tilewright.jit.errors import ModelError

IMAGE = (1, 3, 6, 5)
TYPES = pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])


def _narrowed(b: NetBuilder, x: str, dtype: str) -> tuple[str, str, str]:
    """(float32 ``x`` quantised to ``dtype``, its scale, its zero point)."""
    import ml_dtypes

    zero = np.asarray(1.0 if "int" in dtype else 0.0).astype(getattr(ml_dtypes, dtype))
    scale, zero_point = b.constant(F(0.3)), b.constant(zero)
    return b.op("QuantizeLinear", [x, scale, zero_point]), scale, zero_point


@TYPES
def test_activations_between_two_convolutions(dtype: str, tmp_path: Path) -> None:
    """The first is the accelerator's, the narrow tensor and the second one are ONNX Runtime's."""
    b = NetBuilder(3, opset=21)
    x = b.pair(b.conv(b.raw_input(IMAGE), 3, 1), IMAGE, 0.02, 4)
    narrow, scale, zero = _narrowed(b, b.op("Relu", [x.name]), dtype)
    y = b.conv(b.pair(b.op("DequantizeLinear", [narrow, scale, zero]), IMAGE, 0.3, 0), 4, 1)
    b.output(b.quantise(y, 0.05, 3), (1, 4, 6, 5), "uint8")
    path = b.save(tmp_path / "m.onnx")
    _, built = compared(path)
    assert "Conv2D" in kinds(built)
    assert interpreted(built)
    given = np.random.default_rng(0).integers(0, 256, (4, *IMAGE[1:])).astype(np.uint8)
    exe = tw.compile(path, "tiny", cache=False, exact="proven")
    np.testing.assert_array_equal(exe(given), reference_outputs(path, [given])[0])


@TYPES
def test_two_that_read_a_narrow_tensor_stay_with_it(dtype: str, tmp_path: Path) -> None:
    """No part of the model hands it to another: neither Python nor a program could hold it."""
    b = NetBuilder(4, opset=21)
    narrow, scale, zero = _narrowed(b, b.raw_input(IMAGE).name, dtype)
    for kind in ("Sin", "Relu"):
        y = b.op(kind, [b.op("DequantizeLinear", [b.op("Transpose", [narrow]), scale, zero])])
        b.output(b.quantise(y, 0.05, 3), IMAGE[::-1], "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert len(interpreted(built)) == 1


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("opset", [13, 17])
def test_operators_of_onnx_runtime_s_own_take_them_in_any_opset(opset: int, dtype: str, tmp_path: Path) -> None:
    """All of it is one function of single elements, which the accelerator looks up."""
    b = NetBuilder(4, opset=opset)
    narrow, scale, zero = _narrowed(b, b.op("Sin", [b.raw_input(IMAGE).name]), dtype)
    b.nodes[-1].domain = "com.microsoft"
    y = b.op("DequantizeLinear", [narrow, scale, zero], "com.microsoft")
    b.output(b.quantise(y, 0.05, 3), IMAGE, "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built)
    assert not interpreted(built)


def test_bfloat16_on_the_way(tmp_path: Path) -> None:
    b = NetBuilder(5, opset=21)
    half = b.op("Reshape", [b.op("Cast", [b.raw_input(IMAGE).name], to=TensorProto.BFLOAT16), b.constant([1, 90])])
    b.output(b.quantise(b.op("Cast", [half], to=TensorProto.FLOAT), 0.05, 3), (1, 90), "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert len(interpreted(built)) == 1


def test_float8_result_is_given_as_its_bytes(tmp_path: Path) -> None:
    """As ONNX Runtime gives it."""
    b = NetBuilder(7, opset=21)
    narrow, _, _ = _narrowed(b, b.raw_input(IMAGE).name, "float8_e4m3fn")
    b.outputs.append(helper.make_tensor_value_info(narrow, TensorProto.FLOAT8E4M3FN, list(IMAGE)))
    path = b.save(tmp_path / "m.onnx")
    given = np.random.default_rng(0).integers(0, 256, (2, *IMAGE[1:])).astype(np.uint8)
    y = tw.compile(path, "tiny", cache=False)(given)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y, reference_outputs(path, [given])[0])


def test_edges_of_such_types_are_refused_by_name(tmp_path: Path) -> None:
    b = NetBuilder(8, opset=21)
    narrow, scale, zero = _narrowed(b, b.raw_input(IMAGE).name, "uint4")
    b.outputs.append(helper.make_tensor_value_info(narrow, TensorProto.UINT4, list(IMAGE)))
    with pytest.raises(tw.TilewrightError, match=rf"output '{narrow}' is of type uint4, which NumPy has not; end the"):
        tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)
    b = NetBuilder(9, opset=21)
    b.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, list(IMAGE)))
    _, scale, zero = _narrowed(b, b.constant(F(1)), "float8_e4m3fn")
    b.output(b.quantise(b.op("DequantizeLinear", ["x", scale, zero]), 0.1, 3), IMAGE, "uint8")
    with pytest.raises(tw.TilewrightError, match="input 'x' is of type float8_e4m3fn, which NumPy has not; make it"):
        tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)


@pytest.mark.parametrize("kind", [-1, 999])
@pytest.mark.parametrize("which", ["input", "output"])
@pytest.mark.parametrize("images", [1, 3])
def test_a_type_that_onnx_does_not_have_is_refused(kind: int, which: str, images: int, tmp_path: Path) -> None:
    b = NetBuilder(3, opset=21)
    shape = (images, *IMAGE[1:])
    x = b.pair(b.conv(b.raw_input(shape), 3, 1), shape, 0.02, 4)
    b.output(b.quantise(x.name, 0.05, 3), shape, "uint8")
    path = b.save(tmp_path / "m.onnx")
    model = onnx.load(path)
    getattr(model.graph, which)[0].type.tensor_type.elem_type = kind
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=rf"m\.onnx: .* type {kind}"):
        tw.compile(path, "tiny", cache=False)
