"""Products of two activations, and where in the tensors on the accelerator their matrices lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import MatMul, Reshape
from tilewright.jit.layers.builder import GraphBuilder, Layer, Output, Quantisation
from tilewright.jit.layers.scaling import sum_requant

#: a tensor, and for each element of (heads, pixels, channels) where in it, counted in NHWC order, the element is
Matrices = tuple[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Side:
    """One operand: rows of ``matrices`` are multiplied with rows of the other's.

    ``made`` gives a tensor of (1, heads, pixels, channels) for matrices that lie in no form that is read as it is.
    """

    quantisation: Quantisation
    matrices: Matrices
    made: Callable[[], str]

    def tensor(self, builder: GraphBuilder) -> str:
        """The tensor in one of the forms that :class:`~tilewright.jit.graph.MatMul` reads."""
        name, positions = self.matrices
        heads, pixels, channels = positions.shape
        order = np.arange(positions.size)
        if (positions.reshape(-1) == order).all():
            return shaped(builder, name, (1, heads, pixels, channels))
        if (positions.transpose(1, 0, 2).reshape(-1) == order).all():
            return shaped(builder, name, (1, 1, pixels, heads * channels))
        return shaped(builder, self.made(), (1, heads, pixels, channels))


def shaped(builder: GraphBuilder, name: str, shape: tuple[int, ...]) -> str:
    """A tensor under a shape of as many elements."""
    if builder.tensors[name].shape == shape:
        return name
    return builder.append(Reshape, f"reshape_{name}", [name], shape, shape=shape)


def matmul(
    layer: Layer, a: Side, b: Side, out: Output, *, merged: bool, rounding: Rounding = Rounding.DOUBLE,
    float_product: bool = False, bias: int = 0,
) -> str:  # fmt: skip
    """``sum (a - za) * (b - zb)`` over the channels of each head; rows of ``b`` become channels of the result.

    ``merged``: the heads of the result lie in its channels. ``rounding`` and ``float_product`` are LiteRT's, as
    :func:`sum_requant` has them. Raises Unsupported or NotRepresentable where the accelerator's arithmetic cannot give
    the oracle's integers.
    """
    (heads, pixels, depth), (others, count, inner) = a.matrices[1].shape, b.matrices[1].shape
    if (heads, depth) != (others, inner):
        raise Unsupported(f"products of {heads} matrices of {depth} channels and {others} of {inner}")
    ends = [(-128 - side.quantisation.zero_point, 127 - side.quantisation.zero_point) for side in (a, b)]
    corners = [x * y * depth + bias for x in ends[0] for y in ends[1]]
    requant = sum_requant(
        layer, a.quantisation.scale, np.array([b.quantisation.scale]), np.array([bias], np.int64),
        np.array([min(corners)]), np.array([max(corners)]), out, rounding=rounding, float_product=float_product,
    )  # fmt: skip
    shape = (1, 1, pixels, heads * count) if merged else (1, heads, pixels, count)
    return layer.emit(
        MatMul, [side.tensor(layer.builder) for side in (a, b)], shape, out.quantisation, heads=heads, merged=merged,
        offsets=(a.quantisation.zero_point, b.quantisation.zero_point), requant=requant.of(np.zeros(count, np.int64)),
    )  # fmt: skip
