"""Which values of a network's input the array and ALU look at: what has to be read, whatever a schedule does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.elementwise import ElementwiseNode, Term
from tilewright.jit.kernels.resample import ResampleNode
from tilewright.jit.kernels.transposed import TransposedNode
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower.tensors import Lowered


class _Tap(NamedTuple):
    """Rows ``row + k * stride``, columns likewise, for each output row and column; ``units`` of them."""

    row: int
    column: int
    units: NDArray[np.bool_] | None = None  #: None: all
    moves: tuple[bool, bool] = (True, True)  #: whether it goes from row to row, and from column to column


def input_bytes(name: str, lowered: Lowered) -> int:
    """Bytes of a packed input that any node needs, in units: those that a tap with weights of other than zero meets."""
    if name in lowered.blocked:
        pixels = math.prod(lowered.specs[lowered.blocked[name].tensor].shape[:3])
        return pixels * lowered.units(name) * lowered.config.act_unit_bytes
    height, width, units = lowered.tensors[name]
    used = np.zeros((height, width, units), np.bool_)
    for node in lowered.nodes:
        for index, tensor in enumerate(node.inputs):
            if tensor == name:
                _mark(used, node, index)
    return int(used.sum()) * lowered.config.act_unit_bytes


def _mark(used: NDArray[np.bool_], node: Node, index: int) -> None:
    if isinstance(node, TransposedNode):
        for phase in node.by_pixel():
            _mark(used, phase, index)
    elif isinstance(node, ConvNode | WindowNode | ElementwiseNode):
        for row, column, units, moves in _taps(node, index, used.shape[2]):
            rows = np.arange(node.height) * node.strides[0] * moves[0] + row
            columns = np.arange(node.width) * node.strides[1] * moves[1] + column
            inside = np.ix_(_within(rows, used.shape[0]), _within(columns, used.shape[1]))
            used[inside] |= True if units is None else units
    elif isinstance(node, ResampleNode):
        used[np.ix_(node.rows.read, node.columns.read)] = True
    else:
        used[:] = True


def _within(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return places[(places >= 0) & (places < size)]


def _of_group(node: ElementwiseNode, term: Term, count: int) -> NDArray[np.bool_] | None:
    """Which of so many units a term reads where those beside are another's."""
    if not any(other.unit for other in node.terms):
        return None
    units = np.arange(count)
    return (units >= term.unit) & (units < term.unit + -(-node.channels // node.config.lanes))


def _taps(node: ConvNode | WindowNode | ElementwiseNode, index: int, count: int) -> Iterator[_Tap]:
    if isinstance(node, ElementwiseNode):
        for term in node.terms:
            if term.index == index:
                yield _Tap(term.dy, term.dx, _of_group(node, term, count), term.moves)
        return
    if isinstance(node, ConvNode):
        lanes, units = node.config.lanes, node.in_units[index]
        first = sum(node.in_units[:index]) * lanes
        weight = np.asarray(node.weight[..., first : first + units * lanes].any(axis=0))
        steps = node.dilation
    else:
        lanes, weight, steps = node.config.lanes, node.taps != 0, (node.dilation_y, 1)
        units = 1 if weight.shape[2] == 1 else node.out_units
    kh, kw, channels = weight.shape
    filled = np.zeros((kh, kw, units * lanes), np.bool_)
    filled[..., :channels] = weight
    by_unit = np.asarray(filled.reshape(kh, kw, units, lanes).any(axis=3))
    for ky, kx in np.argwhere(by_unit.any(axis=2)).tolist():
        yield _Tap(ky * steps[0] - node.pad[0], kx * steps[1] - node.pad[1], by_unit[ky, kx])
