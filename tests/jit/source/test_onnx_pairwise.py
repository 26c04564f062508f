"""Operators of two tensors, and functions of single elements, equal ONNX Runtime's for all values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds, run
from tests.jit.source.test_onnx_arithmetic import ALL, CONTRIB, ran
from tilewright.jit.graph import Add
from tilewright.jit.layers import pairwise
from tilewright.jit.numbers.float_tables import multiply_table
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

both = pytest.mark.parametrize("dtype", ["uint8", "int8"])
SHAPE = (1, 6, 5, 7)


def agree(path: Path, inputs: list[np.ndarray]) -> OnnxSource:
    """The graph's integers are ONNX Runtime's wherever the compiler says that they are."""
    source = OnnxSource(path)
    built = source.build({})
    assert not interpreted(built)
    (got,), (wanted,) = run(source, built, inputs), interpreters.load("onnxruntime", path.read_bytes(), "all")(inputs)
    wrong = float((got != wanted).mean())
    assert wrong <= max(layer.worst for layer in built.exactness)
    return source


@both
@pytest.mark.parametrize("powers", [False, True])
def test_multiplication_of_all_pairs(dtype: str, powers: bool, tmp_path: Path) -> None:
    moved = 128 if dtype == "uint8" else 0
    for seed in range(10):
        b = NetBuilder(seed, dtype)
        scales = [F(2.0 ** b.rng.integers(-5, 0)) if powers else F(b.rng.uniform(0.002, 0.2)) for _ in range(3)]
        zeros = b.rng.integers(-128, 128, 3)
        shape = (1, 1, 256, 256)
        x, y = b.input(shape, dtype), b.input(shape, dtype)
        numbers = [[b.constant(s), b.constant(b.zero(int(z)))] for s, z in zip(scales, zeros, strict=True)]
        b.output(b.op("QLinearMul", [x, *numbers[0], y, *numbers[1], *numbers[2]], CONTRIB), shape, dtype)
        grid = [v.astype(dtype).reshape(shape) for v in np.meshgrid(ALL + moved, ALL + moved, indexing="ij")]
        got = ran(b, tmp_path / "m.onnx", *grid).astype(int).reshape(256, 256) - moved
        (sa, sb, sy), (i, j, k) = map(float, scales), map(int, zeros)
        wanted = multiply_table((sa, sb, sy), (i, j, k), unsigned=dtype == "uint8")
        np.testing.assert_array_equal(got, np.clip(wanted, -128, 127))
        source = agree(tmp_path / "m.onnx", grid)
        assert all(layer.proven for layer in source.build({}).exactness)


@both
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"])
def test_float_operators_of_all_pairs(kind: str, dtype: str, tmp_path: Path) -> None:
    moved = 128 if dtype == "uint8" else 0
    for seed in range(8):
        b = NetBuilder(seed, dtype)
        shape = (1, 1, 256, 256)
        scales = [float(F(b.rng.uniform(0.01, 0.2))) for _ in range(3)]
        zeros = [int(z) for z in b.rng.integers(-128, 128, 3)]
        inputs = [b.raw_input(shape, s, z).name for s, z in zip(scales[:2], zeros[:2], strict=True)]
        b.output(b.quantise(b.op(kind, inputs), scales[2], zeros[2]), shape, dtype)
        b.save(tmp_path / "m.onnx")
        grid = [v.astype(dtype).reshape(shape) for v in np.meshgrid(ALL + moved, ALL + moved, indexing="ij")]
        agree(tmp_path / "m.onnx", grid)


#: scales and zero points (as int8) of both and of the sum: half up, or ties to even, would miss a near tie
NEAR_TIES = [
    ((0.030874, 0.00544, 0.006428), (-48, 8, -25)),
    ((0.016771, 0.027626, 0.019914), (117, -126, -73)),
    ((0.021318, 0.018675, 0.008058), (115, -56, -58)),
    ((0.01251, 0.013908, 0.010752), (19, 81, -61)),
    ((0.014854, 0.00858, 0.016324), (70, -81, 116)),
    ((0.005047, 0.039271, 0.038067), (-11, 31, -61)),
    ((0.022857, 0.018303, 0.018384), (17, -118, -112)),
    ((0.022326, 0.012222, 0.029152), (-72, 97, -56)),
    ((0.05, 0.08, 0.1), (-128, -128, -128)),
]
#: decimal scales, of which the inner of two multiply-adds rounds otherwise than any line: a table corrects it
CORRECTED = [
    ((0.06, 0.1, 0.12), (6, -32, -49)),
    ((0.01, 0.07, 0.06), (-128, 89, -128)),
]


def sum_of_all_pairs(path: Path, scales: tuple[float, ...], zeros: tuple[int, ...]) -> list[np.ndarray]:
    b, shape = NetBuilder(0, "uint8"), (1, 1, 256, 256)
    inputs = [b.raw_input(shape, s, z).name for s, z in zip(scales[:2], zeros[:2], strict=True)]
    b.output(b.quantise(b.op("Add", inputs), scales[2], zeros[2]), shape, "uint8")
    b.save(path)
    return [v.astype(np.uint8).reshape(shape) for v in np.meshgrid(ALL + 128, ALL + 128, indexing="ij")]


@pytest.mark.parametrize(("scales", "zeros"), NEAR_TIES + CORRECTED)
def test_sums_near_ties_are_exact(scales: tuple[float, ...], zeros: tuple[int, ...], tmp_path: Path) -> None:
    source = agree(tmp_path / "m.onnx", sum_of_all_pairs(tmp_path / "m.onnx", scales, zeros))
    built = source.build({})
    assert all(layer.proven for layer in built.exactness)
    (total,) = (op for op in built.graph.ops if isinstance(op, Add))
    assert bool(total.corrections) == ((scales, zeros) in CORRECTED)


def test_a_sum_that_no_constants_give_stays_with_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairwise, "fit_sum", lambda *_: None)
    sum_of_all_pairs(tmp_path / "m.onnx", *NEAR_TIES[0])
    source = OnnxSource(tmp_path / "m.onnx")
    built = source.build({})
    assert [reason for reason in interpreted(built).values() if "would not always give" in reason]


@both
@pytest.mark.parametrize("other", [(1, 6, 1, 1), (1, 1, 5, 7), (1, 6, 1, 7), (1, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min", "Sum"])
def test_broadcasting(kind: str, other: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    b = NetBuilder(sum(other), dtype)
    x = b.real_input(SHAPE)
    y = b.real_input(other, 0.013, -7)
    swapped = [y.name, x.name] if sum(other) % 2 else [x.name, y.name]
    b.output(b.pair(b.op(kind, swapped), SHAPE, 0.0311, 5).name, SHAPE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


@both
@pytest.mark.parametrize("kind", ["Max", "Min", "Sum", "Mean"])
def test_several_tensors(kind: str, dtype: str, tmp_path: Path) -> None:
    """Extremes are a chain; of sums of three float32 numbers no table holds all."""
    for scales in ((0.03, 0.03, 0.03), (0.02, 0.013, 0.04)):
        b = NetBuilder(8, dtype)
        operands = [
            b.real_input(shape, s, 3).name for shape, s in zip((SHAPE, (1, 6, 1, 1), SHAPE), scales, strict=True)
        ]
        operands.insert(1, b.pair(b.constant(F(0.31)), (), 0.01, 0).name)
        b.output(b.pair(b.op(kind, operands), SHAPE, scales[0], 3).name, SHAPE)
        _, built = compared(b.save(tmp_path / "m.onnx"))
        assert bool(interpreted(built)) == (kind in ("Sum", "Mean"))


@both
def test_ranks_that_differ_stay(dtype: str, tmp_path: Path) -> None:
    """A vector beside an image may be one per column or per channel, as its own layout says."""
    b = NetBuilder(3, dtype)
    x, y = b.real_input(SHAPE), b.real_input((6, 1, 1), 0.013, -7)
    b.output(b.pair(b.op("Mul", [x.name, y.name]), SHAPE, 0.0311, 5).name, SHAPE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert [reason for reason in interpreted(built).values() if "ranks or layouts" in reason]


def single(b: NetBuilder, kind: str, x: str) -> str:
    """A float32 function of one tensor."""
    number = b.constant(F(0.37))
    if kind == "Swish":
        return b.op("Mul", [x, b.op("Sigmoid", [x])])
    if kind == "HardSwish in parts":
        inner = b.op("Clip", [b.op("Add", [x, b.constant(F(3))]), b.constant(F(0)), b.constant(F(6))])
        return b.op("Div", [b.op("Mul", [x, inner]), b.constant(F(6))])
    if kind in ("Add", "Sub", "Mul", "Div", "Max", "Mean", "Min", "PRelu", "Sum"):
        return b.op(kind, [x, number])
    if kind == "number first":
        return b.op("Sub", [number, x])
    if kind in ("Acos", "Asin", "Atanh"):  # of -1 to 1
        return b.op(kind, [b.op("Clip", [x, b.constant(F(-0.9)), b.constant(F(0.9))])])
    if kind == "Acosh":
        return b.op(kind, [b.op("Clip", [x, b.constant(F(1)), b.constant(F(9))])])
    if kind == "Swish of opset 24":
        return b.op("Swish", [x], alpha=1.7)
    if kind == "Where":
        return b.op(kind, [b.op("Not", [b.op("Less", [x, number])]), b.op("Neg", [x]), number])
    if kind == "Mod":
        return b.op(kind, [x, number], fmod=1)
    if kind == "Cast":
        return b.op("Cast", [b.op("Greater", [x, number])], to=1)
    if kind == "Shrink":
        return b.op(kind, [x], lambd=0.4, bias=0.1)
    return b.op(kind, [x])


FUNCTIONS = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Div", "Elu", "Exp", "HardSigmoid",
    "HardSwish", "HardSwish in parts", "LeakyRelu", "Max", "Min", "Mul", "PRelu", "Shrink", "Sigmoid", "Sinh",
    "Softplus", "Softsign", "Sub", "Sum", "Mean", "Mod", "Cast", "Where", "Swish", "Swish of opset 24", "Tan", "Tanh",
    "number first",
)  # fmt: skip


@both
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_single_elements(kind: str, dtype: str, tmp_path: Path) -> None:
    moved = 128 if dtype == "uint8" else 0
    for seed in range(3):
        b = NetBuilder(seed, dtype, opset=24 if kind.endswith("24") else 14)
        shape = (1, 3, 16, 17)
        x = b.raw_input(shape, float(F(b.rng.uniform(0.01, 0.05))), b.zero(int(b.rng.integers(-128, 128))))
        y = b.quantise(single(b, kind, x.name), float(F(b.rng.uniform(0.005, 0.05))), int(b.rng.integers(-99, 99)))
        b.output(y, shape, dtype)
        path = b.save(tmp_path / "m.onnx")
        _, built = compared(path, count=2)
        assert kinds(built) == ["Requantize"]
        assert all(layer.proven for layer in built.exactness)
        agree(path, [(np.resize(ALL, shape) + moved).astype(dtype)])


@both
@pytest.mark.parametrize("kind", ["QLinearLeakyRelu", "QLinearSigmoid"])
def test_kernels_of_single_elements(kind: str, dtype: str, tmp_path: Path) -> None:
    b = NetBuilder(5, dtype)
    numbers = [b.constant(F(0.04)), b.constant(b.zero(-3)), b.constant(F(0.011)), b.constant(b.zero(7))]
    extra = {"alpha": 0.2} if kind == "QLinearLeakyRelu" else {}
    b.output(b.op(kind, [b.input(SHAPE, dtype), *numbers], CONTRIB, **extra), SHAPE, dtype)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Requantize"]


@both
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(
    "kind", ["Add", "Sub", "Mul", "Div", "PRelu", "QLinearAdd", "QLinearMul", "chain", "BatchNormalization"]
)
def test_numbers_per_channel(kind: str, opset: int, dtype: str, tmp_path: Path) -> None:
    """Of either sign; with the numbers first where the order matters."""
    channels = (6, 1, 1) if opset == 13 else (1, 6, 1, 1)
    b = NetBuilder(opset, dtype, opset)
    x = b.real_input(SHAPE)
    numbers = b.rng.normal(0, 1, channels).astype(F)
    if kind.startswith("QLinear"):
        values = b.constant(b.rng.integers(0, 128, (1, 6, 1, 1)).astype(dtype))
        stored = b.dequantise(values, 0.011, b.zero(-9))
        y = b.op(kind[7:], [stored, x.name])
    elif kind == "BatchNormalization":
        means = [b.constant(v.reshape(-1)) for v in (numbers, numbers[::-1].copy(), numbers * F(0.3))]
        y = b.op(kind, [x.name, *means, b.constant(np.abs(numbers).reshape(-1) + F(0.5))])
    elif kind == "chain":
        y = b.op("Relu", [b.op("Add", [b.op("Mul", [x.name, b.constant(numbers)]), b.constant(numbers[::-1].copy())])])
    else:
        operands = [x.name, b.constant(numbers)]
        y = b.op(kind, operands[::-1] if kind == "Sub" else operands)
    b.output(b.pair(y, SHAPE, 0.0311, 5).name, SHAPE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert set(kinds(built)) <= {"Requantize", "DepthwiseConv2D", "Add"}


def test_a_constant_with_scales_of_its_own_belongs_to_the_interpreter(tmp_path: Path) -> None:
    b = NetBuilder(3)
    x = b.real_input(SHAPE)
    values = b.constant(b.rng.integers(0, 256, SHAPE).astype(np.uint8))
    scales = b.rng.uniform(0.01, 0.02, SHAPE[1]).astype(F)
    y = b.op("Sub", [x.name, b.dequantise(values, scales, np.full(SHAPE[1], 131, np.uint8), axis=1)])
    b.output(b.pair(y, SHAPE, 0.0311, 5).name, SHAPE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert "scales per channel" in " ".join(interpreted(built).values())


@both
def test_what_onnx_runtime_takes_apart_leaves_the_layer_ahead_alone(dtype: str, tmp_path: Path) -> None:
    """HardSwish becomes HardSigmoid and Mul, nodes without a place in the file."""
    b = NetBuilder(3, dtype, 14)
    x = b.real_input(SHAPE)
    y = b.fitted(b.conv(x, 8, 1), (1, 8, *SHAPE[2:]), 1.0)
    y = b.fitted(b.op("HardSwish", [y.name]), y.shape, 0.6)
    b.output(b.fitted(b.conv(y, 5, 1), (1, 5, *SHAPE[2:]), 1.0).name, (1, 5, *SHAPE[2:]))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert kinds(built) == ["Conv2D", "Requantize", "Conv2D"]
