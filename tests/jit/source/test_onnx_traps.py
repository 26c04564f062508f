"""Numbers and forms that a reader of ``.onnx`` files can trip over, each against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import tilewright as tw
from tests.fuzz.cases import EXACT, check_case
from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tilewright.checking import reference_outputs
from tilewright.jit.source.onnx.source import OnnxSource

ACTIVATIONS = pytest.mark.parametrize("activations", ["uint8", "int8"])
IMAGE = (1, 4, 6, 6)


@ACTIVATIONS
def test_classifier_bias_that_onnx_runtime_takes_as_it_is(activations: str, tmp_path: Path) -> None:
    """Its integer Gemm adds the bias' integers whatever their scale: the result follows what it computes."""
    b = NetBuilder(1, activations)
    x = b.real_input((1, 20))
    weight, _ = b.weight((5, 20), per_channel=False)
    bias = b.dequantise(b.constant(np.arange(5, dtype=np.int32) * 90), 0.01, np.int32(0))
    y = b.op("Gemm", [x.name, weight, bias], transB=1)
    b.output(b.pair(y, (1, 5), 0.05, 3).name, (1, 5))
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert kinds(built) in (["Conv2D"], [])


@ACTIVATIONS
def test_float_bias(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(2, activations)
    x = b.real_input(IMAGE)
    weight, _ = b.weight((5, 4, 3, 3))
    y = b.op("Conv", [x.name, weight, b.constant(b.rng.normal(0, 1, 5).astype(F))])
    b.output(b.pair(y, (1, 5, 4, 4), 0.05, 3).name, (1, 5, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]


@ACTIVATIONS
def test_dequantised_with_other_numbers_than_quantised(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(3, activations)
    x = b.real_input(IMAGE)
    q = b.quantise(b.conv(x, 5), 0.05, 4)
    y = Tensor(b.dequantise(q, 0.067, b.zero(-9)), (1, 5, 4, 4), 0.067, 1.0)
    b.output(b.pair(b.conv(y, 3, 1), (1, 3, 4, 4), 0.06, 1).name, (1, 3, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "Conv2D"]


@ACTIVATIONS
@pytest.mark.parametrize("raw", [False, True])
def test_chain_of_requantisations(raw: bool, activations: str, tmp_path: Path) -> None:
    """ONNX Runtime leaves some of the pairs out, and so does the graph."""
    b = NetBuilder(4, activations)
    x = b.raw_input(IMAGE) if raw else b.real_input(IMAGE)
    for scale, zero in ((0.05, 4), (0.067, -9), (0.0313, 1)):
        x = b.pair(x.name, IMAGE, scale, zero)
    if raw:
        b.output(b.nodes[-1].input[0], IMAGE, activations)
    else:
        b.output(b.pair(b.conv(x, 3, bias=False), (1, 3, 4, 4), 0.06, 1).name, (1, 3, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


@ACTIVATIONS
@pytest.mark.parametrize("ending", ["pair", "float"])
@pytest.mark.parametrize("pooled", [False, True])
def test_classifier_without_a_pair_behind_flatten(ending: str, pooled: bool, activations: str, tmp_path: Path) -> None:
    b = NetBuilder(5, activations)
    x = b.real_input(IMAGE)
    x = b.fitted(b.conv(x, 7), (1, 7, 4, 4), 1.5)
    if pooled:
        x = b.fitted(b.op("GlobalAveragePool", [x.name]), (1, 7, 1, 1), 0.4)
    y = b.gemm(b.op("Flatten", [x.name], axis=1), x, 7 if pooled else 112, 10)
    b.output(b.fitted(y, (1, 10), 1.0).name if ending == "pair" else y, (1, 10))
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert bool(interpreted(built)) == (ending == "float")


@ACTIVATIONS
def test_addition_with_ties_and_an_odd_zero_point(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(6, activations)
    shape = (1, 4, 16, 16)
    x, y = (b.real_input(shape, 0.25, 5), b.real_input(shape, 0.125, -3))
    b.output(b.pair(b.op("Add", [x.name, y.name]), shape, 1.0, 7).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Add"]
    assert all(layer.proven for layer in built.exactness)


@ACTIVATIONS
@pytest.mark.parametrize("form", ["zero point left out", "one element", "constant nodes", "replaceable"])
def test_ways_to_give_constants(form: str, activations: str, tmp_path: Path) -> None:
    b = NetBuilder(7, activations)
    name = b.input(IMAGE)
    scale = b.constant(np.array([0.02], F) if form == "one element" else F(0.02))
    numbers = [scale]
    if form != "zero point left out":
        numbers.append(b.constant(b.zero(3).reshape(1) if form == "one element" else b.zero(3)))
    x = b.op("DequantizeLinear", [b.op("QuantizeLinear", [name, *numbers]), *numbers])
    y = b.conv(Tensor(x, IMAGE, 0.02, 1.0), 5)
    b.output(b.pair(y, (1, 5, 4, 4), 0.05, 3).name, (1, 5, 4, 4))
    if form == "constant nodes":
        b.nodes[:0] = [helper.make_node("Constant", [], [c.name], value=c) for c in b.constants]
        b.constants.clear()
    if form == "replaceable":
        b.inputs += [helper.make_tensor_value_info(c.name, c.data_type, list(c.dims)) for c in b.constants]
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]
    assert len(built.graph.inputs) == 1
    if form == "replaceable":  # ONNX Runtime may not fuse what its user may replace
        assert not all(layer.proven for layer in built.exactness)


@ACTIVATIONS
@pytest.mark.parametrize("zero", [131, 7])
def test_weights(zero: int, activations: str, tmp_path: Path) -> None:
    """uint8 weights less their zero point may leave int8; float weights may be quantised in the file."""
    b = NetBuilder(8, activations)
    x = b.real_input(IMAGE)
    weight, _ = b.weight((5, 4, 3, 3), per_channel=False, dtype="uint8", zero_point=zero)
    y = b.fitted(b.op("Conv", [x.name, weight]), (1, 5, 4, 4), 1.5)
    numbers = [b.constant(F(0.02)), b.constant(np.int8(0))]
    values = b.constant(b.rng.normal(0, 1, (3, 5, 1, 1)).astype(F))
    stored = b.op("DequantizeLinear", [b.op("QuantizeLinear", [values, *numbers]), *numbers])
    b.output(b.fitted(b.op("Conv", [y.name, stored]), (1, 3, 4, 4), 2.0).name, (1, 3, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "Conv2D"]


@ACTIVATIONS
@pytest.mark.parametrize("shape", [(4,), (1, 4, 5)])
def test_products_with_constants_that_are_no_matrix(shape: tuple[int, ...], activations: str, tmp_path: Path) -> None:
    b = NetBuilder(18, activations)
    x = b.real_input((1, 3, 4))
    weight, _ = b.weight(shape, per_channel=False)
    result = (1, 3, *shape[2:])
    b.output(b.pair(b.op("MatMul", [x.name, weight]), result, 0.05, 3).name, result)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert list(interpreted(built).values()) == [f"weights of shape {shape}"]


@ACTIVATIONS
def test_names(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(9, activations)
    x = b.real_input(IMAGE)
    b.output(b.pair(b.conv(x, 5), (1, 5, 4, 4), 0.05, 3).name, (1, 5, 4, 4))
    kept = next(i for i, node in enumerate(b.nodes) if node.op_type == "Conv")
    for i, node in enumerate(b.nodes):
        node.name = "mine" if i == kept else ""
    source, built = compared(b.save(tmp_path / "m.onnx"))
    names = [op.name for op in source.operators]
    assert names[kept] == "mine"
    assert names[0] == "op000_QuantizeLinear"
    (conv,) = (op for op in built.graph.ops if op.kind == "Conv2D")
    assert (conv.name, conv.source) == ("mine", f"op{kept:03d} Conv")
    assert built.notes[kept + 1] == "part of mine"
    assert "mine" in built.sources


def test_names_that_stand_twice(tmp_path: Path) -> None:
    b = NetBuilder(9)
    x = b.real_input(IMAGE)
    b.output(b.pair(b.conv(x, 5), (1, 5, 4, 4), 0.05, 3).name, (1, 5, 4, 4))
    for node in b.nodes:
        node.name = "same"
    source = OnnxSource(b.save(tmp_path / "m.onnx"))
    assert [op.name for op in source.operators] == [f"op{i:03d}_{n.op_type}" for i, n in enumerate(b.nodes)]
    assert source.reference()[0] != (tmp_path / "m.onnx").read_bytes()


@ACTIVATIONS
def test_optional_operands_left_empty(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(10, activations)
    x = b.real_input(IMAGE)
    weight, _ = b.weight((5, 4, 3, 3))
    y = b.op("Clip", [b.op("Conv", [x.name, weight, ""]), "", b.constant(F(2.5))])
    b.output(b.pair(y, (1, 5, 4, 4), 0.05, 4).name, (1, 5, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]


@ACTIVATIONS
def test_edges(activations: str, tmp_path: Path) -> None:
    """Outputs that are read on, an output that is an input, one that leaves a layer in its middle."""
    b = NetBuilder(11, activations)
    x = b.real_input(IMAGE)
    b.output(b.inputs[0].name, IMAGE)
    y = b.fitted(b.conv(x, 5), (1, 5, 4, 4), 1.5)
    b.output(y.name, y.shape)
    z = b.conv(y, 6, 1)
    b.output(z, (1, 6, 4, 4))
    b.output(b.fitted(z, (1, 6, 4, 4), 1.0).name, (1, 6, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert list(interpreted(built).values()) == ["Conv with a tensor of type float32"]


@ACTIVATIONS
def test_a_dequantised_tensor_with_several_readers(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(12, activations)
    x = b.real_input(IMAGE)
    y = b.fitted(b.conv(x, 4, 1), IMAGE, 1.0)
    z = b.pair(b.op("CumSum", [x.name, b.constant(np.array(1))]), IMAGE, 1 / 64, -128)
    total = b.fitted(b.op("Add", [x.name, y.name]), IMAGE, 1.5)
    b.output(b.fitted(b.op("Add", [total.name, z.name]), IMAGE, 2.0).name, IMAGE)
    source, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "Add", "Add"]
    assert len(interpreted(built)) == 1
    refused = next(op.index for op in source.operators if op.kind == "Conv")
    _, less = compared(b.save(tmp_path / "m.onnx"), {refused: "too large"})
    assert kinds(less) == ["Add", "Add"]
    assert "too large" in interpreted(less).values()


@ACTIVATIONS
def test_what_waits_for_itself_through_integers_is_taken_apart(activations: str, tmp_path: Path) -> None:
    """A float tensor that is also added to what an integer layer makes of it, which is on the accelerator."""
    b = NetBuilder(13, activations)
    x = b.real_input(IMAGE)
    c = b.op("Sin", [b.conv(x, 4, 1)])
    y = b.pair(c, IMAGE, 0.01, 0)
    z = b.fitted(b.conv(y, 4, 1), IMAGE, 1.0)
    b.output(b.pair(b.op("Add", [c, z.name]), IMAGE, 0.07, 1).name, IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert [name.split("_")[0] for name in interpreted(built)] == ["conv", "sin", "add"]
    assert kinds(built) == ["Conv2D"]


@ACTIVATIONS
def test_scales_per_channel_of_an_activation(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(14, activations)
    name = b.input(IMAGE)
    numbers = [b.constant(np.array([0.02, 0.03, 0.04, 0.05], F)), b.constant(np.zeros(4, activations))]
    quantised = b.op("QuantizeLinear", [name, *numbers], axis=1)
    y = b.op("Relu", [b.op("DequantizeLinear", [quantised, *numbers], axis=1)])
    b.output(b.pair(y, IMAGE, 0.05, 1).name, IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert "an activation with scales per channel" in interpreted(built).values()


@ACTIVATIONS
def test_branches_and_shapes_computed_in_the_file(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(15, activations)
    x = b.real_input(IMAGE)
    size = b.op("Gather", [b.op("Shape", [x.name]), b.constant(np.int64(0))], axis=0)
    target = b.op("Concat", [b.op("Unsqueeze", [size, b.constant(np.array([0]))]), b.constant(np.array([-1]))], axis=0)
    flat = b.op("Reshape", [x.name, target])
    b.output(b.fitted(b.gemm(flat, x, 144, 5), (1, 5), 3.0).name, (1, 5))
    large = b.op("Greater", [b.op("ReduceMax", [x.name], keepdims=0), b.constant(F(1))])
    bodies = [
        helper.make_graph(
            [helper.make_node(kind, [x.name], [kind])], kind, [], [helper.make_tensor_value_info(kind, 1, list(IMAGE))]
        )
        for kind in ("Sin", "Cos")
    ]
    y = b.op("If", [large], then_branch=bodies[0], else_branch=bodies[1])
    b.output(b.pair(y, IMAGE, 0.01, 0).name, IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]
    assert len(interpreted(built)) == 1


@ACTIVATIONS
def test_a_batch_that_does_not_come_apart_runs_in_the_interpreter(activations: str, tmp_path: Path) -> None:
    b = NetBuilder(16, activations)
    x = b.real_input((3, 4, 6, 6))
    y = b.pair(b.conv(x, 5), (3, 5, 4, 4), 0.05, 3)
    b.output(b.op("Transpose", [y.name], perm=[1, 0, 2, 3]), (5, 3, 4, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    # the convolution; what is only moved is the host's, whatever its batch
    assert [reason.split(" (")[0] for reason in interpreted(built).values()] == ["batch 3"]


@pytest.mark.parametrize("kind", ["Conv", "Resize", "AveragePool", "Add"])
def test_a_range_of_one_value(kind: str, tmp_path: Path) -> None:
    """A Relu whose zero point is the greatest integer leaves nothing else; such a layer is on the accelerator too."""
    b = NetBuilder(4, "uint8")
    x = b.real_input((1, 4, 6, 6))
    shape = (1, 4, 12, 12) if kind == "Resize" else (1, 4, 6, 6)
    made = {
        "Conv": lambda: b.conv(x, 4, 1),
        "Resize": lambda: b.op("Resize", [x.name, "", b.constant(np.array([1, 1, 2, 2], F))], mode="linear"),
        "AveragePool": lambda: b.op("AveragePool", [x.name], kernel_shape=[1, 1]),
        "Add": lambda: b.op("Add", [x.name, b.real_input((1, 4, 6, 6)).name]),
    }[kind]()
    b.output(b.pair(b.op("Relu", [made]), shape, 0.031, 127).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


@pytest.mark.parametrize("value", [F(1), np.arange(6, dtype=np.int64).reshape(2, 3), np.array([True, False])])
def test_a_constant_output_is_given_with_every_inference(value: Any, tmp_path: Path) -> None:
    b = NetBuilder(17)
    b.output(b.pair(b.op("Relu", [b.real_input(IMAGE).name]), IMAGE, 0.031, 127).name, IMAGE)
    b.output(b.op("Identity", [b.constant(value)]), np.shape(value), np.asarray(value).dtype.name)
    path = b.save(tmp_path / "m.onnx")
    assert check_case(path, "tiny", [np.random.default_rng(0).normal(0, 1, (2, *IMAGE[1:])).astype(F)]).kind == EXACT


@ACTIVATIONS
def test_a_tensor_without_axes_between_operators_of_the_host(activations: str, tmp_path: Path) -> None:
    """A mean over everything: a reshape of it asked for the batch, and ONNX Runtime was given a NumPy scalar."""
    b = NetBuilder(18, activations)
    x = b.real_input(IMAGE)
    mean = b.pair(b.op("ReduceMean", [x.name], keepdims=0), (), 0.01, 3)
    flat = b.op("Reshape", [mean.name, b.constant(np.array([], np.int64))])
    b.output(b.pair(b.op("Sub", [x.name, flat]), IMAGE, 0.03, -3).name, IMAGE)
    path = b.save(tmp_path / "m.onnx")
    x_in = np.random.default_rng(0).normal(0, 1, (3, *IMAGE[1:])).astype(F)
    exe = tw.compile(path, "tiny", cache=False)
    np.testing.assert_array_equal(exe(x_in), reference_outputs(path, [x_in])[0])


@pytest.mark.parametrize("channels_last", [0, 1])
def test_average_over_more_than_the_image_is_refused(channels_last: int, tmp_path: Path) -> None:
    """ONNX Runtime divides by the number of results: the process would end."""
    b = NetBuilder(1)
    numbers = [b.constant(F(0.1)), b.constant(np.uint8(3))]
    shape = (1, 3, 4, 2) if channels_last else (1, 2, 3, 4)
    x = b.input(shape, "uint8")
    y = b.op(
        "QLinearAveragePool", [x, *numbers, *numbers], "com.microsoft", kernel_shape=[4, 2],
        channels_last=channels_last,
    )  # fmt: skip
    b.output(y, (1, 0, 3, 2) if channels_last else (1, 2, 0, 3), "uint8")
    with pytest.raises(tw.TilewrightError, match=rf"QLinearAveragePool \({y}\) with a window larger than its image"):
        tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_weights_with_scales_by_block_and_no_zero_point(dtype: str, tmp_path: Path) -> None:
    """Without saturating products ONNX Runtime gives int8 ones a single zero point, at which it stops."""
    b = NetBuilder(2, "uint8", opset=21)
    x = b.raw_input((1, 3, 32))
    x_name = b.inputs[0].name
    weight = b.constant(b.rng.integers(0, 100, (32, 5)).astype(dtype))
    blocks = b.constant(b.rng.uniform(0.01, 0.05, (2, 5)).astype(F))
    y = b.op("MatMul", [x.name, b.op("DequantizeLinear", [weight, blocks], axis=0, block_size=16)])
    y = b.op("Add", [y, b.constant(b.rng.normal(size=5).astype(F))])
    b.output(b.quantise(y, 0.1, 3), (1, 3, 5), "uint8")
    path = b.save(tmp_path / "m.onnx")
    given = np.random.default_rng(0).integers(0, 256, (4, 3, 32)).astype(np.uint8)
    got = tw.compile(path, "tiny", cache=False, exact="proven")(given)
    np.testing.assert_array_equal(got, reference_outputs(path, [given])[0])
    whole = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(got, np.concatenate([whole.run(None, {x_name: one[None]})[0] for one in given]))
