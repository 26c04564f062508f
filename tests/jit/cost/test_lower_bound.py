"""Lower bounds of layers against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.cost.lower_bound import LowerBound, layer_bounds, network_bound, useful_macs

TINY = PRESETS["tiny"]
UNIT = TINY.act_unit_bytes


def of(read: int = 0, written: int = 0, array: int = 0, alu: int = 0) -> LowerBound:
    return LowerBound(array, alu, read, written, 0, 0)


def test_the_busiest_of_engines_and_channels_bounds_a_network() -> None:
    beat = TINY.beat_bytes
    assert network_bound([], TINY) == 0
    for read, beats in ((1, 1), (beat, 1), (beat + 1, 2), (3 * beat, 3)):
        assert of(read=read).cycles(TINY) == of(written=read).cycles(TINY) == beats
    assert network_bound([of(read=1), of(read=1)], TINY) == 1, "beats are of all layers together"
    assert network_bound([of(read=9 * beat, array=4, alu=1), of(written=3 * beat, array=6, alu=7)], TINY) == 10
    assert network_bound([of(read=9 * beat, array=2, alu=1), of(written=3 * beat, array=6, alu=7)], TINY) == 9
    assert network_bound([of(read=9 * beat, array=2, alu=5), of(written=3 * beat, array=6, alu=7)], TINY) == 12


def conv(kernel: int, padding: int, stride: int = 1, size: int = 6) -> tuple[g.Graph, g.Conv2D]:
    """One unit of channels to one."""
    b = GraphBuilder(1, (size, size, TINY.lanes))
    graph = b.graph(b.conv("x", TINY.lanes, (kernel, kernel), (stride, stride), padding=(padding,) * 4))
    op = conv_of(graph)
    op.weight[:] = 1
    return graph, op


def conv_of(graph: g.Graph, number: int = 0) -> g.Conv2D:
    op = graph.ops[number]
    assert isinstance(op, g.Conv2D)
    return op


def read_of(graph: g.Graph) -> int:
    """Pixels of the input that the first layer must read, less its constants."""
    (bound,) = layer_bounds(graph, TINY)
    op = conv_of(graph)
    none = replace(op, weight=np.zeros_like(op.weight))
    (constants,) = layer_bounds(replace(graph, ops=[none]), TINY)
    blocks = int((op.weight != 0).any(axis=(0, 3)).sum())
    pixels, rest = divmod(bound.read_bytes - constants.read_bytes - blocks * TINY.wgt_entry_bytes, UNIT)
    assert rest == 0
    return pixels


@pytest.mark.parametrize(
    ("at", "padding", "pixels"),
    [((0, 0), 0, 16), ((2, 2), 0, 16), ((0, 0), 1, 25), ((1, 1), 1, 36), ((2, 1), 1, 30), ((0, 2), 1, 25)],
)
def test_a_tap_reads_what_it_meets_of_the_image(at: tuple[int, int], padding: int, pixels: int) -> None:
    graph, op = conv(3, padding)
    op.weight[:] = 0
    op.weight[:, at[0], at[1]] = 1
    assert read_of(graph) == pixels


def test_strides_leave_pixels_out() -> None:
    assert read_of(conv(1, 0, 2)[0]) == 9
    assert read_of(conv(2, 0, 3)[0]) == 16
    assert read_of(conv(3, 1)[0]) == 36


def test_an_input_is_read_by_the_first_layer_that_reads_it() -> None:
    b = GraphBuilder(1, (6, 6, TINY.lanes))
    first = b.conv("x", TINY.lanes, (1, 1), padding=(0, 0, 0, 0))
    second = b.conv("x", TINY.lanes, (1, 1), padding=(0, 0, 0, 0))
    graph = b.graph(first, second)
    one, two = layer_bounds(graph, TINY)
    assert one.read_bytes - two.read_bytes == 36 * UNIT
    assert one.write_bytes == two.write_bytes == 36 * UNIT
    assert one.array_cycles == two.array_cycles == 36
    # with the parameters of the first the second reads its weights alone
    conv_of(graph, 1).requant = conv_of(graph).requant
    _, alike = layer_bounds(graph, TINY)
    assert alike.read_bytes == TINY.wgt_entry_bytes
    assert two.read_bytes > alike.read_bytes
    assert (two.read_bytes - alike.read_bytes) % TINY.prm_entry_bytes == 0


@pytest.mark.parametrize("zeros", [0, 1, 50, 144])
def test_useful_multiplications_are_those_of_weights_that_are_not_zero(zeros: int) -> None:
    graph, op = conv(3, 1)
    op.weight.reshape(-1)[:zeros] = 0
    assert op.weight.size == 144
    assert useful_macs(graph, op) == 36 * (144 - zeros)
    (bound,) = layer_bounds(graph, TINY)
    assert bound.macs == 36 * 144


def depthwise(
    kernel: tuple[int, int], strides: tuple[int, int], size: int, preset: str, padding: int = 0
) -> LowerBound:
    """Of one unit of channels, no tap of which is zero."""
    config = PRESETS[preset]
    b = GraphBuilder(1, (size, size, config.lanes))
    graph = b.graph(b.depthwise("x", kernel, strides, (padding,) * 4))
    op = graph.ops[0]
    assert isinstance(op, g.DepthwiseConv2D)
    op.weight[:] = 1
    (bound,) = layer_bounds(graph, config)
    return bound


def test_columns_between_strides_are_not_pushed() -> None:
    """Every row of four columns, once, for the six results of a strip."""
    assert depthwise((3, 1), (1, 2), 8, "tiny").array_cycles == 4 * 8
    assert depthwise((3, 1), (1, 1), 8, "tiny").array_cycles == 8 * 8


def test_a_push_takes_two_rows_where_the_input_may_lie_so() -> None:
    """Ten columns, twelve pushes for eight rows in strips of four; half of them are fewer than the results."""
    one, two = (depthwise((3, 3), (1, 1), 8, preset, 1).array_cycles for preset in ("ultra96", "pynq-z2"))
    assert (one, two) == (10 * 12, 8 * 8)


@pytest.mark.parametrize(("channels", "entries"), [(TINY.lanes, 1), (2 * TINY.lanes, 1), (2 * TINY.lanes - 1, 1)])
def test_constants_that_all_channels_share_are_read_once(channels: int, entries: int) -> None:
    b = GraphBuilder(1, (6, 6, TINY.lanes))
    graph = b.graph(b.conv("x", channels, (1, 1), padding=(0, 0, 0, 0)))
    op = conv_of(graph)
    op.weight[:] = 1
    alike, other = replace(op, requant=op.requant.of(np.zeros(channels, np.int64))), op.requant.bias.copy()
    units = -(-channels // TINY.lanes)
    read = 36 * UNIT + units * TINY.wgt_entry_bytes
    (bound,) = layer_bounds(replace(graph, ops=[alike]), TINY)
    assert bound.read_bytes == read + entries * TINY.prm_entry_bytes
    other[:] = np.arange(channels)
    each = replace(op, requant=replace(op.requant, bias=other))
    (bound,) = layer_bounds(replace(graph, ops=[each]), TINY)
    assert bound.read_bytes == read + units * TINY.prm_entry_bytes


def test_useful_multiplications_are_at_most_those_of_the_array() -> None:
    """Of blocks of zeros, which it leaves out, none."""
    graph, op = conv(3, 0)
    assert layer_bounds(graph, TINY)[0].useful == 16 * 144
    graph, op = conv(3, 0)
    op.weight[:, 1:] = 0
    (bound,) = layer_bounds(graph, TINY)
    assert (bound.macs, bound.useful, bound.array_cycles) == (16 * 144, 16 * 48, 48)


def test_a_pool_adds_up_what_its_windows_hold() -> None:
    b = GraphBuilder(1, (6, 6, TINY.lanes))
    (bound,) = layer_bounds(b.graph(b.average_pool("x", (2, 2), (2, 2))), TINY)
    assert (bound.macs, bound.useful) == (0, 9 * 4 * TINY.lanes)


def test_a_copy_that_pads_otherwise_is_no_work_of_its_layer() -> None:
    """Two layers that read one tensor with different values around it."""
    b = GraphBuilder(1, (6, 6, TINY.lanes))
    first, second = b.conv("x", TINY.lanes), b.conv("x", TINY.lanes)
    graph = b.graph(first, second)
    wanted = layer_bounds(graph, TINY)
    other = replace(conv_of(graph, 1), pad_value=conv_of(graph, 1).pad_value ^ 1)
    assert layer_bounds(replace(graph, ops=[graph.ops[0], other]), TINY) == wanted
