"""Elements that move: which moves have a form on the accelerator, asked of the rule itself."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Reshape
from tilewright.jit.layers.builder import LITERT, GraphBuilder, Layer, Operand, Quantisation
from tilewright.jit.layers.moves import moved

SHAPE = (1, 3, 4, 5)


def layer() -> tuple[Layer, Operand]:
    builder = GraphBuilder(LITERT)
    numbers = Quantisation(1.0, 0)
    return Layer(builder, "move"), Operand(builder.declare("x", SHAPE, "int8", numbers), SHAPE, numbers)


def test_all_elements_in_their_order_are_another_shape() -> None:
    made, x = layer()
    name, axes = moved(made, x, np.arange(60).reshape(1, 6, 5, 2))
    (op,) = made.builder.ops
    assert isinstance(op, Reshape)
    assert (op.output, op.shape, axes) == (name, (1, 6, 5, 2), (0, 1, 2, 3))


@pytest.mark.parametrize("seed", range(5))
def test_elements_in_any_other_order_have_no_form(seed: int) -> None:
    """Whether some stay next to each other or none do."""
    made, x = layer()
    positions = np.random.default_rng(seed).permutation(60)
    if seed == 0:  # none is followed by its neighbour
        positions = np.arange(60) * 17 % 60
    with pytest.raises(Unsupported):
        moved(made, x, positions.reshape(1, 6, 5, 2))
    assert not made.builder.ops
