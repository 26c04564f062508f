"""The graph in the algebra: operators that mean the same are equal, every constant matters, and where it should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder, sampling
from tilewright.isa.functions import Rounding
from tilewright.jit import graph as g
from tilewright.jit.errors import Unfollowed
from tilewright.jit.numbers.scales import identity_requant
from tilewright.jit.proof.algebra import P
from tilewright.jit.proof.elements import residues
from tilewright.jit.proof.graph_side import evaluate_elements
from tilewright.jit.proof.machine import random_elements
from tilewright.jit.split.reduction import split_sums

SEED = 99


def elements(graph: g.Graph, seed: int = SEED) -> Any:
    """The graph's only output on inputs that depend on nothing but their shape."""
    rng = np.random.default_rng(0)
    shapes = {t: graph.tensors[t].shape for t in graph.inputs}
    inputs = {t: random_elements(rng, int(np.prod(s))).reshape(s) for t, s in shapes.items()}
    result = evaluate_elements(graph, inputs, seed)[graph.outputs[0]]
    assert np.isfinite(result).all()
    assert np.abs(result).max() <= P // 2 + 2
    return residues(result).reshape(result.shape)


def with_op(graph: g.Graph, op: g.Op) -> g.Graph:
    return g.Graph(graph.name, graph.inputs, graph.outputs, graph.tensors, [op])


def one_conv(**options: Any) -> tuple[g.Graph, g.Conv2D]:
    b = GraphBuilder(1, (6, 5, 8))
    graph = b.graph(b.conv("x", 12, **options))
    op = graph.ops[0]
    assert isinstance(op, g.Conv2D)
    return graph, op


def test_groups_are_a_dense_convolution_with_zeros() -> None:
    graph, op = one_conv(groups=4, strides=(2, 1), dilation=(1, 2))
    dense = np.zeros((12, 3, 3, 8), np.int8)
    for group in range(4):
        part = slice(group * 3, group * 3 + 3)
        dense[part, :, :, group * 2 : group * 2 + 2] = op.weight[part]
    assert np.array_equal(elements(graph), elements(with_op(graph, replace(op, weight=dense, groups=1))))


def test_depthwise_is_a_dense_diagonal() -> None:
    b = GraphBuilder(2, (7, 6, 5))
    graph = b.graph(b.depthwise("x", (3, 2), (1, 3), (1, 0, 1, 0)))
    op = graph.ops[0]
    assert isinstance(op, g.DepthwiseConv2D)
    diagonal = np.zeros((5, 3, 2, 5), np.int8)
    diagonal[np.arange(5), :, :, np.arange(5)] = op.weight.transpose(2, 0, 1)
    dense = g.Conv2D(
        name=op.name, inputs=op.inputs, output=op.output, weight=diagonal, requant=op.requant, strides=op.strides,
        padding=op.padding, pad_value=op.pad_value,
    )  # fmt: skip
    assert np.array_equal(elements(graph), elements(with_op(graph, dense)))


def test_padding_is_a_pad_operator_ahead() -> None:
    graph, op = one_conv()
    b = GraphBuilder(1, (6, 5, 8))
    padded = b.pad("x", (1, 1, 1, 1))
    pad = b.ops[0]
    assert isinstance(pad, g.Pad)
    pad.pad_value = op.pad_value
    b.ops.append(replace(op, inputs=[padded], output="y", padding=(0, 0, 0, 0)))
    b.tensors["y"] = replace(graph.tensors[op.output], name="y")
    assert np.array_equal(elements(graph), elements(b.graph("y")))


def test_a_dense_layer_is_a_convolution_over_the_image() -> None:
    b = GraphBuilder(3, (3, 4, 6))
    flat = b.reshape("x", (1, 1, 1, 72))
    graph = b.graph(b.dense(flat, 10))
    op = graph.ops[1]
    assert isinstance(op, g.Conv2D)
    conv = replace(op, inputs=["x"], weight=np.ascontiguousarray(op.weight.reshape(10, 3, 4, 6)))
    assert np.array_equal(elements(graph), elements(with_op(graph, conv)))


def test_long_sums_stay_exact() -> None:
    """More products than a float64 holds at once: compared with Python's integers."""
    b = GraphBuilder(4, (1, 1, 20000))
    graph = b.graph(b.dense("x", 2))
    op = graph.ops[0]
    assert isinstance(op, g.Conv2D)
    op.weight[:] = 127
    x = np.full((1, 1, 1, 20000), float(P // 2))
    total = 20000 * 127 * (P // 2) % P
    y = evaluate_elements(graph, {"x": x}, SEED)[graph.outputs[0]]
    op.weight[:] = 0
    op.weight[:, 0, 0, 0] = 1
    first = np.zeros_like(x)
    first[..., 0] = total
    assert np.array_equal(y, evaluate_elements(graph, {"x": first}, SEED)[graph.outputs[0]])


def test_one_weight_changes_one_channel() -> None:
    graph, op = one_conv(padding=(0, 0, 0, 0))
    before = elements(graph)
    op.weight[5, 1, 2, 3] ^= 1
    changed = elements(graph) != before
    assert changed[..., 5].all()
    assert not changed[..., [c for c in range(12) if c != 5]].any()


def test_the_padding_value_changes_the_border() -> None:
    graph, op = one_conv()
    before = elements(graph)
    changed = (elements(with_op(graph, replace(op, pad_value=op.pad_value + 1))) != before).all(axis=-1)[0]
    border = np.ones_like(changed)
    border[1:-1, 1:-1] = False
    assert np.array_equal(changed, border)


@pytest.mark.parametrize("field", ["bias", "multiplier", "shift", "offset"])
def test_every_constant_of_a_channel_matters(field: str) -> None:
    graph, op = one_conv()
    before = elements(graph)
    getattr(op.requant, field)[7] += 1
    changed = elements(graph) != before
    assert changed[..., 7].all()
    assert not changed[..., :7].any()


@pytest.mark.parametrize("change", [{"lo": -127}, {"hi": 126}, {"zero_point": 3}, {"rounding": Rounding.EVEN}])
def test_every_field_of_a_requantisation_matters(change: dict[str, Any]) -> None:
    graph, op = one_conv()
    changed = replace(op, requant=replace(op.requant, **change))
    assert (elements(graph) != elements(with_op(graph, changed))).all()


def test_scales_are_compared_by_what_they_do() -> None:
    b = GraphBuilder(5, (4, 4, 6))
    graph = b.graph(b.add("x", "x"))
    op = graph.ops[0]
    assert isinstance(op, g.Add)
    op.scale_a = g.Scale(0, 1 << 30, 50, Rounding.SINGLE)
    op.scale_b = g.Scale(0, 1 << 29, 49, Rounding.EVEN)  # also x -> x
    before = elements(graph)
    assert np.array_equal(before, elements(with_op(graph, replace(op, scale_b=op.scale_a))))
    assert (before != elements(with_op(graph, replace(op, scale_b=g.Scale(0, 1 << 30, 49, Rounding.SINGLE))))).all()


def test_average_pools_take_the_requantisation_of_their_count() -> None:
    b = GraphBuilder(6, (5, 5, 3))
    graph = b.graph(b.average_pool("x", (3, 3), (1, 1), (1, 1, 1, 1)))
    op = graph.ops[0]
    assert isinstance(op, g.AvgPool2D)
    assert set(op.requants) == {4, 6, 9}
    before = elements(graph)
    op.requants[4] = replace(op.requants[4], zero_point=1)
    changed = (elements(graph) != before).all(axis=-1)[0]
    assert sorted(map(tuple, np.argwhere(changed))) == [(0, 0), (0, 4), (4, 0), (4, 4)]


def test_max_pools_of_one_element_copy() -> None:
    b = GraphBuilder(7, (4, 4, 3))
    graph = b.graph(b.max_pool("x", (1, 1), (1, 1)))
    op = graph.ops[0]
    assert isinstance(op, g.MaxPool2D)
    op.lo, op.hi = -128, 127
    copy = g.Pad(name="copy", inputs=["x"], output=op.output, padding=(0, 0, 0, 0), pad_value=0)
    assert np.array_equal(elements(graph), elements(with_op(graph, copy)))
    op.kernel, op.padding = (2, 2), (0, 0, 1, 1)
    assert not np.array_equal(elements(graph), elements(with_op(graph, copy)))


def test_another_seed_gives_other_functions_of_the_same_elements() -> None:
    graph, _ = one_conv()
    assert (elements(graph) != elements(graph, SEED + 1)).all()


def test_host_operators_cannot_be_followed() -> None:
    b = GraphBuilder(8, (1, 1, 10))
    b.tensors["y"] = replace(b.tensors["x"], name="y")
    b.ops.append(g.Softmax(name="op000 softmax", inputs=["x"], output="y", multiplier=1, left_shift=1, diff_min=-1))
    with pytest.raises(Unfollowed, match="op000 softmax"):
        elements(b.graph("y"))


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_a_single_weight_of_one_selects(kernel: tuple[int, int]) -> None:
    """Requantised without change, such sums are their elements; with another weight, or one more, they are not."""
    graph, op = one_conv(kernel=kernel, padding=(0, 0, 0, 0))
    channels = graph.tensors["x"].shape[3]
    weight = np.zeros_like(op.weight)
    weight[np.arange(12), -1, -1, np.arange(12) % channels] = 1
    op = replace(op, weight=weight, requant=identity_requant(12))
    selected = elements(with_op(graph, op))
    assert np.array_equal(selected, elements(with_op(graph, op), SEED + 1))  # no function of the seed is in them
    for value, at in ((2, -1), (1, 0)):
        other = weight.copy()
        other[0, at, at, 0 if at else 3] = value
        changed = elements(with_op(graph, replace(op, weight=other)))
        assert (changed[..., 0] != selected[..., 0]).all()
        # a sum is no int8 value that a requantisation leaves as it is: a function of the seed, for it may be clamped
        assert (changed[..., 0] != elements(with_op(graph, replace(op, weight=other)), SEED + 1)[..., 0]).all()
        assert np.array_equal(changed[..., 1:], selected[..., 1:])


def test_a_pixel_that_meets_a_single_weight_of_one_is_selected_whatever_lies_between() -> None:
    """Of a transposed convolution: what the other weights make of the pixels between is taken off by the bias."""
    tensors = {"x": g.TensorSpec("x", (1, 3, 2, 1)), "y": g.TensorSpec("y", (1, 4, 2, 1))}
    weight, between = np.array([1, 3], np.int8).reshape(1, 2, 1, 1), 7
    requant = replace(identity_requant(1), bias=np.array([-3 * between], np.int32))
    op = g.Conv2D(
        name="t", inputs=["x"], output="y", weight=weight, requant=requant, spread=(2, 1), pad_value=between
    )  # fmt: skip
    graph = g.Graph("transposed", ["x"], ["y"], tensors, [op])
    x = random_elements(np.random.default_rng(0), 6).reshape(1, 3, 2, 1)
    found = elements(graph)
    assert np.array_equal(found[:, ::2], residues(x).reshape(x.shape)[:, :2])
    assert (found[:, 1::2] != residues(x).reshape(x.shape)[:, 1:]).all()


def test_extremes_are_of_int8_values_as_they_are() -> None:
    b = GraphBuilder(5, (4, 4, 6))
    tensors = {**b.tensors, "y": replace(b.tensors["x"], name="y")}
    same, twice = g.Scale(0, 1 << 30, 50, Rounding.SINGLE), g.Scale(0, 1 << 30, 49, Rounding.SINGLE)
    for kind in (g.Maximum, g.Minimum):
        for scales, followed in (((same, same), True), ((twice, same), False), ((same, twice), False)):
            op = kind(
                name="m", inputs=["x", "x"], output="y", scale_a=scales[0], scale_b=scales[1],
                requant=identity_requant(6),
            )  # fmt: skip
            graph = g.Graph("extreme", ["x"], ["y"], tensors, [op])
            if followed:
                assert elements(graph).shape == (1, 4, 4, 6)
            else:
                with pytest.raises(Unfollowed, match="of other than int8 values as they are"):
                    elements(graph)


def test_an_average_of_one_pixel_is_the_pixel() -> None:
    b = GraphBuilder(6, (3, 3, 2))
    graph = b.graph(b.average_pool("x", (1, 1), (1, 1), (0, 0, 0, 0)))
    op = graph.ops[0]
    assert isinstance(op, g.AvgPool2D)
    op.requants = {1: identity_requant(2)}
    x = random_elements(np.random.default_rng(0), 18).reshape(1, 3, 3, 2)
    assert np.array_equal(elements(graph), residues(x).reshape(x.shape))


@pytest.mark.parametrize("offset", [0, 5])
def test_pixels_that_are_taken_as_they_are_are_selected_unless_something_is_taken_off(offset: int) -> None:
    """Of a row by itself and one of two rows, each of columns likewise."""
    tensors = {"x": g.TensorSpec("x", (1, 2, 2, 1)), "y": g.TensorSpec("y", (1, 2, 2, 1))}
    both = sampling(np.array([[1, 0], [1, 1]], np.int32))
    op = g.Resample(
        name="r", inputs=["x"], output="y", rows=both, columns=both, offset=offset, requant=identity_requant(1)
    )
    graph = g.Graph("resampled", ["x"], ["y"], tensors, [op])
    x = random_elements(np.random.default_rng(0), 4).reshape(1, 2, 2, 1)
    found, other = elements(graph), elements(graph, SEED + 1)
    of_seed = (found != other)[0, :, :, 0]
    assert of_seed.tolist() == [[offset != 0, True], [True, True]]
    assert (found == residues(x).reshape(x.shape))[0, 0, 0, 0] == (offset == 0)


def test_planes_of_sums_are_functions_of_their_sums_times_their_factors() -> None:
    """Of a share of the channels, which is a convolution of those alone."""
    graph, op = one_conv()
    sums, total = split_sums(op, [0, 4, 8], 12)
    planes = len(total.scales)
    tensors = {**graph.tensors, sums[1].output: g.TensorSpec(sums[1].output, (1, 6, 5, 12 * planes))}
    part = g.Graph("sums", ["x"], [sums[1].output], tensors, [sums[1]])
    found = elements(part).reshape(1, 6, 5, planes, 12)
    for k, factor in enumerate(sums[1].factors):
        weight: Any = np.zeros(op.weight.shape, np.int64)
        weight[..., 4:] = op.weight[..., 4:]
        alone = replace(op, weight=weight * factor, requant=sums[1].requants[k])
        assert np.array_equal(found[..., k, :], elements(with_op(graph, alone)))
    for changed in (
        replace(sums[1], factors=(*sums[1].factors[:-1], 1 << 25)),
        replace(sums[1], requants=(*sums[1].requants[:-1], op.requant)),
    ):
        again = elements(replace(part, ops=[changed])).reshape(found.shape)
        assert [(again[..., k, :] != found[..., k, :]).all() for k in range(planes)] == [False, False, True]


def test_a_total_adds_scaled_planes_of_all_its_inputs() -> None:
    """Those of one input are those of another that has its planes in another order, with the scales in that order."""
    scales = (g.Scale(0, 256, 20, Rounding.SINGLE), g.Scale(0, 1, 20, Rounding.SINGLE))
    requant = GraphBuilder(9, (1, 1, 1)).requant(4, 1000.0)
    tensors = {"x": g.TensorSpec("x", (1, 3, 3, 16)), "y": g.TensorSpec("y", (1, 3, 3, 4))}
    total = g.Total(name="t", inputs=["x", "x"], output="y", scales=scales, requant=requant, pitch=8, first=4)
    graph = g.Graph("total", ["x"], ["y"], tensors, [total])
    found = elements(graph)
    twice = tuple(replace(scale, multiplier=2 * scale.multiplier) for scale in scales)
    assert np.array_equal(found, elements(with_op(graph, replace(total, inputs=["x"], scales=twice))))
    for changed in (replace(total, scales=scales[::-1]), replace(total, first=0), replace(total, inputs=["x"])):
        assert (elements(with_op(graph, changed)) != found).all()
