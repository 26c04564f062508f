"""Windows larger than what of their image they can meet: what is planned of them, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tests.fuzz.cases import EXACT, case_inputs, check_case
from tests.fuzz.tensors import Tensor
from tests.jit.builder import GraphBuilder
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, difference
from tilewright.config import PRESETS, load_config
from tilewright.jit import graph as g
from tilewright.jit.importer import import_model
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.layers.windows import meeting
from tilewright.jit.lower.lowering import lower
from tilewright.jit.tiled.geometry import Piece, Tile
from tilewright.jit.tiled.windows import window_layer


def met(size: int, taps: range, stride: int, dilation: int, before: int, positions: int) -> list[list[int]]:
    """The taps of each window that are in the image."""
    at = [[p * stride - before + (t - taps.start) * dilation for t in taps] for p in range(positions)]
    return [[t for t, pixel in zip(taps, row, strict=True) if 0 <= pixel < size] for row in at]


@pytest.mark.parametrize("transposed", [False, True])
def test_a_window_meets_the_same_pixels_at_the_same_positions(transposed: bool) -> None:
    rng = np.random.default_rng(5)
    seen = shorter = 0
    for _ in range(20_000):
        size, taps, dilation = (int(rng.integers(1, n)) for n in (12, 30, 7))
        stride = 1 if transposed else int(rng.integers(1, 9))
        before, after = (int(n) for n in rng.integers(-4 if transposed else 0, 40, 2))
        last = size + before + after - (taps - 1) * dilation - 1
        if last < 0:
            continue
        span = meeting(size, taps, stride, dilation, before, after)
        case = (size, taps, stride, dilation, before, after, span)
        rest = size + span.before + span.after - (span.count - 1) * span.dilation - 1
        positions = last // stride + 1
        assert rest // stride + 1 == positions, case
        left = range(span.first, span.first + span.count)
        assert met(size, range(taps), stride, dilation, before, positions) == met(
            size, left, stride, span.dilation, span.before, positions
        ), case
        assert before < 0 or span.before >= 0, case
        assert after < 0 or span.after >= 0, case
        seen += 1
        shorter += span.count < taps
    assert seen > 5_000
    assert shorter > seen / 3


LAYERS: dict[str, tuple[Callable[[TfliteNet, Tensor], Tensor], tuple[int, int]]] = {
    "MAX_POOL_2D over all rows": (lambda net, x: net.max_pool(x, (65535, 1), 1, "same"), (11, 1)),
    "MAX_POOL_2D with strides": (lambda net, x: net.max_pool(x, (65535, 3), 2, "same"), (10, 3)),
    "AVERAGE_POOL_2D": (lambda net, x: net.average_pool(x, (2000, 3000), 1, "same"), (11, 13)),
    "CONV_2D with dilation": (lambda net, x: net.conv(x, 8, 3, 1, "same", dilation=(1000, 3000)), (1, 1)),
    "CONV_2D": (lambda net, x: net.conv(x, 4, (1001, 3), 1, "same"), (11, 3)),
    "CONV_2D in groups": (lambda net, x: net.conv(x, 4, (99, 3), (3, 2), "same", groups=2), (9, 3)),
    "DEPTHWISE_CONV_2D": (lambda net, x: net.depthwise(x, 1, (101, 99), 2, "same"), (10, 13)),
    "TRANSPOSE_CONV": (lambda net, x: net.transpose_conv(x, 4, (301, 3), 1, "same"), (11, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", LAYERS)
def test_taps_in_the_padding_alone_are_not_planned(kind: str, tmp_path: Path) -> None:
    make, wanted = LAYERS[kind]
    net = TfliteNet(seed=3)
    x = net.input((1, 6, 7, 6), scale=0.02, zero_point=-7)
    path = net.save(tmp_path / "m.tflite", [make(net, x)])
    kernels = [
        op.weight.shape[1:3]
        if isinstance(op, g.Conv2D)
        else op.weight.shape[:2]
        if isinstance(op, g.DepthwiseConv2D)
        else op.kernel
        for op in import_model(path).graph.ops
        if isinstance(op, (g.Conv2D, g.DepthwiseConv2D, g.AvgPool2D, g.MaxPool2D))
    ]
    assert kernels == [wanted]
    outcome = check_case(path, load_config("tiny"), case_inputs(net.inputs, 1))
    assert (outcome.kind, outcome.host_operators) == (EXACT, [])


def test_a_maximum_over_a_large_window_is_that_of_rows_and_then_of_columns(tmp_path: Path) -> None:
    net = TfliteNet(seed=4)
    x = net.input((1, 20, 22, 6), scale=0.02)
    path = net.save(tmp_path / "m.tflite", [net.max_pool(x, (65535, 65535), 1, "same", activation="relu")])
    kernels = [op.kernel for op in import_model(path).graph.ops if isinstance(op, g.MaxPool2D)]
    assert kernels == [(39, 1), (1, 43)]
    outcome = check_case(path, load_config("pynq-z2"), case_inputs(net.inputs, 1))
    assert (outcome.kind, outcome.host_operators) == (EXACT, [])


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_padding_that_counts_is_counted_whole(count_include_pad: int, tmp_path: Path) -> None:
    """The divisor of ONNX Runtime's average is that of the window as the file has it."""
    b = NetBuilder(1, "uint8")
    x = b.input((1, 3, 5, 6), "uint8")
    y = b.op(
        "AveragePool", [b.dequantise(x, F(0.5), b.zero(0))], kernel_shape=[16, 3], pads=[15, 1, 8, 1],
        count_include_pad=count_include_pad,
    )  # fmt: skip
    b.output(b.quantise(y, 0.5 / 16, 3), (1, 3, 13, 6), "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert [op.kernel for op in built.graph.ops if isinstance(op, g.AvgPool2D)] == [(13, 3)]


@pytest.mark.parametrize("kernel,place", [((8, 4), {"AveragePool"}), ((3, 3), set())])
def test_averages_at_one_scale_whose_sums_are_ties(kernel: tuple[int, int], place: set[str], tmp_path: Path) -> None:
    """One sum in 32 is a tie, which ONNX Runtime's float32 roundings decide; of nine there are none."""
    b = NetBuilder(0)
    size = (32, 32) if place else (33, 33)
    x = b.real_input((1, 4, *size), 0.0217)
    pooled = (1, 4, size[0] // kernel[0], size[1] // kernel[1])
    b.output(
        b.pair(b.op("AveragePool", [x.name], kernel_shape=kernel, strides=kernel), pooled, x.scale, 3).name, pooled
    )
    source, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    kinds = {op.name: op.kind for op in source.operators}
    assert {kinds.get(op.name, op.name) for op in built.graph.ops if isinstance(op, g.Interpreted)} == place
    assert difference(tmp_path / "m.onnx", source, built, 8) == 0


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_tiles_read_as_many_pixels_as_taps_reach(dilation: int) -> None:
    """Rows may be dilated in window mode, which meets pixel by pixel of each."""
    config = PRESETS["pynq-z2"]
    b = GraphBuilder(1, (12, 14, 16))
    graph = b.graph(b.depthwise("x", (3, 3), (1, 1), (1, 1, 1, 1), (dilation, 1)))
    (node,) = lower(graph, config, tiled=True).nodes
    assert isinstance(node, WindowNode)
    layer = window_layer(node, 1)
    assert layer is not None
    patch = layer.window.patch("x", Tile(0, 5, 0, 4), Piece(0, 0, 3, 0, 3, 0, 1))
    assert (patch.rows, patch.columns) == (5 + 2 * dilation, 4 + 2)
