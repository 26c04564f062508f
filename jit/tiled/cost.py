"""Which cut of a layer is fastest: all of them are tried, from those that take least apart on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.config import Config
from tilewright.jit.tiled.geometry import Cut
from tilewright.jit.tiled.judge import (
    WINDOW,
    LayerShape,
    ceil_div,
    chunk_sizes,
    judge,
    judge_alone,
    machine,
    most_blocks,
)
from tilewright.jit.tiled.judge import Layer as _L
from tilewright.jit.tiled.native import compiled


class Chosen(NamedTuple):
    """A cut, the parts of act for it, and the cycles it is thought to take.

    Patches lie in [low, split), results in [split, middle) at multiples of ``slot`` from ``split`` on, what followers
    read beside them in [middle, high).
    """

    cut: Cut
    low: int
    split: int
    middle: int
    high: int
    slot: int
    cycles: float
    array: float  #: of them GEMM's
    alu: float
    bus: float


def choose(shape: LayerShape, plan: Config, config: Config, banks: tuple[int, int] | None = None) -> Chosen | None:
    """The best cut for the memories of ``plan``, at most ``config``'s, judged on ``config``; None if none fits.

    ``banks``: first bank of act and the one behind the last that the layer may use; None for all.
    """
    cut = np.zeros(7, np.int64)
    best = best_cut(*shape, machine(plan, banks), False, cut)
    if best[0] < 0:
        return None
    if plan != config:
        best = judge_alone(*shape, machine(config, banks), cut)
    cycles, split, middle, slot, array, alu, bus = best
    rows, columns, vectors, parts, kernel_rows, kernel_columns, first = cut.tolist()
    low, high = (bank * config.act_bank_units for bank in banks or (0, config.act_banks))
    return Chosen(
        Cut(rows, columns, vectors, parts, kernel_rows, kernel_columns, bool(first)), low, low + int(split),
        low + int(middle), high, int(slot), float(cycles), float(array), float(alu), float(bus),
    )  # fmt: skip


@compiled
def _sizes(count: int) -> Any:
    """Sizes to try: the whole, halves of it, down to 1."""
    found = np.zeros(64, np.int64)
    used, pieces = 0, 1
    while True:
        size = ceil_div(count, pieces)
        if used == 0 or size != found[used - 1]:
            found[used] = size
            used += 1
        if size <= 1:
            return found[:used]
        pieces *= 2


@compiled
def best_cut(row: Any, blocks: Any, units: Any, m: Any, coarse: bool, cut: Any) -> Any:
    """What :func:`judge` returns, of the cut that takes the least cycles, which ``cut`` takes.

    Cuts come by how much they take apart; the first level with one that fits is enough. ``coarse``: the first level
    alone, with whole rows of pixels.
    """
    rows, columns, vectors = _sizes(row[_L.HEIGHT]), _sizes(row[_L.WIDTH]), _sizes(row[_L.VECTORS])
    kernel_y, kernel_x = _sizes(row[_L.KERNEL_Y]), _sizes(row[_L.KERNEL_X])
    parts = _sizes(most_blocks(row, blocks))
    chunks = np.zeros(5, np.int64)
    trial = np.zeros(7, np.int64)
    best = (-1.0, 0, 0, 0, 0, 0, 0.0)
    window = row[_L.KIND] == WINDOW
    for level in range(1 if window or coarse else 4):
        n_parts = 1 if window else min(3, len(parts)) if level == 0 else len(parts)
        n_kernels = 1 if coarse else len(kernel_y) if window else len(kernel_x) if level == 3 else 1
        found_at = 1 << 60
        for v in range(len(vectors)):
            for b in range(n_parts):
                chunk_sizes(row, blocks, units, m, vectors[v], parts[b], chunks)
                for k in range(n_kernels):
                    ky = kernel_y[k] if window else row[_L.KERNEL_Y] if level < 2 else 1
                    kx = kernel_x[k] if level == 3 else row[_L.KERNEL_X]
                    for r in range(len(rows)):
                        for x in range(1 if coarse else len(columns)):
                            whole = rows[r] == row[_L.HEIGHT] and columns[x] == row[_L.WIDTH]
                            for first in range(1 if whole or v == 0 else 2):  # which comes first matters with several
                                trial[0], trial[1], trial[2], trial[3] = rows[r], columns[x], vectors[v], parts[b]
                                trial[4], trial[5], trial[6] = ky, kx, first
                                judged = judge(row, m, trial, chunks)
                                if judged[0] < 0:
                                    continue
                                at = ((((x * 64 + r) * 64 + v) * 64 + b) * 64 + k) * 2 + first
                                if best[0] < 0 or judged[0] < best[0] or (judged[0] == best[0] and at < found_at):
                                    best, found_at = judged, at
                                    cut[:] = trial
        if best[0] >= 0:
            break
    return best
