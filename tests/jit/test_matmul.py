"""Products of two activations: whatever the heads, zero points and sizes, exact on the accelerator, and proven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.jit.execute import assert_exact
from tests.jit.random_graphs import random_config
from tests.jit.test_tiled import LEAST
from tilewright.config import PRESETS, Config
from tilewright.isa.functions import Rounding
from tilewright.jit import graph as g
from tilewright.jit import programs
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import Estimate
from tilewright.jit.cost.forms import Forms
from tilewright.jit.cost.lower_bound import layer_bounds, network_bound
from tilewright.jit.cost.tiles import TilesEstimate
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.matmul import int8_terms
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.token_rows import folds, parts
from tilewright.jit.reference import evaluate

PYNQ, TINY = PRESETS["pynq-z2"], PRESETS["tiny"]
ZERO_POINTS = (0, 0, 5, -7, -128, -127, 127)


class Products:
    """A graph of 1x1 convolutions and products, with random constants."""

    def __init__(self, seed: int, **inputs: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors = {name: g.TensorSpec(name, shape) for name, shape in inputs.items()}
        self.inputs: list[str] = list(inputs)
        self.ops: list[g.Op] = []

    def graph(self, *outputs: str) -> g.Graph:
        return g.Graph("products", self.inputs, list(outputs), self.tensors, self.ops)

    def project(self, x: str, name: str, channels: int) -> str:
        """A 1x1 convolution."""
        *before, depth = self.tensors[x].shape
        self.tensors[name] = g.TensorSpec(name, (*before, channels))
        shift = np.full(channels, 35 + int(np.log2(depth)), np.int32)
        bias, multiplier = self.rng.integers(-999, 999, channels), self.rng.integers(1 << 30, 1 << 31, channels)
        requant = g.Requant(
            bias.astype(np.int32), multiplier.astype(np.int32), shift, np.zeros(channels, np.int32), Rounding.DOUBLE,
            int(self.rng.integers(-9, 9)),
        )  # fmt: skip
        weight = self.rng.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8)
        self.ops.append(g.Conv2D(name=name, inputs=[x], output=name, weight=weight, requant=requant))
        return name

    def multiply(self, a: str, b: str, name: str, heads: int, offsets: tuple[int, int], merged: bool = False) -> str:
        """The products of the rows of two tensors, whose heads are as their shapes say."""
        (pixels, depth), (count, _) = (self._head(t, heads) for t in (a, b))
        self.tensors[name] = g.TensorSpec(name, (1, 1, pixels, heads * count) if merged else (1, heads, pixels, count))
        one = np.ones(count, np.int32)
        shift = 37 + int(np.log2(depth))
        requant = g.Requant(7 * one, (3 << 29) * one, shift * one, 0 * one, Rounding.DOUBLE, -3)
        self.ops.append(
            g.MatMul(
                name=name, inputs=[a, b], output=name, heads=heads, offsets=offsets, requant=requant, merged=merged
            )
        )
        return name

    def _head(self, tensor: str, heads: int) -> tuple[int, int]:
        """(pixels, channels) of a head."""
        _, rows, pixels, channels = self.tensors[tensor].shape
        return pixels, channels if rows == heads else channels // heads


def scores(heads: int, depth: int, pixels: int, offsets: tuple[int, int], seed: int = 0) -> g.Graph:
    """Two projections of one tensor, and the products of their rows."""
    net = Products(seed, x=(1, 1, pixels, 32))
    q, k = (net.project("x", name, heads * depth) for name in "qk")
    return net.graph(net.multiply(q, k, "s", heads, offsets))


@pytest.mark.parametrize(
    ("heads", "depth", "pixels", "offsets"),
    [
        (1, 16, 16, (0, 0)), (2, 16, 32, (5, 0)), (2, 32, 32, (0, -7)), (3, 16, 20, (-128, -128)), (2, 8, 24, (127, 3)),
        (1, 10, 7, (-128, 9)), (4, 16, 48, (-1, 127)), (2, 16, 64, (3, 0)), (3, 16, 130, (-128, 3)),
        (1, 20, 96, (0, 9)),
    ],
)  # fmt: skip
def test_projections_are_multiplied_in_one_program(
    heads: int, depth: int, pixels: int, offsets: tuple[int, int]
) -> None:
    graph = scores(heads, depth, pixels, offsets)
    assert len(compile_graph(graph, PYNQ).programs) == 1
    assert_exact(graph, PYNQ)


def test_both_products_of_an_attention_block() -> None:
    """Weighted values: scores come from the host, as softmax does, and values transposed; projected behind."""
    net = Products(1, p=(1, 4, 32, 32), v=(1, 1, 64, 32))
    net.tensors["v"] = g.TensorSpec("v", (1, 4, 16, 32))
    out = net.project(net.multiply("p", "v", "o", 4, (-128, 3), merged=True), "y", 64)
    graph = net.graph(out)
    assert len(compile_graph(graph, PYNQ).programs) == 1
    assert_exact(graph, PYNQ)


def _random(seed: int) -> g.Graph:
    rng = np.random.default_rng([9, seed])
    heads, depth, count, pixels = (int(rng.integers(1, high)) for high in (4, 40, 40, 40))
    if seed % 3 == 0:  # long enough for several rows
        count, pixels = int(rng.choice([64, 66, 128])), int(rng.choice([64, 70, 96]))
    rows = [bool(rng.integers(2)) for _ in range(2)]
    shapes = [
        (1, heads, n, depth) if by_row else (1, 1, n, heads * depth)
        for n, by_row in zip((pixels, count), rows, strict=True)
    ]
    net = Products(seed, a=shapes[0], b=shapes[1])
    a, b = (
        net.project(t, f"{t}2", shape[3]) if rng.integers(2) else t for t, shape in zip("ab", shapes, strict=True)
    )  # fmt: skip
    offsets = (int(rng.choice(ZERO_POINTS)), int(rng.choice(ZERO_POINTS)))
    merged = bool(rng.integers(2))
    out = net.multiply(a, b, "s", heads, offsets, merged)
    if rng.integers(2):
        out = net.project(out, "y", int(rng.integers(1, 40)))
    return net.graph(out)


@pytest.mark.parametrize("seed", range(24))
def test_random_products_are_exact(seed: int) -> None:
    """Inputs and tensors made on the chip on either side, heads as rows and in channels, sizes that fill no block."""
    config = random_config(seed) if seed % 2 else list(PRESETS.values())[seed // 2 % len(PRESETS)]
    entry, lanes = config.block_in * config.block_out, min(config.block_in, config.block_out)
    config = config.replace(
        batch=1, weight_bits=8, axi_bits=min(config.axi_bits, 8 * lanes), act_bytes=max(config.act_bytes, 1 << 18),
        wgt_bytes=max(config.wgt_bytes, 128 * entry), acc_bytes=max(config.acc_bytes, 1 << 17),
    )  # fmt: skip
    assert_exact(_random(seed), config, seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(40))
def test_random_products_in_tiles(seed: int) -> None:
    """On memories of any size: cut in pixels, in channels of the result and in depth."""
    config = random_config(seed + 100) if seed % 4 else list(PRESETS.values())[seed // 4 % len(PRESETS)]
    lanes = min(config.block_in, config.block_out)
    config = config.replace(batch=1, weight_bits=8, axi_bits=min(config.axi_bits, 8 * lanes))
    assert_exact(_random(seed), config, seed)


def weighted_values(heads: int, depth: int, pixels: int, offsets: tuple[int, int], merged: bool = True) -> g.Graph:
    """Scores of the host, and values transposed."""
    net = Products(2, p=(1, heads, pixels, pixels), v=(1, heads, depth, pixels))
    return net.graph(net.multiply("p", "v", "o", heads, offsets, merged))


def refused(*given: Any) -> None:
    raise PlaceError("left out")


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        (scores(3, 64, 197, (5, 0)), PYNQ), (weighted_values(3, 64, 197, (-128, 3)), PYNQ),
        (scores(2, 20, 150, (5, -3)), TINY), (weighted_values(2, 20, 150, (-128, -3)), TINY),
        (weighted_values(2, 20, 150, (-128, 0), merged=False), TINY), (scores(2, 40, 61, (-128, -128)), LEAST),
        (weighted_values(2, 20, 61, (7, 1)), LEAST),
    ],
)  # fmt: skip
def test_attention_of_any_size(graph: g.Graph, config: Config) -> None:
    """Where rows of pixels do not fit memories, products are cut into tiles, in one program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "_tiled", refused)
        with pytest.raises(PlaceError):
            compile_graph(graph, config)
    assert isinstance(Forms(graph).estimate(config), TilesEstimate)
    assert len(compile_graph(graph, config).programs) == 1
    assert_exact(graph, config)


def test_rows_stay_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = scores(3, 16, 130, (-128, 3))
    (found,) = compile_graph(graph, PYNQ).programs
    assert isinstance(Forms(graph).estimate(PYNQ), Estimate)
    monkeypatch.setattr(programs, "_tiled", refused)
    (rows,) = compile_graph(graph, PYNQ).programs
    assert found.instructions == rows.instructions


@pytest.mark.usefixtures("tiles_only")
def test_zero_points_of_pixels_cost_little_in_tiles() -> None:
    """They are added to all pixels of a tile at once."""
    plain, shifted = (assert_exact(weighted_values(3, 64, 197, (zero, 0)), PYNQ) for zero in (0, -128))
    assert plain <= 1.06 * network_bound(layer_bounds(weighted_values(3, 64, 197, (0, 0)), PYNQ), PYNQ)
    assert shifted <= 1.2 * plain


@pytest.mark.usefixtures("tiles_only")
def test_a_product_of_a_product_and_of_what_others_read() -> None:
    """Tensors that are read as weights, and as pixels too; or are results themselves."""
    net = Products(5, x=(1, 1, 24, 32))
    q = net.project("x", "q", 32)
    s = net.multiply(q, q, "s", 2, (3, -3))
    out = net.multiply(s, net.multiply(s, s, "t", 2, (0, 9)), "o", 2, (1, 0))
    graph = net.graph(q, out)
    for config in (PYNQ, TINY):
        assert len(compile_graph(graph, config).programs) == 1
        assert_exact(graph, config)


@pytest.mark.usefixtures("tiles_only")
def test_weights_whose_pixels_are_not_written_in_turn() -> None:
    """What a transposed convolution makes, pixel by pixel, is stored as it is by a program of its own."""
    net = Products(6, x=(1, 1, 12, 32))
    net.project("x", "y", 32)
    conv = net.ops[-1]
    assert isinstance(conv, g.Conv2D)
    weight = net.rng.integers(-127, 128, (32, 1, 2, 32)).astype(np.int8)
    net.ops[-1] = replace(conv, weight=weight, spread=(1, 2), padding=(0, 1, 0, 1))
    net.tensors["y"] = g.TensorSpec("y", (1, 1, 24, 32))
    graph = net.graph(net.multiply("y", "y", "s", 2, (3, 0)))
    assert len(compile_graph(graph, TINY).programs) == 2
    assert_exact(graph, TINY)


def test_long_sequences_are_several_rows() -> None:
    """So that layers stream; a pool, say, looks at all pixels of a row."""
    assert [parts(width) for width in (1, 63, 64, 98, 128, 197)] == [1, 1, 2, 2, 4, 1]
    graph = scores(2, 16, 128, (0, 0))
    assert {node.height for node in lower(graph, PYNQ).nodes} == {4, 8}
    pool = g.MaxPool2D(name="p", inputs=["s"], output="p", kernel=(1, 2), strides=(1, 2), padding=(0, 0, 0, 0))
    graph.ops.append(pool)
    graph.tensors["p"] = g.TensorSpec("p", (1, 2, 128, 64))
    assert not folds(graph)


def test_a_tensor_times_itself() -> None:
    net = Products(3, x=(1, 1, 24, 32))
    assert_exact(net.graph(net.multiply("x", "x", "s", 2, (4, 4))), PYNQ)


def test_weights_of_fewer_bits_are_no_activations() -> None:
    net = Products(3, x=(1, 1, 24, 32))
    graph = net.graph(net.multiply("x", "x", "s", 2, (4, 4)))
    for changed in ({"weight_bits": 4}, {"batch": 2}):
        with pytest.raises(PlaceError, match="activations as weights need weight_bits = 8 and batch = 1"):
            lower(graph, PYNQ.replace(**changed))


def test_the_definition() -> None:
    """The reference against the sums written out."""
    graph = scores(2, 8, 5, (3, -4))
    x = np.random.default_rng(0).integers(-128, 128, (1, 1, 5, 32)).astype(np.int8)
    values = evaluate(graph, {"x": x}, keep=True)
    q, k = (values[name].astype(int)[0, 0] for name in "qk")
    for head, m, n in np.ndindex(2, 5, 5):
        total = sum((q[m, c] - 3) * (k[n, c] + 4) for c in range(8 * head, 8 * head + 8))
        wanted = np.clip(round((total + 7) * (3 << 29) / 2**40) - 3, -128, 127)
        assert abs(values["s"][0, head, m, n] - wanted) <= 1  # ties of two roundings


def test_negated_zero_points_are_int8_terms() -> None:
    for zero_point in range(-128, 128):
        value, times = int8_terms(-zero_point)
        assert value * times == -zero_point
        assert -128 <= value <= 127


def test_the_floor_counts_the_product_alone() -> None:
    graph = scores(4, 16, 128, (5, 5))
    bound = layer_bounds(graph, PYNQ)[-1]
    assert bound.array_cycles == 4 * 128 * 8
    assert bound.macs == 4 * 128 * 128 * 16
