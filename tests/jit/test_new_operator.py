"""A graph operator that the compiler has never seen: its class says all that any stage asks.

It is declared here, outside the package, and nothing else is told of it: it is lowered, planned in rows and tiles, cut
into pieces and freed of channels nobody reads, proven and run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS
from tilewright.isa.spec import Combine
from tilewright.jit import graph as g
from tilewright.jit.channels import reduce_channels
from tilewright.jit.compiler import compile_graph
from tilewright.jit.errors import ProofError
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Channels
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.reference import evaluate
from tilewright.jit.split.boxes import Box, box_of, restricted


@dataclass(kw_only=True)
class AddN(g.Op):
    """``requant(sum over k of scales[k](inputs[k]))``: a sum of any number of tensors, rounded once."""

    scales: tuple[g.Scale, ...]
    requant: g.Requant
    per_channel = True

    def meaning(self, d: Domain, *inputs: Any) -> Any:
        terms = [d.rescale(x, scale) for x, scale in zip(inputs, self.scales, strict=True)]
        return d.requantize(sum(terms[1:], terms[0]), self.requant)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[AddN, list[Range]]:
        return self, [rows] * len(heights)

    def of_channels(self, channels: Channels) -> AddN:
        return replace(self, requant=self.requant.of(channels))

    def lower(self, at: Lowering) -> None:
        joins = [Combine.WRITE, *[Combine.ADD] * (len(self.scales) - 1)]
        terms = [Term(k, scale, join) for k, (scale, join) in enumerate(zip(self.scales, joins, strict=True))]
        at.elementwise(self, self.inputs, at.output(self), terms, self.requant)


class Wrong(AddN):
    """Lowered with the scales of its operands exchanged."""

    def lower(self, at: Lowering) -> None:
        AddN.lower(replace(self, scales=self.scales[::-1]), at)


def network(kind: type[AddN] = AddN, unread: int = 0) -> g.Graph:
    """Three layers, their sum, and a pointwise layer that does not read the last ``unread`` channels of it."""
    b = GraphBuilder(3, (9, 7, 5))
    inputs = [b.conv("x", 24), b.conv("x", 24, (1, 1), padding=(0, 0, 0, 0)), b.depthwise(b.conv("x", 24))]
    spec = replace(b.tensors[inputs[0]], name="sum")
    b.tensors["sum"] = spec
    scales = tuple(b.scale() for _ in inputs)
    requant = b.requant(1, float(1 << 26)).of(np.zeros(24, np.int64))
    b.ops.append(kind(name="add_n", inputs=inputs, output="sum", scales=scales, requant=requant))
    result = b.conv("sum", 8, (1, 1), padding=(0, 0, 0, 0))
    b.ops[-1].weight[..., 24 - unread :] = 0  # type: ignore[attr-defined]
    return b.graph(result)


@pytest.mark.parametrize("name", ["tiny", "pynq-z2"])
def test_it_is_planned_in_rows_proven_and_exact(name: str) -> None:
    assert_exact(network(), PRESETS[name])


@pytest.mark.usefixtures("tiles_only")
def test_it_is_planned_in_tiles_proven_and_exact() -> None:
    assert_exact(network(), PRESETS["tiny"])


def test_a_wrong_lowering_is_no_program() -> None:
    with pytest.raises(ProofError, match="wrong"):
        compile_graph(network(Wrong), PRESETS["tiny"])


def test_channels_of_it_that_nobody_reads_are_not_computed() -> None:
    graph = network(unread=9)
    reduced = reduce_channels(graph, 1)
    assert reduced.dropped["add_n"] == {"unread": 9}
    x = np.random.default_rng(0).integers(-128, 128, (1, 9, 7, 5)).astype(np.int8)
    for name in graph.outputs:
        np.testing.assert_array_equal(evaluate(reduced.graph, {"x": x})[name], evaluate(graph, {"x": x})[name])


def test_a_piece_of_it_reads_the_same_piece_of_its_operands() -> None:
    graph = network()
    op = next(op for op in graph.ops if op.name == "add_n")
    tensors = [graph.tensors[name] for name in op.inputs]
    box = Box(2, 5, 8, 16)
    piece, read = restricted(op, box, graph.tensors["sum"], tensors)
    assert isinstance(piece, AddN)
    assert len(piece.requant.bias) == 8
    assert read == [box] * 3
    assert box_of(tensors[0]) == Box(0, 9, 0, 24)
