"""A 3x3 convolution with padding and ReLU, of int8 in NHWC order, by bands of rows.

``python -m examples.programs.conv2d`` simulates it; ``conv2d.s`` is its assembly text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.builder import Builder
from tilewright.isa.program import Program

HEIGHT, WIDTH, CHANNELS, OUTPUTS = 32, 32, 32, 32
KERNEL = 3
BAND = 4  #: rows of the result that one GEMM computes
SHIFT = 10
Arrays = dict[str, NDArray[np.integer]]


def build() -> Program:
    """The program for the default Config, ``pynq-z2``."""
    p = Builder(name="conv2d")
    size = p.config.block_in
    depth, vectors, taps = CHANNELS // size, OUTPUTS // size, KERNEL * KERNEL
    padded = (WIDTH + KERNEL - 1) * depth  # units of a row with its padding
    x = p.input("x", [HEIGHT, WIDTH, CHANNELS])
    w = p.input("w", [vectors, taps, depth, size, size])  # in the order in which wgt holds it: see blocks()
    y = p.output("y", [HEIGHT, WIDTH, OUTPUTS])

    image = p.act((HEIGHT + KERNEL - 1) * padded)
    results = [p.act(BAND * WIDTH * vectors, bank=3) for _ in range(2)]
    sums = [p.acc(BAND * WIDTH * vectors, bank=k) for k in (0, 1)]
    weights, scale = p.wgt(vectors * taps * depth), p.prm(1)
    p.load(scale, np.tile(np.array([0, 1, 0, SHIFT]), (1, size, 1)))  # bias, multiplier, offset, shift
    p.load(weights, w)

    # The padding: the row above, the row below, and what lies between the pixels of one row and of the next.
    p.fill(image[:padded], 0)
    p.fill(image[(HEIGHT + 1) * padded :], 0)
    p.fill(image[padded - depth :], 0, rows=HEIGHT + 1, cols=2 * depth, row_step=padded)

    # One pixel of the result: for each vector of channels the sum over taps and input channels.
    pixel = [
        (
            v,
            (dy * (WIDTH + 2) + dx) * depth + k,
            (v * taps + dy * KERNEL + dx) * depth + k,
            int((dy, dx, k) > (0, 0, 0)),
        )
        for v in range(vectors)
        for dy in range(KERNEL)
        for dx in range(KERNEL)
        for k in range(depth)
    ]
    have = 0  # rows of the image that are on chip
    for band in range(HEIGHT // BAND):
        need = min(HEIGHT, (band + 1) * BAND + 1)  # the last one needs a row below it
        row = image[(have + 1) * padded + depth :]
        p.load(row, x, at=have * WIDTH * depth, rows=need - have, cols=WIDTH * depth, row_step=padded)
        have = need
        s, z = sums[band % 2], results[band % 2]
        p.gemm(
            pixel, dst=s, src=image[band * BAND * padded :], wgt=weights,
            outer=BAND, dst_outer=WIDTH * vectors, src_outer=padded,
            inner=WIDTH, dst_inner=vectors, src_inner=depth,
        )  # fmt: skip
        p.requantize(dst=z, src=s, prm=scale, lo=0)  # ReLU is the lower clamp
        p.store(z, y, at=band * BAND * WIDTH * vectors)
    return p.program()


def blocks(w: NDArray[np.integer], size: int = 16) -> NDArray[np.integer]:
    """(kernel, kernel, inputs, outputs) weights as wgt holds them: blocks [output][input] by vector, tap and depth."""
    kh, kw, inputs, outputs = w.shape
    split = w.reshape(kh * kw, inputs // size, size, outputs // size, size)
    return np.ascontiguousarray(split.transpose(3, 0, 1, 4, 2))


def inputs(seed: int = 0) -> Arrays:
    """A random image, and random weights in blocks."""
    rng = np.random.default_rng(seed)
    w = rng.integers(-128, 128, (KERNEL, KERNEL, CHANNELS, OUTPUTS), np.int8)
    return {"x": rng.integers(-128, 128, (HEIGHT, WIDTH, CHANNELS), np.int8), "w": blocks(w)}


def expected(x: NDArray[np.int8], w: NDArray[np.int8]) -> Arrays:
    """What NumPy says."""
    weights = w.transpose(1, 2, 4, 0, 3).reshape(KERNEL, KERNEL, CHANNELS, OUTPUTS).astype(np.int32)
    image = np.pad(x.astype(np.int32), ((1, 1), (1, 1), (0, 0)))
    sums = np.zeros((HEIGHT, WIDTH, OUTPUTS), np.int32)
    for dy in range(KERNEL):
        for dx in range(KERNEL):
            sums += image[dy : dy + HEIGHT, dx : dx + WIDTH] @ weights[dy, dx]
    return {"y": np.clip((sums + (1 << SHIFT - 1)) >> SHIFT, 0, 127).astype(np.int8)}


if __name__ == "__main__":
    from examples.programs.show import show

    show(build(), inputs(), expected)
