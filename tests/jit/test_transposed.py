"""Transposed convolutions: every phase of every geometry, on the chip and in tiles; no product with a zero between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.random_graphs import random_config
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.cost.lower_bound import layer_bounds
from tilewright.jit.energy.actions import count_program
from tilewright.jit.errors import ProofError
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.kernels import transposed
from tilewright.jit.lower.lowering import lower
from tilewright.jit.numbers.scales import identity_requant
from tilewright.jit.reference import evaluate
from tilewright.jit.split.boxes import Box, restricted
from tilewright.sim import initial_segments, simulate

#: kernel, spread, dilation, padding before and after the spread image, negative where pixels are left out
Side = tuple[int, int, int, int, int]


def side(rng: np.random.Generator, size: int) -> Side:
    """Strides of 1 to 5 under kernels of 1 to 5, some dilated; SAME, VALID, more padding, and crops."""
    kernel, spread = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    dilation = int(rng.integers(1, 4)) if kernel > 1 and rng.integers(4) == 0 else 1
    before, after = (int(rng.integers(-3, kernel * dilation + spread)) for _ in range(2))
    missing = (kernel - 1) * dilation + 1 - ((size - 1) * spread + 1) - before - after
    return kernel, spread, dilation, before, after + max(0, missing)


def random_net(seed: int) -> g.Graph:
    """A layer, a transposed convolution, and another layer; some beside a skipped tensor, as in a U-Net."""
    rng = np.random.default_rng(seed)
    h, w, depth = (int(rng.integers(1, most)) for most in (9, 10, 24))
    b = GraphBuilder(seed, (h, w, depth))
    x = b.conv("x", int(rng.integers(1, 30))) if rng.integers(2) else "x"
    depth = b.shape(x)[3]
    groups = int(rng.choice([n for n in range(1, depth + 1) if depth % n == 0])) if rng.integers(3) == 0 else 1
    (kh, sy, dy, top, bottom), (kw, sx, dx, left, right) = side(rng, h), side(rng, w)
    y = b.transposed(
        x, groups * int(rng.integers(1, 3 + 30 // groups)), (kh, kw), (sy, sx), (top, left, bottom, right), (dy, dx),
        groups,
    )  # fmt: skip
    made = [y]
    if rng.integers(2):
        made.append(b.concat(y, b.requantize(y), same=bool(rng.integers(2))))
    return b.graph(*dict.fromkeys([b.conv(made[-1], 7), *([y] if rng.integers(2) else [])]))


@pytest.mark.parametrize("seed", range(16))
def test_random_geometry(seed: int) -> None:
    assert_exact(random_net(seed), random_config(seed) if seed % 2 else PRESETS["pynq-z2"], seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(16, 28))
def test_random_geometry_in_tiles(seed: int) -> None:
    assert_exact(random_net(seed), random_config(seed) if seed % 2 else PRESETS["tiny"], seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_much_random_geometry(seed: int) -> None:
    assert_exact(random_net(seed), random_config(seed), seed)


@pytest.mark.slow
@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(300, 500))
def test_much_random_geometry_in_tiles(seed: int) -> None:
    assert_exact(random_net(seed), random_config(seed), seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("size", [(6, 10), (7, 9)])
def test_neighbouring_pixels_that_are_stored_in_one_piece(size: tuple[int, int]) -> None:
    """Kernels of the stride's size behind each other, in chunks of channels, and beside what they are joined with."""
    b = GraphBuilder(4, (*size, 24))
    x = b.transposed(b.conv("x", 20), 40, (2, 3), (2, 3), (1, 2, 1, 2))
    x = b.concat(b.requantize(x), x)
    x = b.transposed(x, 24, (2, 2), (2, 2), (1, 1, 0, 1))
    graph, config = b.graph(b.conv(b.concat(x, x, same=True), 8), x), PRESETS["pynq-z2"].replace(outstanding=1)
    assert {node.lattice.pixels for node in lower(graph, config, tiled=True).nodes} == {1, 2, 3}
    assert_exact(graph, config, 4)


def spread_out(op: g.Conv2D, x: np.ndarray) -> np.ndarray:
    """The sums of a transposed convolution pixel by pixel, each weighed into the places that it reaches."""
    (sy, sx), (dy, dx), (top, left, _, _) = op.spread, op.dilation, op.padding
    channels, kh, kw, _ = op.weight.shape
    _, height, width, _ = x.shape
    rows = (height - 1) * sy + 1 + top + op.padding[2] - (kh - 1) * dy
    columns = (width - 1) * sx + 1 + left + op.padding[3] - (kw - 1) * dx
    sums = np.zeros((1, rows, columns, channels), np.int64)
    for i, j, ky, kx in np.ndindex(height, width, kh, kw):
        y, column = i * sy + top - ky * dy, j * sx + left - kx * dx
        if 0 <= y < rows and 0 <= column < columns:
            sums[0, y, column] += op.weight[:, ky, kx].astype(np.int64) @ (x[0, i, j].astype(np.int64) - op.pad_value)
    return sums


def test_the_reference_weighs_each_pixel_into_the_places_that_it_reaches() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        h, w = (int(rng.integers(1, 6)) for _ in range(2))
        b = GraphBuilder(seed, (h, w, 3))
        (kh, sy, dy, top, bottom), (kw, sx, dx, left, right) = side(rng, h), side(rng, w)
        y = b.transposed("x", 4, (kh, kw), (sy, sx), (top, left, bottom, right), (dy, dx))
        graph = b.graph(y)
        (op,) = graph.ops
        assert isinstance(op, g.Conv2D)
        # sums as they are, cut off at int8; what the pixels between add comes off again
        op.weight = rng.integers(-1, 2, op.weight.shape).astype(np.int8)
        bias = -op.pad_value * op.weight.sum(axis=(1, 2, 3), dtype=np.int64)
        op.requant = replace(identity_requant(4), bias=bias.astype(np.int32))
        x = rng.integers(-128, 128, (1, h, w, 3)).astype(np.int8)
        np.testing.assert_array_equal(evaluate(graph, {"x": x})[y], np.clip(spread_out(op, x), -128, 127))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("spread", [2, 3, 4])
def test_the_array_multiplies_pixels_alone(kernel: int, spread: int) -> None:
    """Each weight with each pixel once, but for what a crop leaves out and the padding's reach."""
    b = GraphBuilder(0, (6, 8, 32))
    before = max(0, kernel - 1 - max(0, kernel - spread) // 2)  # SAME
    after = [n * spread - ((n - 1) * spread + 1) - before + kernel - 1 for n in (6, 8)]
    y = b.transposed("x", 16, (kernel, kernel), (spread, spread), (before, before, *after))
    graph, config = b.graph(y), PRESETS["pynq-z2"]
    assert b.shape(y) == (1, 6 * spread, 8 * spread, 16)
    (bound,) = layer_bounds(graph, config)
    pixels = 6 * 8 * kernel**2 * 32 * 16
    assert bound.macs == graph.ops[0].macs(graph) == pixels
    assert bound.array_cycles * config.array_macs == bound.useful == pixels
    (program,) = compile_graph(graph, config).programs
    # acc must be written where no kernel position meets a pixel, by one block of zeros
    alone = 6 * 8 * (spread**2 - min(spread, kernel) ** 2) * config.array_macs
    assert count_program(program, 0)["mac"] == pixels + alone


@pytest.mark.parametrize("name", ["pynq-z2", "zcu104", "tiny"])
@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_the_estimate_knows_of_the_phases(kernel: int, name: str) -> None:
    b = GraphBuilder(0, (12, 10, 48))
    graph, config = b.graph(b.transposed("x", 32, (kernel, kernel), (2, 2), (1, 1, 2, 2))), PRESETS[name]
    (program,) = compile_graph(graph, config).programs
    cycles = simulate(program, initial_segments(program)).cycles
    assert estimate(lower(graph, config).tables, config).cycles == pytest.approx(cycles, rel=0.15)


@pytest.mark.usefixtures("tiles_only")
def test_nor_does_it_in_tiles() -> None:
    b = GraphBuilder(0, (6, 8, 32))
    graph, config = b.graph(b.transposed("x", 16, (3, 3), (2, 2), (1, 1, 2, 2))), PRESETS["pynq-z2"]
    (program,) = compile_graph(graph, config).programs
    assert count_program(program, 0)["mac"] == 6 * 8 * 9 * 32 * 16


@pytest.mark.parametrize("seed", range(30))
def test_rows_by_themselves_are_rows_of_the_whole(seed: int) -> None:
    """What cores and splits make of a part of the result."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(seed, (int(rng.integers(2, 8)), 3, 3))
    kernel, spread, dilation, before, after = side(rng, b.shape("x")[1])
    y = b.transposed("x", 4, (kernel, 2), (spread, 2), (before, 0, after, 1), (dilation, 1))
    graph, x = b.graph(y), rng.integers(-128, 128, b.shape("x")).astype(np.int8)
    whole, height = evaluate(graph, {"x": x})[y], b.shape(y)[1]
    for _ in range(6):
        top = int(rng.integers(0, height))
        bottom = int(rng.integers(top, height)) + 1
        try:
            op, (box,) = restricted(graph.ops[0], Box(top, bottom, 0, 4), graph.tensors[y], [graph.tensors["x"]])
        except Uncut:
            continue  # rows of padding alone
        part = x[:, box.top : box.bottom]
        tensors = {"x": g.TensorSpec("x", part.shape), y: g.TensorSpec(y, (1, bottom - top, *b.shape(y)[2:]))}
        found = evaluate(g.Graph("part", ["x"], [y], tensors, [op]), {"x": part})[y]
        np.testing.assert_array_equal(found, whole[:, top:bottom])


@pytest.mark.parametrize(
    "planted", ["places exchanged", "what lies between left out", "kernel not turned", "one row early"]
)
def test_the_proof_refuses_mistakes(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node, phases = transposed.TransposedNode, transposed.phases_of
    if planted == "places exchanged":
        monkeypatch.setattr(
            transposed, "phases_of", lambda *a: [p._replace(tap=q.tap, at=q.at) for p, q in twisted(phases(*a))]
        )
    elif planted == "what lies between left out":
        monkeypatch.setattr(node, "_requant", lambda self, down, across: self.requant)
    elif planted == "kernel not turned":
        kernel = node._kernel
        monkeypatch.setattr(node, "_kernel", lambda self, *phase: kernel(self, *phase)[:, ::-1])
    else:
        monkeypatch.setattr(
            transposed, "phases_of", lambda *a: [p._replace(at=p.at - (p.first == 1)) for p in phases(*a)]
        )
    b = GraphBuilder(3, (6, 7, 16))
    graph = b.graph(b.transposed("x", 16, (4, 4), (2, 2), (2, 2, 2, 2)))
    with pytest.raises(ProofError):
        compile_graph(graph, PRESETS["pynq-z2"])


def twisted(phases: list[transposed.Phase]) -> list[tuple[transposed.Phase, transposed.Phase]]:
    """Each with the one that comes before it."""
    return list(zip(phases, [phases[-1], *phases[:-1]], strict=True))
