"""``c = clip(a + b)`` of int8 vectors, tile by tile: LOAD brings the next tile while ALU works on this one.

``python -m examples.programs.vector_add`` simulates it; ``vector_add.s`` is its assembly text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.builder import Builder
from tilewright.isa.program import Program

ELEMENTS = 65536
TILE = 128  #: units of 16 elements
Arrays = dict[str, NDArray[np.integer]]


def build() -> Program:
    """The program for the default Config, ``pynq-z2``."""
    p = Builder(name="vector add")
    lanes = p.config.lanes
    a, b = p.input("a", [ELEMENTS]), p.input("b", [ELEMENTS])
    c = p.output("c", [ELEMENTS])

    # Two places for everything. ALU reads both operands in one cycle, so they lie in different banks of acc.
    sums = [p.acc(TILE, bank=0), p.acc(TILE, bank=2)]
    addends = [p.acc(TILE, bank=1), p.acc(TILE, bank=3)]
    results = [p.act(TILE, bank=0), p.act(TILE, bank=1)]
    same = p.prm(1)
    p.load(same, np.tile(np.array([0, 1, 0, 0]), (1, p.config.block_out, 1)))  # bias, multiplier, offset, shift

    for tile in range(ELEMENTS // (TILE * lanes)):
        x, y, z = (pair[tile % 2] for pair in (sums, addends, results))
        p.load(y, b, at=tile * TILE)  # int8 is widened to int32 on its way into acc
        p.load(x, a, at=tile * TILE)  # after y, because the place of y is free earlier
        p.alu("add", dst=x, src=y)
        p.requantize(dst=z, src=x, prm=same)  # clamps to int8
        p.store(z, c, at=tile * TILE)
    return p.program()


def inputs(seed: int = 0) -> Arrays:
    """Random vectors."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, ELEMENTS, np.int8) for name in ("a", "b")}


def expected(a: NDArray[np.int8], b: NDArray[np.int8]) -> Arrays:
    """What NumPy says."""
    return {"c": np.clip(a.astype(np.int32) + b, -128, 127).astype(np.int8)}


if __name__ == "__main__":
    from examples.programs.show import show

    show(build(), inputs(), expected)
