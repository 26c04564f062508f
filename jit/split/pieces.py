"""A graph cut into pieces, each of which makes some rows or some channels of every output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from tilewright.jit import graph as g
from tilewright.jit.graph import Graph, Op, TensorSpec
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.split.boxes import Box, box_of, restricted

Axis = Literal["rows", "channels"]
AXES: tuple[Axis, ...] = ("rows", "channels")


@dataclass(frozen=True)
class Piece:
    """``graph`` over boxes of the whole's tensors: ``taken`` and ``given`` say which its inputs and outputs are."""

    graph: Graph
    taken: dict[str, tuple[str, Box]]
    given: dict[str, tuple[str, Box]]


#: by operator and box of its result what :func:`restricted` gives
Known = dict[tuple[str, Box], tuple[Op, list[Box]]]


def cut(graph: Graph, count: int, axis: Axis, lanes: int, known: Known | None = None) -> list[Piece]:
    """Up to ``count`` pieces of a graph of the accelerator's operators; channels are cut at multiples of ``lanes``.

    The outputs of all pieces together are those of the whole; where a piece makes more of one than its share (others
    of its operators read it), values are there twice. ``known`` keeps operators of pieces for further graphs of the
    same network, which then share what is worked out from their weights. Raises :class:`Uncut` where there are no two
    pieces.
    """
    return pieces_of(graph, wanted_of(graph, count, axis, lanes), known)


def pieces_of(graph: Graph, wanted: Sequence[Mapping[str, Box]], known: Known | None = None) -> list[Piece]:
    """The pieces that make these boxes of outputs. Raises :class:`Uncut`."""
    known = {} if known is None else known
    return [_piece(graph, boxes, known) for boxes in wanted]


def wanted_of(graph: Graph, count: int, axis: Axis, lanes: int) -> list[dict[str, Box]]:
    """What of each output each piece makes at least; arguments and errors as of :func:`cut`."""
    outputs = [graph.tensors[name] for name in graph.outputs]
    shares = [_shares(box_of(tensor), count, axis, lanes) for tensor in outputs]
    fewest = min(map(len, shares))
    if fewest < 2:
        raise Uncut(f"{graph.outputs[0]}: has no {axis} for two")
    if fewest < count:
        shares = [_shares(box_of(tensor), fewest, axis, lanes) for tensor in outputs]
    return [dict(zip(graph.outputs, boxes)) for boxes in zip(*shares, strict=True)]


def _shares(whole: Box, count: int, axis: Axis, lanes: int) -> list[Box]:
    """A tensor's rows or channels in parts as even as can be."""
    unit = 1 if axis == "rows" else lanes
    size = whole.bottom if axis == "rows" else whole.last
    units = -(-size // unit)
    count = min(count, units)
    ends = [min(size, k * units // count * unit) for k in range(count + 1)]
    if axis == "rows":
        return [whole._replace(top=a, bottom=b) for a, b in pairwise(ends)]
    return [whole._replace(first=a, last=b) for a, b in pairwise(ends)]


class Needs(NamedTuple):
    """``made``: the box of each tensor that a piece makes, ``taken``: of an input what is read of some of its channels;
    ``asked``: the operators by name, each as much of itself as is needed, and the boxes that it reads."""

    made: dict[str, Box]
    taken: dict[tuple[str, int, int], Box]
    asked: dict[str, tuple[Op, list[Box]]]


def needs_of(graph: Graph, wanted: Mapping[str, Box], known: Known) -> Needs:
    """What the boxes of the outputs need. Raises :class:`Uncut`."""
    need, asked = dict(wanted), dict[str, tuple[Op, list[Box]]]()
    taken: dict[tuple[str, int, int], Box] = {}
    for op in reversed(graph.ops):
        if op.output not in need:
            continue
        box = need[op.output]
        if (op.name, box) not in known:
            inputs = [graph.tensors[name] for name in op.inputs]
            known[op.name, box] = restricted(op, box, graph.tensors[op.output], inputs)
        asked[op.name] = known[op.name, box]
        for name, read in zip(op.inputs, asked[op.name][1]):
            if name in graph.inputs:
                key = name, read.first, read.last
                taken[key] = read.around(taken.get(key))
            else:
                need[name] = read.around(need.get(name))
    return Needs(need, taken, asked)


def _piece(graph: Graph, wanted: Mapping[str, Box], known: Known) -> Piece:
    need, taken, asked = needs_of(graph, wanted, known)
    build = _Build(graph, need, taken)
    for op in graph.ops:
        if op.name in asked:
            build.append(*asked[op.name])
    given = {build.name(tensor, need[tensor]): (tensor, need[tensor]) for tensor in wanted}
    read = {build.name(key[0], box): (key[0], box) for key, box in taken.items()}
    return Piece(Graph(graph.name, list(read), list(given), build.tensors, build.ops), read, given)


class _Build:
    """The operators of a piece, in order."""

    def __init__(self, graph: Graph, need: Mapping[str, Box], taken: Mapping[tuple[str, int, int], Box]) -> None:
        self._graph, self._need, self._taken = graph, need, taken
        self.tensors: dict[str, TensorSpec] = {}
        self.ops: list[Op] = []
        self._made: set[str] = set()

    def name(self, tensor: str, box: Box) -> str:
        """The piece's tensor that is a box of one of the whole's."""
        spec = box.of(self._graph.tensors[tensor])
        self.tensors[spec.name] = spec
        return spec.name

    def append(self, op: Op, boxes: list[Box]) -> None:
        """An operator that reads these boxes of its inputs."""
        inputs = [self._input(op, name, box) for name, box in zip(op.inputs, boxes)]
        output, box = self._graph.tensors[op.output], self._need[op.output]
        name = op.name + box.label(output)
        self._add(replace(op, name=name, inputs=inputs, output=self.name(op.output, box)))

    def _add(self, op: Op) -> None:
        self.ops.append(op)
        self._made.add(op.output)

    def _input(self, op: Op, tensor: str, box: Box) -> str:
        """The tensor with a box of an input, copied where the piece has more of it for others."""
        have = self._taken.get((tensor, box.first, box.last)) or self._need[tensor]
        name = self.name(tensor, box)
        if have == box or name in self._made:
            return name
        if have[2:] != box[2:]:
            raise Uncut(f"{op.name} ({op.kind}): reads channels {box.first}:{box.last} of what is made whole")
        size = box.bottom - box.top, self.tensors[name].shape[2]
        self._add(
            g.Slice(
                name=name, inputs=[self.name(tensor, have)], output=name, begin=(box.top - have.top, 0), size=size,
                covers=op.covers,
            )
        )  # fmt: skip
        return name
