"""Attention blocks as exporters write and ONNX Runtime's quantiser leaves them: all products on the accelerator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from bench.networks.transformer import Drawing, block_model
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, kinds
from tilewright.checking import reference_outputs
from tilewright.jit.graph import Conv2D, HostOp, Interpreted, MatMul, Transpose
from tilewright.jit.source.onnx.quantised import exponentials
from tilewright.jit.stages import stages
from tilewright.runtime import host


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_transformer_block_is_exact(tmp_path: Path, symmetric: bool) -> None:
    path = tmp_path / "block.onnx"
    block_model(path, tokens=12, width=32, heads=2, hidden=40, seed=3, symmetric=symmetric)
    _, built = compared(path)
    left = [op.source.split()[-1] for op in built.graph.ops if isinstance(op, Interpreted)]
    assert set(left) <= {"LayerNormalization", "Softmax"}
    assert sum(isinstance(op, MatMul) for op in built.graph.ops) == 2
    assert sum(isinstance(op, Conv2D) for op in built.graph.ops) == 6


def test_a_transformer_block_compiled(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    block_model(path, tokens=12, width=32, heads=2, hidden=40, seed=4)
    executable = tw.compile(path, "pynq-z2", cache=False)
    assert len(executable.artifact.programs) == 3
    x = np.random.default_rng(1).normal(size=(3, 12, 32)).astype(np.float32)
    y, _ = executable.run(x)
    assert isinstance(y, np.ndarray)
    assert np.array_equal(y, reference_outputs(path, [x[:, None]])[0].reshape(y.shape))


def test_softmax_by_table_against_the_definition() -> None:
    """Element after element, as ONNX Runtime's kernel is written."""
    rng, f = np.random.default_rng(2), np.float32
    table = exponentials(f(0.07), 9)
    x = rng.integers(-128, 128, (5, 9)).astype(np.int8)
    for row, got in zip(x.tolist(), host.softmax_by_table(x, table, 256.0, 3).tolist(), strict=True):
        places = [255 - max(row) + value for value in row]
        total = f(0)
        for place in places:
            total = f(total + table[place])
        wanted = [min(255, round(float(f(f(table[place] * f(256)) / total))) + 3) - 128 for place in places]
        assert got == wanted


class Fused(Drawing):
    """One product for queries, keys and values, whose halves of the scores' scale are on the first two, as timm has
    it."""

    def __init__(self, seed: int, form: str, windows: int = 1) -> None:
        super().__init__(seed)
        self.form, self.windows = form, windows

    def attention(self, x: str, tokens: int, width: int, heads: int) -> str:
        apart = self.constant(np.array([self.windows, tokens // self.windows, 3, heads, width // heads]))
        all_three = self.node("Reshape", self.dense(x, tokens, width, 3 * width), apart)
        if self.form != "slice":
            all_three = self.node("Transpose", all_three, perm=[2, 0, 3, 1, 4])
        q, k, v = [self.part(all_three, index) for index in range(3)]
        half = self.constant(np.array((width // heads) ** -0.25, np.float32))
        turned = self.node("Mul", self.node("Transpose", k, perm=[0, 1, 3, 2]), half)
        scores = self.node("MatMul", self.node("Mul", q, half), turned)
        values = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        merged = self.constant(np.array([1, tokens, width]))
        return self.dense(
            self.node("Reshape", self.node("Transpose", values, perm=[0, 2, 1, 3]), merged), tokens, width, width
        )

    def part(self, x: str, index: int) -> str:
        if self.form == "gather":
            return self.node("Gather", x, self.constant(np.array(index)), axis=0)
        if self.form == "slice":
            ends = [self.constant(np.array([value])) for value in (index, index + 1, 2)]
            one = self.node("Squeeze", self.node("Slice", x, *ends), ends[2])
            return self.node("Transpose", one, perm=[0, 2, 1, 3])
        if index == 0:
            self.parts = [f"part{number}_{len(self.nodes)}" for number in range(3)]
            self.nodes.append(helper.make_node("Split", [x], self.parts, name=self.parts[0], axis=0))
        return self.node("Squeeze", self.parts[index], self.constant(np.array([0])))


@pytest.mark.parametrize("form", ["split", "gather", "slice"])
@pytest.mark.parametrize(("tokens", "heads", "symmetric"), [(12, 2, False), (7, 4, True), (9, 1, False)])
def test_queries_keys_and_values_of_one_product(
    form: str, tokens: int, heads: int, symmetric: bool, tmp_path: Path
) -> None:
    path, net, shape = tmp_path / "fused.onnx", Fused(tokens, form), (1, tokens, 32)
    net.save(path, shape, net.block("x", tokens, 32, heads, 40), shape, symmetric)
    _, built = compared(path)
    left = [op.source.split()[-1] for op in built.graph.ops if isinstance(op, Interpreted)]
    assert set(left) <= {"LayerNormalization", "Softmax"}
    assert sum(isinstance(op, MatMul) for op in built.graph.ops) == 2
    place = {op.name: "host" if isinstance(op, HostOp) else "accelerator" for op in built.graph.ops}
    # up to the scores; from the values to the first LayerNormalization; from there to the second
    assert sum(stage.kind == "accelerator" for stage in stages(built.graph, place)) == 3


@pytest.mark.parametrize("form", ["split", "gather", "slice"])
@pytest.mark.parametrize(("windows", "heads"), [(4, 2), (3, 1)])
def test_attention_within_windows(form: str, windows: int, heads: int, tmp_path: Path) -> None:
    """Of a batch that one image is cut into, as MobileViT and Swin have it."""
    path, net, shape = tmp_path / "windows.onnx", Fused(heads, form, windows), (1, 12, 32)
    net.save(path, shape, net.block("x", 12, 32, heads, 40), shape, symmetric=False)
    _, built = compared(path)
    left = [op.source.split()[-1] for op in built.graph.ops if isinstance(op, Interpreted)]
    assert set(left) <= {"LayerNormalization", "Softmax"}
    assert [op.heads for op in built.graph.ops if isinstance(op, MatMul)] == [windows * heads] * 2


def factors(rng: np.random.Generator, count: int, rank: int) -> tuple[int, ...]:
    """A random shape of so many elements."""
    shape = [1] * rank
    for prime in (2, 3, 5, 7):
        while count % prime == 0:
            shape[int(rng.integers(rank))] *= prime
            count //= prime
    return tuple(shape)


def moved_net(path: Path, seed: int) -> Path:
    """Reshapes, transposes, parts and functions of single elements, one behind the other, of a random tensor."""
    rng = np.random.default_rng(seed)
    b = NetBuilder(seed, str(rng.choice(["int8", "uint8"])))
    x = b.real_input(((1, 6, 12, 4), (1, 12, 24), (1, 8, 6, 5))[int(rng.integers(3))])
    if rng.random() < 0.5 and len(x.shape) == 4:
        x = b.fitted(b.conv(x, 8, 1), (1, 8, *x.shape[2:]), 1.0)
    scale, zero_point = x.scale, 3
    x = b.pair(x.name, x.shape, scale, zero_point)
    for _ in range(int(rng.integers(3, 9))):
        shape, kind = x.shape, str(rng.choice(["Reshape", "Transpose", "Gather", "Slice", "Mul", "LeakyRelu", "none"]))
        rank = len(shape)
        if rank == 0:
            break
        axis = int(rng.integers(rank))
        y = x.name
        if kind == "Reshape":
            shape = factors(rng, int(np.prod(shape)), int(rng.integers(2, 7)))
            y = b.op(kind, [y, b.constant(np.array(shape))])
        elif kind == "Transpose":
            order = [int(a) for a in rng.permutation(rank)]
            y, shape = b.op(kind, [y], perm=order), tuple(shape[a] for a in order)
        elif kind == "Gather":
            y = b.op(kind, [y, b.constant(np.array(rng.integers(shape[axis])))], axis=axis)
            shape = (*shape[:axis], *shape[axis + 1 :])
        elif kind == "Slice":
            begin = int(rng.integers(shape[axis]))
            end = int(rng.integers(begin, shape[axis])) + 1
            y = b.op(kind, [y, *(b.constant(np.array([value])) for value in (begin, end, axis))])
            shape = (*shape[:axis], end - begin, *shape[axis + 1 :])
        elif kind == "Mul":
            y, scale = b.op(kind, [y, b.constant(F(0.37))]), scale / 3
        elif kind == "LeakyRelu":
            y, zero_point = b.op(kind, [y], alpha=0.2), -60
        else:
            scale *= 1.3
        x = b.pair(y, shape, scale, zero_point)
    b.output(x.name, x.shape)
    return b.save(path)


@pytest.mark.parametrize("seed", range(16))
def test_functions_of_moved_elements(seed: int, tmp_path: Path) -> None:
    compared(moved_net(tmp_path / "moved.onnx", seed), count=2)


def test_functions_do_not_wait_for_moves(tmp_path: Path) -> None:
    """Neither a table nor other numbers make the host arrange what a product reads arranged otherwise."""
    b = NetBuilder(1)
    x = b.real_input((1, 12, 32))
    sides: list[str] = []
    for number in (0.021, 0.033):
        weight, _ = b.weight((32, 32), axis=1, per_channel=False)
        y = b.pair(b.op("MatMul", [x.name, weight]), (1, 12, 32), number, 3)
        y = b.pair(b.op("Reshape", [y.name, b.constant(np.array([1, 12, 2, 16]))]), (1, 12, 2, 16), number, 3)
        y = b.pair(b.op("Transpose", [y.name], perm=[0, 2, len(sides) * 2 + 1, 3 - 2 * len(sides)]), y.shape, number, 3)
        made = b.op("LeakyRelu", [y.name], alpha=0.3) if sides else y.name
        sides.append(b.pair(made, (1, 2, 12, 16), number * 1.2, 4).name)
    b.output(b.pair(b.op("MatMul", sides), (1, 2, 12, 12), 0.3, 3).name, (1, 2, 12, 12))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == [*["Conv2D", "Requantize"] * 2, "MatMul"]
    assert not any(isinstance(op, (Interpreted, Transpose)) for op in built.graph.ops)


@pytest.mark.parametrize("count", [1, 2, 6, 9, 16, 32, 77])
@pytest.mark.parametrize("scale", [0.05, 0.69314718, 1.0, 1.3862944])
def test_softmax_decides_ties_as_onnx_runtime(scale: float, count: int) -> None:
    """Shares are halves now and then, and the last bit of the table decides: 254 of a row like the first is 252.5."""
    rng = np.random.default_rng(count)
    spreads = rng.integers(1, 256, (4000, 1))
    x = (rng.integers(0, 257 - spreads) + rng.integers(0, spreads, (4000, count))).astype(np.uint8)
    if count == 6:
        x[0] = 87, 23, 104, 101, 122, 93
    step = np.float32(1 / 254.4)
    numbers = {"sx": np.float32(scale), "zx": np.uint8(0), "sy": step, "zy": np.uint8(0)}
    node = helper.make_node(
        "QLinearSoftmax", ["x", *numbers], ["y"], domain="com.microsoft", axis=-1, opset=13,
    )  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.UINT8, list(x.shape)) for name in "xy"]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    (wanted,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    table = exponentials(np.float32(scale), count)
    with np.errstate(over="ignore"):  # of the first shares of very short rows, as there
        got = host.softmax_by_table((x ^ 128).view(np.int8), table, float(np.floor(np.float32(1) / step)), 0)
    np.testing.assert_array_equal(got.view(np.uint8) ^ 128, wanted)
