"""A convolution split over its input channels: two graphs, between which cores exchange what they have to add up.

In the first each core multiplies the channels that are its share, for all results. A sum of 32 bits leaves acc as
bytes, *planes* of int8 values that lie beside each other as channels. In the second cores take rows or channels of
the result, add the planes of all shares up, each times a power of 256, and requantise.

With digits of -128 to 127 a sum is ``centre + sum of digit[j] * 256^j``: byte j of ``sum - centre + offset`` less 128,
where offset is 128 for each byte. Where the weights leave a sum less than 32 bits, the planes are fewer; ``centre`` is
the middle of what it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding, wrap_int32
from tilewright.jit import graph as g
from tilewright.jit.graph import Graph, Op, Requant, Scale, TensorSpec
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.numbers.scales import reachable
from tilewright.jit.split.boxes import Box, box_of

BITS, MOST_PLANES = 8, 4  #: of a plane, and that a sum of 32 bits has
_TOP = 32 - BITS  #: where the byte that int8 takes lies in acc

Ints = NDArray[np.int64]


def in_two(graph: Graph, count: int, config: Config) -> tuple[Graph, Graph]:
    """A graph with one convolution as two, with the sums of ``count`` shares between them: all up to the sums, a tensor
    for each share, and what adds them up with all that follows.

    Raises :class:`Uncut` where the graph has another number of convolutions, or what they read is needed elsewhere.
    """
    op = _convolution(graph)
    channels, block = op.weight.shape[3], config.widest_block
    blocks = -(-channels // block)
    if blocks < count:
        raise Uncut(f"{op.name} ({op.kind}): has no {count} blocks of {block} input channels")
    ends = [min(channels, blocks * k // count * block) for k in range(count + 1)]
    sums, total = split_sums(op, ends, -(-len(op.weight) // block) * block)
    before = _before(graph, op)
    made = {known.output for known in before}
    behind = [total if known is op else known for known in graph.ops if known.output not in made]
    outside = {name for known in behind for name in known.inputs} | set(graph.outputs)
    if made & outside:
        raise Uncut(f"{op.name} ({op.kind}): others need {min(made & outside)}, of which each core has a share")
    shape = (*graph.tensors[op.output].shape[:-1], len(total.scales) * total.pitch)
    tensors = {**graph.tensors, **{name: TensorSpec(name, shape) for name in total.inputs}}
    return _graph(graph.name, total.inputs, tensors, [*before, *sums]), _graph(
        graph.name, graph.outputs, tensors, behind
    )


def share_boxes(sums: Graph) -> list[dict[str, Box]]:
    """What each core makes of the first of the two graphs."""
    return [{name: box_of(sums.tensors[name])} for name in sums.outputs]


def split_sums(op: g.Conv2D, ends: Sequence[int], pitch: int) -> tuple[list[g.PartialSums], g.Total]:
    """What makes the sums over the input channels between each two of ``ends``, in planes of ``pitch`` channels, and
    what makes the convolution's result of them."""
    weight = np.zeros((pitch, *op.weight.shape[1:]), op.weight.dtype)
    weight[: len(op.weight)] = op.weight
    shares = [np.ascontiguousarray(weight[..., a:b]) for a, b in pairwise(ends)]
    reach = of_weights(op.weight, ("reach", *ends, pitch), lambda: [_reach(share) for share in shares])
    planes = min(MOST_PLANES, max(_planes(low, high) for low, high in reach))
    centres = [_centre(low, high, planes) for low, high in reach]
    factors = (1, *(1 << _TOP - BITS * k for k in range(planes - 2, -1, -1)))
    sums = [
        g.PartialSums(
            name=(name := f"{op.name} sums {number} of {len(shares)}"), inputs=op.inputs, output=name,
            source=op.source, covers=op.covers, weight=share, first=first, factors=factors,
            requants=_requants(centre, planes), strides=op.strides, dilation=op.dilation, padding=op.padding,
            pad_value=op.pad_value,
        ) for number, (share, first, centre) in enumerate(zip(shares, ends, centres), 1)
    ]  # fmt: skip
    bias = op.requant.bias + sum(centre[: len(op.weight)] for centre in centres)
    total = g.Total(
        name=f"{op.name} total of {len(shares)}", inputs=[each.output for each in sums], output=op.output,
        source=op.source, covers=op.covers, pitch=pitch,
        scales=tuple(_power(BITS * k) for k in range(planes - 1, -1, -1)),
        requant=replace(op.requant, bias=wrap_int32(bias).astype(np.int32)),
    )  # fmt: skip
    return sums, total


def _convolution(graph: Graph) -> g.Conv2D:
    """The only one, of one group. Raises :class:`Uncut`."""
    dense = [op for op in graph.ops if isinstance(op, (g.Conv2D, g.MatMul))]
    if len(dense) != 1 or not isinstance(dense[0], g.Conv2D) or dense[0].groups > 1 or dense[0].transposed:
        raise Uncut(f"{graph.outputs[0]}: is not made by one convolution")
    return dense[0]


def _before(graph: Graph, op: Op) -> list[Op]:
    """All that an operator needs, in order."""
    needed = set(op.inputs)
    for known in reversed(graph.ops):
        if known.output in needed:
            needed |= set(known.inputs)
    return [known for known in graph.ops if known.output in needed]


def _graph(name: str, outputs: list[str], tensors: dict[str, TensorSpec], ops: list[Op]) -> Graph:
    made = {op.output for op in ops}
    inputs = list(dict.fromkeys(t for op in ops for t in op.inputs if t not in made))
    return Graph(name, inputs, outputs, tensors, ops)


def _reach(weight: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Least and greatest sum of each result, whatever the int8 input; ``weight`` (OC, KH, KW, IC)."""
    low, high = reachable(np.moveaxis(weight, 0, -1), 0)
    return low.astype(np.int64), high.astype(np.int64)


def _planes(low: Ints, high: Ints) -> int:
    """How many bytes tell all sums apart."""
    return max(1, -(-int((high - low).max()).bit_length() // BITS))


def _offset(planes: int) -> int:
    """128 for each byte."""
    return sum(1 << BITS * k + BITS - 1 for k in range(planes))


def _centre(low: Ints, high: Ints, planes: int) -> Ints:
    """What is taken off a sum, so that the digits tell; sums that may have all 32 bits wrap as they are."""
    if planes == MOST_PLANES:
        return np.zeros_like(low)
    room = (1 << BITS * planes) - 1 - (high - low)
    return low + _offset(planes) - room // 2


def _requants(centre: Ints, planes: int) -> tuple[Requant, ...]:
    """What makes the digits of sums, the greatest first, each brought to the same place in acc by its factor."""
    moved = _offset(planes) - centre
    top = BITS * (planes - 1)
    found = [_floor(moved - (1 << top + BITS - 1), top)]
    for k in range(planes - 2, -1, -1):
        found.append(_floor((moved << _TOP - BITS * k) + (1 << 31), _TOP))
    return tuple(found)


def _floor(bias: Ints, shift: int) -> Requant:
    """``(acc + bias) >> shift``."""
    one = np.ones(len(bias), np.int32)
    half = (1 << shift) >> 1
    return Requant(wrap_int32(bias).astype(np.int32), one, one * shift, one * -half, Rounding.SINGLE, 0)


def _power(exponent: int) -> Scale:
    """``x * 2^exponent``."""
    return Scale(0, 1 << exponent, RESCALE_LEFT_SHIFT, Rounding.SINGLE)
