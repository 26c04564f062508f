"""Each rule at its border: what goes, what must stay, and that the outputs are the same either way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS
from tilewright.isa.functions import Rounding
from tilewright.jit import graph as g
from tilewright.jit.channels import Reduced, reduce_channels
from tilewright.jit.compiler import compile_graph
from tilewright.jit.reference import evaluate

BLOCK = 16


def reduced(graph: g.Graph, block: int = BLOCK) -> Reduced:
    """The graph without channels, shown to give the same outputs for random and extreme inputs."""
    found, shape = reduce_channels(graph, block), graph.tensors["x"].shape
    rng = np.random.default_rng(0)
    for x in (
        rng.integers(-128, 128, shape),
        rng.choice([-128, 127], shape),
        np.full(shape, -128),
        np.full(shape, 127),
    ):
        before, after = (evaluate(each, {"x": x.astype(np.int8)}) for each in (graph, found.graph))
        for name in graph.outputs:
            np.testing.assert_array_equal(after[name], before[name], strict=True)
    return found


def kept(found: Reduced, tensor: str) -> int:
    return found.graph.tensors[tensor].shape[-1]


def weighted(ops: list[g.Op], number: int = -1) -> g.Conv2D | g.DepthwiseConv2D:
    """An operator that has weights."""
    op = ops[number]
    assert isinstance(op, g.Conv2D | g.DepthwiseConv2D)
    return op


class Net(GraphBuilder):
    """A builder whose weights and biases are set by hand; 5 channels in a 4x4 image."""

    def __init__(self) -> None:
        super().__init__(7, (4, 4, 5))

    def unread(self, tensor: str, *channels: int) -> None:
        """The last convolution multiplies these channels of its input by zero."""
        op = self.last
        assert op.inputs == [tensor]
        op.weight[..., list(channels)] = 0

    def constant(self, channel: int) -> int:
        """Makes a channel of the last operator constant; its value."""
        op = self.last
        op.weight[channel] = 0
        return int(
            evaluate(self.graph(op.output), {"x": np.zeros(self.shape("x"), np.int8)})[op.output][0, 0, 0, channel]
        )

    def equal(self, first: int, second: int) -> None:
        """Makes a channel of the last convolution equal to an earlier one."""
        op = self.last
        rows = np.arange(len(op.weight))
        rows[second] = first
        op.weight, op.requant = op.weight[rows], op.requant.of(rows)

    @property
    def last(self) -> g.Conv2D:
        op = self.ops[-1]
        assert isinstance(op, g.Conv2D)
        return op


# -- channels that nobody reads ---------------------------------------------------------------------------


def test_unread_channels_go_through_every_operator_between() -> None:
    b = Net()
    first = b.conv("x", 6)
    made = [first, b.depthwise(first), b.requantize("t2"), b.max_pool("t3", (2, 2)), b.pad("t4", (1, 1, 0, 0))]
    made += [b.average_pool(made[-1], (2, 2), (1, 1)), b.add("t6", "t6")]
    flat = b.reshape(made[-1], (1, 1, 1, 4 * 6))
    out = b.dense(flat, 3)
    b.unread(flat, *(pixel * 6 + c for pixel in range(4) for c in (1, 4)))
    b.last.weight[..., 2] = 0  # one pixel of channel 2: the others are read
    found = reduced(b.graph(out))
    assert [kept(found, t) for t in made] == [4] * 7
    assert kept(found, flat) == 16
    assert all(found.dropped[op.name] == {"unread": 2} for op in b.ops[:-2])
    assert found.dropped[b.ops[-2].name] == {"unread": 8}
    assert b.last.name not in found.dropped


def test_unread_channels_make_others_unread() -> None:
    b = Net()
    a = b.conv("x", 6)
    c = b.conv(a, 6)
    b.last.weight[1:, ..., 2] = 0  # only channel 0 of the second reads channel 2 of the first,
    out = b.conv(c, 3)
    b.unread(c, 0)  # and nobody reads that
    found = reduced(b.graph(out))
    assert (kept(found, a), kept(found, c)) == (5, 5)


def test_a_channel_that_one_of_two_consumers_reads_stays() -> None:
    b = Net()
    a = b.conv("x", 6)
    c = b.conv(a, 3)
    b.unread(a, 1, 2)
    d = b.conv(a, 3)
    b.unread(a, 2, 3)
    found = reduced(b.graph(b.add(c, d)))
    assert kept(found, a) == 5


def test_operators_on_single_channels_keep_alike() -> None:
    """A depthwise layer has the channels that another reader of its input asks for, its own consumer or not."""
    b = Net()
    a = b.conv("x", 6)
    d = b.depthwise(a)
    c = b.conv(d, 3)
    b.unread(d, 1, 2)
    e = b.conv(a, 3)
    b.unread(a, 2)
    found = reduced(b.graph(b.add(c, e)))
    assert (kept(found, a), kept(found, d)) == (5, 5)


def test_outputs_and_inputs_keep_all() -> None:
    b = Net()
    a = b.conv("x", 6)
    b.last.weight[..., 3] = 0
    b.last.weight[2] = 0
    out = b.conv(a, 4)
    b.unread(a, 0)
    found = reduced(b.graph(out, a))
    assert not found.dropped
    assert kept(found, "x") == 5
    assert kept(found, a) == 6


def test_what_the_host_reads_keeps_all() -> None:
    b = Net()
    a = b.conv("x", 6)
    b.constant(1)
    spec = g.TensorSpec("cast", b.shape(a), "uint8")
    b.tensors["cast"] = spec
    b.ops.append(g.HostCast(name="cast", inputs=[a], output="cast", offset=128, dtype="uint8"))
    c = b.conv(a, 3)
    b.unread(a, 2)
    assert not reduced(b.graph("cast", c)).dropped


def test_one_channel_stays_of_what_nobody_needs() -> None:
    b = Net()
    a = b.conv("x", 6)
    out = b.conv(a, 4)
    b.last.weight[:] = 0
    found = reduced(b.graph(out))
    assert kept(found, a) == 1
    assert weighted(found.graph.ops, 1).weight.shape == (4, 3, 3, 1)


def test_intermediates_that_the_user_asked_for_are_whole() -> None:
    b = Net()
    a = b.conv("x", 40)
    graph = b.graph(b.conv(a, 4))
    b.unread(a, *range(3, 40))
    whole, small = (
        compile_graph(graph, PRESETS["tiny"], keep_intermediates=keep).programs[0] for keep in (True, False)
    )
    assert [layer["channels_dropped"] for layer in whole.meta["layers"]] == [{}, {}]
    assert [layer["macs_dropped"] for layer in whole.meta["layers"]] == [0, 0]
    assert [layer["channels_dropped"] for layer in small.meta["layers"]] == [{"unread": 37}, {}]
    assert [layer["macs_dropped"] for layer in small.meta["layers"]] == [16 * 9 * 5 * 37, 16 * 9 * 37 * 4]
    for before, after in zip(whole.meta["layers"], small.meta["layers"], strict=True):
        assert after["macs"] == before["macs"] - after["macs_dropped"]
        assert (after["name"], after["op"]) == (before["name"], before["op"])
    # what reads the dropped channels has weights of zero for them, and blocks of zeros never counted
    bounds = [[layer["floor_cycles"] for layer in program.meta["layers"]] for program in (whole, small)]
    assert bounds == [[1920, 144], [192, 144]]  # of the input come patches of one row of the kernel, which rows share


# -- constant channels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("off,channels", [(0, 5), (1, 6)])
def test_a_constant_goes_only_where_the_padding_has_its_value(off: int, channels: int) -> None:
    b = Net()
    a = b.conv("x", 6)
    value = b.constant(2)
    out = b.conv(a, 4)
    b.last.pad_value = value + off
    found = reduced(b.graph(out))
    assert kept(found, a) == channels
    b.last.padding, b.last.pad_value = (0, 0, 0, 0), value + 1
    b.tensors[out] = replace(b.tensors[out], shape=(1, 2, 2, 4))
    assert kept(reduced(b.graph(out)), a) == 5, "without padding any value will do"


@pytest.mark.parametrize("off,channels", [(0, 5), (1, 6)])
def test_a_constant_passes_a_depthwise_layer_that_pads_with_it(off: int, channels: int) -> None:
    b = Net()
    a = b.conv("x", 6)
    value = b.constant(2)
    d = b.depthwise(a)
    weighted(b.ops).pad_value = value + off
    weighted(b.ops).requant = replace(weighted(b.ops).requant, bias=np.zeros(6, np.int32), lo=-128)
    found = reduced(b.graph(b.conv(d, 4, (1, 1), padding=(0, 0, 0, 0))))
    assert (kept(found, a), kept(found, d)) == (channels, channels)


def test_a_depthwise_channel_without_weights_is_constant_whatever_pads_it() -> None:
    b = Net()
    a = b.conv("x", 6)
    d = b.depthwise(a)
    weighted(b.ops).weight[..., 3] = 0
    found = reduced(b.graph(b.conv(d, 4, (1, 1), padding=(0, 0, 0, 0))))
    assert (kept(found, a), kept(found, d)) == (5, 5)
    assert found.dropped == {b.ops[0].name: {"unread": 1}, b.ops[1].name: {"constant": 1}}


@pytest.mark.parametrize("room,channels", [(0, 4), (-1, 5)])
@pytest.mark.parametrize("end", [-(2**31), 2**31 - 1])
def test_a_constant_stays_where_the_bias_would_leave_int32(end: int, room: int, channels: int) -> None:
    """And with it the bias as it was, whatever else goes."""
    b = Net()
    a = b.conv("x", 6)
    value = b.constant(2)
    assert value != 0
    out = b.conv(a, 4, (1, 1), padding=(0, 0, 0, 0))
    b.unread(a, 0)
    op = b.last
    op.weight[1, ..., 2] = 100 * np.sign(value) * np.sign(end)
    op.requant.bias[1] = end - value * int(op.weight[1, 0, 0, 2]) - int(np.sign(end)) * room
    assert kept(reduced(b.graph(out)), a) == channels


def test_saturated_channels_are_constant() -> None:
    """Whatever the input: the largest sum still gives the least value. One more, and it is read."""
    for more, channels in ((0, 5), (1, 6)):
        b = Net()
        a = b.conv("x", 6, (1, 1), padding=(0, 0, 0, 0))
        op = b.last
        one = np.ones(6, np.int32)
        op.requant = replace(op.requant, multiplier=one, shift=0 * one, zero_point=0, lo=-128, rounding=Rounding.SINGLE)
        most = int(np.maximum(op.weight[2].astype(int) * 127, op.weight[2].astype(int) * -128).sum())
        op.requant.bias[2] = -128 - most + more
        assert kept(reduced(b.graph(b.conv(a, 4, (1, 1), padding=(0, 0, 0, 0)))), a) == channels


def test_a_window_of_padding_alone_is_no_constant() -> None:
    b = Net()
    a = b.conv("x", 6)
    value = b.constant(2)
    assert value > -100
    for padding, shape, channels in (((1, 0, 0, 0), (1, 2, 2, 6), 5), ((2, 0, 0, 0), (1, 3, 2, 6), 6)):
        pooled = b.max_pool(a, (2, 2), (2, 2), padding)
        assert b.shape(pooled) == shape
        found = reduced(b.graph(b.conv(pooled, 4, (1, 1), padding=(0, 0, 0, 0))))
        assert kept(found, a) == channels
        del b.ops[1:]


@pytest.mark.parametrize("off,channels", [(0, 5), (1, 6)])
def test_a_pooled_constant_is_one_if_windows_of_all_sizes_give_one_value(off: int, channels: int) -> None:
    b = Net()
    a = b.conv("x", 6)
    assert abs(b.constant(2)) < 100
    pooled = b.average_pool(a, (2, 2), (2, 2), (1, 0, 1, 0))
    op = b.ops[-1]
    assert isinstance(op, g.AvgPool2D)
    assert sorted(op.requants) == [2, 4]
    op.requants[2] = replace(op.requants[2], zero_point=off)
    found = reduced(b.graph(b.conv(pooled, 4, (1, 1), padding=(0, 0, 0, 0))))
    assert kept(found, a) == channels


# -- equal channels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype,first,second,channels",
    [
        (np.int8, 100, 27, 5), (np.int8, 100, 28, 6), (np.int8, -100, -28, 5), (np.int8, -100, -29, 6),
        (np.int16, 200, 55, 5), (np.int16, 200, 56, 6),
    ],
)  # fmt: skip
def test_equal_channels_are_merged_where_the_sum_fits(dtype: type, first: int, second: int, channels: int) -> None:
    b = Net()
    a = b.conv("x", 6)
    b.equal(1, 4)
    out = b.conv(a, 3)
    weight = b.last.weight = b.last.weight.astype(dtype)
    if dtype == np.int16:
        weight[0, 0, 0, 0] = 255
    weight[..., 1], weight[..., 4] = 0, 0
    weight[2, 1, 1, [1, 4]] = first, second
    found = reduced(b.graph(out))
    assert kept(found, a) == channels
    if channels == 5:
        assert found.dropped[b.ops[0].name] == {"duplicate": 1}
        assert weighted(found.graph.ops, 1).weight[2, 1, 1, 1] == first + second


def test_merged_weights_take_no_more_bits() -> None:
    """What fits weight_bits = 4 still does."""
    b = Net()
    a = b.conv("x", 6)
    b.equal(1, 4)
    out = b.conv(a, 3)
    b.last.weight[:] = b.last.weight // 32
    b.last.weight[0, 0, 0, [1, 4]] = 4, 4
    assert kept(reduced(b.graph(out)), a) == 6
    b.last.weight = b.last.weight.copy()
    b.last.weight[0, 0, 0, [1, 4]] = 4, 3
    b.last.weight[..., 4] = np.minimum(b.last.weight[..., 4], 3 - np.maximum(b.last.weight[..., 1], 0))
    b.last.weight[..., 4] = np.maximum(b.last.weight[..., 4], -4 - np.minimum(b.last.weight[..., 1], 0))
    assert kept(reduced(b.graph(out)), a) == 5


@pytest.mark.parametrize(
    "least,most,total,channels",
    [(-2, 1, 1, 5), (-1, 1, 1, 5), (-1, 1, -2, 5), (-1, 1, 2, 6), (-3, 2, 2, 5), (-3, 2, 3, 6), (-3, 2, -3, 5),
     (-3, 2, -4, 6), (-4, 3, 3, 5), (-4, 3, 4, 6), (-9, 14, 14, 5), (-9, 14, 15, 6), (-9, 14, -10, 6),
     (-22, 1, 2, 6), (-25, 1, 2, 5), (-25, 1, -50, 5)],
)  # fmt: skip
def test_merged_weights_take_no_more_parts_of_few_bits(least: int, most: int, total: int, channels: int) -> None:
    """Weights of one part may use all of its values, those of several the ones that there are."""
    b = Net()
    a = b.conv("x", 6)
    b.equal(1, 4)
    out = b.conv(a, 3)
    b.last.weight[:] = 0
    b.last.weight[0, 0, 0, [0, 2, 3, 5]], b.last.weight[0, 0, 1, 0] = most, least
    part = min(most, max(least, total - total // 2))
    b.last.weight[2, 0, 0, [1, 4]] = part, total - part
    assert kept(reduced(b.graph(out)), a) == channels


def test_channels_of_one_range_and_other_weights_are_not_equal() -> None:
    b = Net()
    a = b.conv("x", 6)
    b.equal(1, 4)
    b.last.weight[4] = b.last.weight[1, ::-1, ::-1]
    out = b.conv(a, 3)
    b.last.weight[:] //= 4
    assert kept(reduced(b.graph(out)), a) == 6


def test_equal_channels_stay_equal_only_by_equal_constants() -> None:
    for bias, channels in ((0, 5), (1, 6)):
        b = Net()
        a = b.conv("x", 6)
        b.equal(1, 4)
        d = b.depthwise(a)
        op = weighted(b.ops)
        op.weight[..., 4] = op.weight[..., 1]
        op.requant = op.requant.of(np.array([0, 1, 2, 3, 1, 5]))
        op.requant.bias[4] += bias
        out = b.conv(d, 3, (1, 1), padding=(0, 0, 0, 0))
        b.last.weight[:] //= 4
        found = reduced(b.graph(out))
        assert (kept(found, a), kept(found, d)) == (channels, channels)


# -- the form of operators --------------------------------------------------------------------------------


@pytest.mark.parametrize("block,channels", [(16, (16, 5)), (4, (12, 5)), (64, (10, 5))])
def test_parts_of_concatenations_that_fill_blocks_still_do(block: int, channels: tuple[int, int]) -> None:
    """All but the last part, which nothing follows, and parts that filled none."""
    b = Net()
    a, c = b.conv("x", 32), b.conv("x", 32)
    joined = b.concat(a, c)
    out = b.conv(joined, 3)
    b.unread(joined, *range(10, 32), *range(37, 64))
    found = reduced(b.graph(out), block)
    assert (kept(found, a), kept(found, c)) == channels
    assert kept(found, joined) == sum(channels)


def test_groups_go_as_a_whole() -> None:
    b = Net()
    a = b.conv("x", 12)
    c = b.conv(a, 8, groups=4)
    out = b.conv(c, 3)
    b.unread(c, 2, 3, 4)  # all of group 1, one of two of group 2
    found = reduced(b.graph(out))
    assert (kept(found, a), kept(found, c)) == (9, 6)
    assert weighted(found.graph.ops, 1).weight.shape == (6, 3, 3, 3)
    layer = weighted(b.ops, 1)
    layer.weight = np.where(np.arange(3) == 1, 0, layer.weight).astype(np.int8)  # no group reads its second channel
    found = reduced(b.graph(out))
    assert (kept(found, a), kept(found, c)) == (6, 6)
    layer.weight = layer.weight.copy()
    layer.weight[0, 0, 0, 1] = 1  # one does, so all keep two more
    assert kept(reduced(b.graph(out)), a) == 9


def test_reshapes_that_cut_channels_up_keep_all() -> None:
    b = Net()
    a = b.conv("x", 6)
    shaped = b.reshape(a, (1, 8, 4, 3))
    out = b.conv(shaped, 3)
    b.unread(shaped, 1)
    assert not reduced(b.graph(out)).dropped


def test_a_graph_without_anything_to_drop_stays_the_very_same() -> None:
    b = Net()
    graph = b.graph(b.conv(b.depthwise(b.conv("x", 6)), 3))
    assert reduce_channels(graph, BLOCK).graph is graph
