"""How cores share a stretch, in one round or two, and the steps that cut tensors for pieces and join what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tilewright.config import Config
from tilewright.jit.graph import Graph
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.split.pieces import AXES, Axis, Known, Piece, cut, pieces_of
from tilewright.jit.split.reduction import in_two, share_boxes
from tilewright.runtime.steps import CutStep, JoinStep

Way = Axis | Literal["inputs"]  #: rows or channels of results, or input channels of a convolution, with a reduction
WAYS: tuple[Way, ...] = (*AXES, "inputs")


class Round(NamedTuple):
    """What cores compute at the same time: a graph in pieces, as a whole on one of them where there are none."""

    graph: Graph
    pieces: list[Piece]

    @property
    def graphs(self) -> list[Graph]:
        """What is compiled, a program each."""
        return [piece.graph for piece in self.pieces] or [self.graph]


@dataclass(frozen=True)
class Split:
    """A stretch on up to ``count`` cores."""

    count: int
    way: Way

    def rounds(self, graph: Graph, config: Config, known: Known | None = None) -> list[Round]:
        """One round, or two with sums between them; one without pieces where there are no two. ``known`` as of
        :func:`cut`."""
        if self.way != "inputs":
            return [Round(graph, self._cut(graph, self.way, config, known))]
        try:
            sums, total = in_two(graph, self.count, config)
            first = Round(sums, pieces_of(sums, share_boxes(sums), known))
        except Uncut:
            return [Round(graph, [])]
        ways = [self._cut(total, axis, config, known) for axis in AXES]
        return [first, Round(total, max(ways, key=len))]

    def _cut(self, graph: Graph, axis: Axis, config: Config, known: Known | None) -> list[Piece]:
        try:
            return cut(graph, self.count, axis, config.lanes, known)
        except Uncut:
            return []


def cut_steps(whole: Graph, pieces: Sequence[Piece]) -> list[CutStep]:
    """From the inputs of the whole to those of the pieces that are not all of one."""
    taken = {name: of for piece in pieces for name, of in piece.taken.items() if name != of[0]}
    return [
        CutStep(tensor, name, box.begin(whole.tensors[tensor]), box.of(whole.tensors[tensor]).shape)
        for name, (tensor, box) in taken.items()
    ]


def join_steps(whole: Graph, pieces: Sequence[Piece]) -> list[JoinStep]:
    """From the outputs of the pieces to those of the whole."""
    steps = []
    for tensor in whole.outputs:
        given = {name: box for piece in pieces for name, (of, box) in piece.given.items() if of == tensor}
        spec = whole.tensors[tensor]
        if tensor not in given and given:
            origins = tuple(box.begin(spec) for box in given.values())
            steps.append(JoinStep(tuple(given), tensor, origins, spec.shape))
    return steps
