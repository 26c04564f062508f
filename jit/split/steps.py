"""The steps that cut tensors for the pieces of a stretch, and join what the pieces give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.jit.graph import Graph
from tilewright.jit.split.boxes import Uncut
from tilewright.jit.split.pieces import Axis, Known, Piece, cut
from tilewright.runtime.steps import CutStep, JoinStep


@dataclass(frozen=True)
class Split:
    """A stretch in up to ``count`` pieces along an axis."""

    count: int
    axis: Axis

    def pieces(self, graph: Graph, lanes: int, known: Known | None = None) -> list[Piece]:
        """The pieces; none where there are no two. ``known`` as of :func:`cut`."""
        try:
            return cut(graph, self.count, self.axis, lanes, known)
        except Uncut:
            return []


def graphs_of(whole: Graph, pieces: Sequence[Piece]) -> list[Graph]:
    """What is compiled: the graphs of the pieces, the whole where there are none."""
    return [piece.graph for piece in pieces] or [whole]


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
