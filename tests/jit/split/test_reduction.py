"""Convolutions split over their input channels: shares' sums as planes of bytes, added up to what the whole makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.split.test_launch import artifact_of, run
from tests.jit.split.test_linked import launches, link
from tilewright.config import PRESETS, Config
from tilewright.isa.functions import RESCALING
from tilewright.jit import compiler
from tilewright.jit import graph as g
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.place.exchange import launch_cycles
from tilewright.jit.reference import evaluate
from tilewright.jit.split.reduction import MOST_PLANES, in_two, split_sums
from tilewright.jit.split.steps import Split
from tilewright.runtime.steps import LaunchStep

TINY = PRESETS["tiny"].replace(cores=4)
ZCU104 = PRESETS["zcu104"].replace(cores=4)
EXTREMES = np.array([-128, 127])


def layer(seed: int, most: int = 200, wide: bool = False) -> Graph:
    """A convolution of odd channels, strides and padding; ``wide``: its weights are uint8 less a zero point."""
    rng = np.random.default_rng(seed)
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    b = GraphBuilder(seed, (int(rng.integers(4, 9)), int(rng.integers(3, 8)), int(rng.integers(17, most))))
    strides, padding = rng.integers(1, 3, 2).tolist(), rng.integers(0, 3, 4).tolist()
    rounding = RESCALING[seed % len(RESCALING)]
    y = b.conv("x", int(rng.integers(1, 40)), kernel, tuple(strides), tuple(padding), rounding=rounding)
    op = convolution(b.graph(y))
    if wide:
        op.weight = rng.integers(-255, 256, op.weight.shape).astype(np.int16)
    if seed % 4 == 1:
        op.requant = replace(op.requant, bias=rng.integers(-(1 << 31), 1 << 31, len(op.weight)).astype(np.int32))
    return b.graph(y)


def convolution(graph: Graph) -> g.Conv2D:
    (op,) = (op for op in graph.ops if isinstance(op, g.Conv2D))
    return op


def assert_equal(graph: Graph, count: int, config: Config, x: np.ndarray) -> int:
    """Both halves make what the whole makes; how many planes there are."""
    sums, total = in_two(graph, count, config)
    found = evaluate(total, evaluate(sums, {"x": x}))
    expected = evaluate(graph, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], expected[name])
    last = next(op for op in total.ops if isinstance(op, g.Total))
    return len(last.scales)


@pytest.mark.parametrize("seed", range(40))
def test_planes_of_random_layers_add_up_to_their_sums(seed: int) -> None:
    graph, rng = layer(seed, wide=seed % 2 == 1), np.random.default_rng(seed)
    shape = graph.tensors["x"].shape
    for x in (rng.integers(-128, 128, shape), rng.choice(EXTREMES, shape), np.full(shape, -128)):
        assert 2 <= assert_equal(graph, 2 + seed % 3, TINY, x.astype(np.int8)) <= MOST_PLANES


@pytest.mark.parametrize("weight,channels,planes", [(1, 8, 2), (0, 8, 1), (127, 3072, 4), (255, 70000, 4)])
def test_as_many_planes_as_the_weights_ask_for(weight: int, channels: int, planes: int) -> None:
    """Of all ones, ends of what is reached; the last wraps."""
    b = GraphBuilder(0, (1, 1, channels))
    graph = b.graph(b.dense("x", 5))
    op = convolution(graph)
    op.weight = (
        np.full_like(op.weight, 0, np.int16) + np.array([weight, -weight, weight, 0, -weight])[:, None, None, None]
    )
    op.weight = op.weight.astype(np.int16)
    for value in EXTREMES:
        assert assert_equal(graph, 2, TINY, np.full((1, 1, 1, channels), value, np.int8)) == planes
    assert (channels * weight * 128 >= 1 << 31) == (channels == 70000)


def test_a_sum_takes_the_bytes_that_tell_its_values_apart() -> None:
    """One weight of 1 makes 256 values: a byte; a second one makes it two."""
    b = GraphBuilder(1, (1, 1, 16))
    graph = b.graph(b.dense("x", 4))
    op = convolution(graph)
    for ones, planes in ((1, 1), (2, 2)):
        op.weight = np.zeros_like(op.weight)
        op.weight[:, 0, 0, :ones] = 1
        _, total = split_sums(op, [0, 8, 16], 4)
        assert len(total.scales) == planes
        assert assert_equal(graph, 2, TINY, np.arange(-8, 8).astype(np.int8).reshape(1, 1, 1, 16)) == planes


@pytest.mark.parametrize("seed", range(9))
def test_random_layers_on_cores(seed: int) -> None:
    """On units of 4, 16 and 32 channels, by rows or channels of the result; all programs are proven for all inputs."""
    config = PRESETS[("tiny", "pynq-z2", "zcu104")[seed % 3]].replace(cores=4)
    block = config.widest_block
    graph = layer(seed, max(18, 4 * block), wide=seed % 4 == 3)
    count = min(4, -(-graph.tensors["x"].shape[3] // block))
    artifact = artifact_of(graph, config, Split(count, "inputs"))
    first, second = launches(artifact)
    assert len(first.programs) == count
    assert 1 <= len(second.programs) <= count
    assert not any("compared" in each for program in artifact.programs for each in program.meta["layers"])
    report = run(graph, artifact)
    assert report.cycles == sum(
        launch_cycles(config, [artifact.programs[k] for k in launch.programs]) for launch in (first, second)
    )


@pytest.mark.parametrize(
    "options",
    [{"batch": 2, "axi_bits": 64}, {"weight_bits": 4}, {"block_out": 8, "acc_bytes": 32768}, {"dsp_packing": True}],
)
def test_other_configs(options: dict[str, int]) -> None:
    b = GraphBuilder(3, (6, 5, 20))
    graph = b.graph(b.conv("x", 10))
    op = convolution(graph)
    op.weight = (op.weight // (8 if "weight_bits" in options else 1)).astype(np.int8)
    artifact = artifact_of(graph, TINY.replace(**options), Split(2, "inputs"))
    assert [len(launch.programs) for launch in launches(artifact)] == [2, 2]
    run(graph, artifact)


def test_what_is_around_the_layer_is_in_its_rounds() -> None:
    """Each core filters its channels before it multiplies them; what follows is done on rows."""
    b = GraphBuilder(4, (8, 6, 32))
    y = b.conv(b.depthwise("x"), 16)
    graph = b.graph(b.max_pool(b.add(y, b.requantize(y)), (2, 2), (1, 1)))
    first, second = Split(4, "inputs").rounds(graph, TINY)
    assert [[op.kind for op in part.ops] for part in first.graphs] == [["DepthwiseConv2D", "PartialSums"]] * 4
    assert [part.tensors[part.inputs[0]].shape[3] for part in first.graphs] == [8] * 4
    assert [op.kind for op in second.graphs[0].ops] == ["Total", "Requantize", "Add", "MaxPool2D"]
    artifact = artifact_of(graph, TINY, Split(4, "inputs"))
    whole = link(artifact)
    assert [len(launch.programs) for launch in launches(whole)] == [4]
    run(graph, artifact)
    run(graph, whole)


def test_one_row_is_shared_by_channels() -> None:
    b = GraphBuilder(5, (1, 1, 64))
    graph = b.graph(b.dense("x", 12))
    first, second = Split(4, "inputs").rounds(graph, TINY)
    assert len(first.pieces) == 4
    assert [of[2:] for piece in second.pieces for _, of in piece.given.values()] == [(0, 4), (4, 8), (8, 12)]
    whole = link(artifact_of(graph, TINY, Split(4, "inputs")))
    assert [len(launch.programs) for launch in launches(whole)] == [4]
    run(graph, whole)


@pytest.mark.parametrize(
    "size,channels,results,kernel,least", [(7, 128, 32, 3, 0.8), (1, 2048, 32, 1, 0.5), (7, 512, 64, 3, 0.8)]
)
def test_few_results_of_many_channels_are_faster_so(
    size: int, channels: int, results: int, kernel: int, least: float
) -> None:
    """A layer of one block of results, whose weights every core must load to make rows, and one of two blocks."""
    b = GraphBuilder(6, (size, size, channels))
    graph = b.graph(b.conv("x", results, (kernel, kernel), padding=(kernel // 2,) * 4))
    cycles = {}
    for way in ("rows", "channels", "inputs"):
        artifact = link(artifact_of(graph, ZCU104, Split(4, way)))
        (launch,) = launches(artifact)
        cycles[way] = launch_cycles(ZCU104, [artifact.programs[k] for k in launch.programs])
    run(graph, artifact, 1)
    assert cycles["inputs"] < least * min(cycles["rows"], cycles["channels"])


def test_what_is_not_split_so_is_named() -> None:
    few = GraphBuilder(7, (4, 4, 8))
    with pytest.raises(Uncut, match="has no 4 blocks of 4 input channels"):
        in_two(few.graph(few.conv("x", 8)), 4, TINY)
    two = GraphBuilder(8, (4, 4, 16))
    with pytest.raises(Uncut, match="is not made by one convolution"):
        in_two(two.graph(two.conv(two.conv("x", 16), 16)), 2, TINY)
    grouped = GraphBuilder(9, (4, 4, 16))
    with pytest.raises(Uncut, match="is not made by one convolution"):
        in_two(grouped.graph(grouped.conv("x", 16, groups=2)), 2, TINY)
    beside = GraphBuilder(10, (4, 4, 16))
    y = beside.depthwise("x")
    with pytest.raises(Uncut, match="of which each core has a share"):
        in_two(beside.graph(beside.add(beside.conv(y, 16), y)), 2, TINY)
    for graph in (few.graph(few.ops[-1].output), grouped.graph(grouped.ops[-1].output)):
        (whole,) = Split(4, "inputs").rounds(graph, TINY)
        assert whole.graph is graph
        assert not whole.pieces


def test_what_has_no_program_in_rounds_is_compiled_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact all the same, on one core."""
    b = GraphBuilder(11, (4, 4, 16))
    graph = b.graph(b.conv("x", 8))
    made = compiler.best_program

    def best(part: Graph, *rest: Any) -> object:
        if any(isinstance(op, g.Total) for op in part.ops):
            raise PlaceError("does not fit")
        return made(part, *rest)

    monkeypatch.setattr(compiler, "best_program", best)
    artifact = artifact_of(graph, TINY, Split(4, "inputs"))
    assert launches(artifact) == [LaunchStep(0)]
    run(graph, artifact)


def test_a_program_makes_the_sums_of_what_it_is_given_alone() -> None:
    b = GraphBuilder(12, (4, 4, 16))
    sums, _ = in_two(b.graph(b.conv("x", 8)), 2, TINY)
    with pytest.raises(PlaceError, match="reads 8 channels of 16; a program is given those alone"):
        artifact_of(sums, TINY, None)
