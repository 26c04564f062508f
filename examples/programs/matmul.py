"""``c = clip((a @ b + 2^9) >> 10)`` of int8 matrices in blocks, every block in one of two places.

``python -m examples.programs.matmul`` simulates it; ``matmul.s`` is its assembly text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.builder import Builder
from tilewright.isa.program import Program

M, K, N = 256, 256, 256
ROWS = 32  #: of a block of a
COLUMNS = 2  #: of a block of b, in vectors of BLOCK_OUT columns
SHIFT = 10
Arrays = dict[str, NDArray[np.integer]]


def build() -> Program:
    """The program for the default Config, ``pynq-z2``."""
    p = Builder(name="matrix multiply")
    size = p.config.block_in  # of a block of weights: 16 x 16 here
    depth, vectors = K // size, N // size
    a = p.input("a", [M, K])
    b = p.input("b", [vectors, depth, size, size])  # in the order in which wgt holds it: see blocks()
    c = p.output("c", [M, N])

    weights = [p.wgt(COLUMNS * depth) for _ in range(2)]
    rows = [p.act(ROWS * depth, bank=k) for k in (0, 1)]
    results = [p.act(ROWS * COLUMNS, bank=k) for k in (2, 3)]
    sums = [p.acc(ROWS * COLUMNS, bank=k) for k in (0, 1)]
    scale = p.prm(1)
    p.load(scale, np.tile(np.array([0, 1, 0, SHIFT]), (1, size, 1)))  # bias, multiplier, offset, shift

    # One row of a by all columns of a block: vector v of the result is the sum over k.
    dot = [(v, k, v * depth + k, int(k > 0)) for v in range(COLUMNS) for k in range(depth)]
    block = 0
    for column in range(0, vectors, COLUMNS):
        w = weights[column // COLUMNS % 2]
        p.load(w, b, at=column * depth)
        for row in range(0, M, ROWS):
            x, y, z = (pair[block % 2] for pair in (rows, sums, results))
            p.load(x, a, at=row * depth)
            p.gemm(dot, dst=y, src=x, wgt=w, inner=ROWS, dst_inner=COLUMNS, src_inner=depth)
            p.requantize(dst=z, src=y, prm=scale)
            p.store(z, c, at=row * vectors + column, rows=ROWS, cols=COLUMNS, stride=vectors)
            block += 1
    return p.program()


def blocks(b: NDArray[np.integer], size: int = 16) -> NDArray[np.integer]:
    """A (K, N) matrix as wgt holds it: for each vector of columns and each of rows a block [column][row]."""
    k, n = b.shape
    return np.ascontiguousarray(b.reshape(k // size, size, n // size, size).transpose(2, 0, 3, 1))


def inputs(seed: int = 0) -> Arrays:
    """Random matrices, ``b`` in blocks."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (M, K), np.int8), rng.integers(-128, 128, (K, N), np.int8)
    return {"a": a, "b": blocks(b)}


def expected(a: NDArray[np.int8], b: NDArray[np.int8]) -> Arrays:
    """What NumPy says."""
    sums = a.astype(np.int32) @ b.transpose(1, 3, 0, 2).reshape(K, N).astype(np.int32)
    return {"c": np.clip((sums + (1 << SHIFT - 1)) >> SHIFT, -128, 127).astype(np.int8)}


if __name__ == "__main__":
    from examples.programs.show import show

    show(build(), inputs(), expected)
