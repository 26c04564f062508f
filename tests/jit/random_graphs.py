"""Random graphs over every operator in odd shapes, and random Configs down to the least memories."""

from __future__ import annotations

import numpy as np

from tests.jit.builder import GraphBuilder
from tilewright.config import Config, ConfigError
from tilewright.jit import graph as g

PAIRWISE = (g.Add, g.Add, g.Multiply, g.Multiply, g.Maximum, g.Minimum)
MOST_MACS = 4_000_000  #: of one operator, so that the reference and the simulator stay quick


def odd_graph(seed: int) -> tuple[GraphBuilder, list[str]]:
    """A random graph and its outputs: odd channels, sizes, kernels, strides, pads, groups, and much reuse."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        """From ``low`` to ``high``, small numbers more often."""
        return int(low + (high - low + 1) * rng.random() ** 2.5)

    b = GraphBuilder(seed, (draw(1, 60), draw(1, 60), draw(1, 80)))
    made = ["x"]
    for _ in range(int(rng.integers(1, 6))):
        x = made[int(rng.integers(max(0, len(made) - 3), len(made)))]
        made.append(_append(b, x, made, rng, draw))
    last = made[-1]
    outputs = [last]
    if len(made) > 2 and rng.integers(3) == 0:
        outputs.append(made[int(rng.integers(1, len(made) - 1))])
    return b, [t for t in dict.fromkeys(outputs) if t != "x"] or [b.requantize("x")]


def _append(b: GraphBuilder, x: str, made: list[str], rng: np.random.Generator, draw) -> str:
    _, h, w, c = b.shape(x)
    choice = int(rng.integers(0, 11))
    same = [t for t in made if b.shape(t)[1:3] == (h, w)]
    alike = [t for t in same if b.shape(t)[3] == c]

    def axis(size: int, most: int) -> tuple[int, int, int, int, int]:
        """(kernel, stride, dilation, pad before, pad after) that leave at least one output."""
        kernel, stride = draw(1, most), draw(1, 4)
        dilation = draw(1, 3) if kernel > 1 else 1
        before, after = draw(0, kernel + 1), draw(0, kernel + 1)
        missing = (kernel - 1) * dilation + 1 - size - before - after
        return kernel, stride, dilation, before, after + max(0, missing)

    kh, sy, dy, top, bottom = axis(h, 11 if rng.integers(3) == 0 else 4)
    kw, sx, dx, left, right = axis(w, 11 if rng.integers(3) == 0 else 4)
    pads = (top, left, bottom, right)
    pixels = ((h + top + bottom) // sy + 1) * ((w + left + right) // sx + 1)
    oc = max(1, min(draw(1, 700), MOST_MACS // max(1, pixels * kh * kw * c)))
    if choice <= 1:
        return b.conv(x, oc, (kh, kw), (sy, sx), pads, (dy, dx))
    if choice == 2:
        return b.conv(x, oc, (1, 1), padding=(0, 0, 0, 0))
    if choice == 3:
        groups = int(rng.choice([g for g in range(1, c + 1) if c % g == 0]))
        most = max(1, min(700, MOST_MACS // max(1, pixels * kh * kw * c)) // groups)
        return b.conv(x, groups * int(rng.integers(1, min(most, 4) + 1)), (kh, kw), (sy, sx), pads, (dy, dx), groups)
    if choice == 4:
        return b.depthwise(x, (kh, kw), (sy, sx), pads, (dy, dx))
    if choice == 5:
        kind, other = PAIRWISE[int(rng.integers(len(PAIRWISE)))], alike[int(rng.integers(len(alike)))]
        rows, columns = (int(rng.integers(4)) == 0 for _ in range(2))
        if rows or columns:  # broadcast what is left of the other one
            other = b.max_pool(other, (h if rows else 1, w if columns else 1), (1, 1))
        return b.pairwise(kind, x, other)
    if choice == 6:
        size = (min(kh, h), min(kw, w))
        around = (min(top, size[0] - 1), min(left, size[1] - 1), min(bottom, size[0] - 1), min(right, size[1] - 1))
        return b.max_pool(x, size, (sy, sx), around)
    if choice == 7:
        size = (min(kh, h), min(kw, w))
        around = (top % size[0], left % size[1], bottom % size[0], right % size[1])
        return b.average_pool(x, size, (sy, sx), around)
    if choice == 8:
        return b.average_pool(x, (h, w))
    if choice == 9 and h * w * sum(b.shape(t)[3] for t in same) < 60_000:
        parts = [same[int(k)] for k in rng.integers(0, len(same), int(rng.integers(2, 6)))]
        return b.concat(*parts)
    if rng.integers(3) == 0:
        begin, steps = (draw(0, h - 1), draw(0, w - 1)), (draw(1, 3), draw(1, 3))
        room = [-(-(size - first) // step) for size, first, step in zip((h, w), begin, steps, strict=True)]
        return b.slice(x, begin, (draw(1, room[0]), draw(1, room[1])), steps)
    return b.requantize(x) if rng.integers(2) else b.pad(x, (draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)))


def random_config(seed: int) -> Config:
    """A valid Config, often with the least of some memory."""
    rng = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return 1 << int(rng.integers(low, high + 1))

    while True:
        try:
            return Config(
                name=f"random-{seed}", board="", batch=pick(0, 2) if rng.integers(4) == 0 else 1, block_in=pick(2, 5),
                block_out=pick(2, 5), act_bytes=pick(10, 17), act_banks=pick(1, 4), wgt_bytes=pick(10, 18),
                acc_bytes=pick(10, 17), acc_banks=pick(1, 3), prm_entries=pick(2, 7), uop_gemm_bytes=pick(9, 14),
                uop_alu_bytes=pick(9, 14), axi_bits=pick(5, 7), axi_version=4, burst_beats=pick(0, 5),
                outstanding=pick(0, 4), dram_latency=int(rng.integers(1, 80)), queue_depth=pick(1, 5),
                token_depth=int(rng.choice([1, 2, 3, 15, 63])), fetch_beats=pick(5, 8),
                dsp_packing=bool(rng.integers(2)),
            )  # fmt: skip
        except ConfigError:
            continue
