"""A window that has lost what meets padding alone has the same positions, and meets the same pixels."""

from __future__ import annotations

from itertools import product

import pytest

from tilewright.jit.layers.windows import meeting


def pixels(
    size: int, taps: range, stride: int, dilation: int, before: int, after: int, first: int
) -> list[dict[int, int]]:
    """Of each position the pixels that it meets, and by which tap of the whole window."""
    positions = max(0, (size + before + after - (len(taps) - 1) * dilation - 1) // stride + 1)
    met = [{p * stride - before + k * dilation: first + k for k in range(len(taps))} for p in range(positions)]
    return [{at: tap for at, tap in window.items() if 0 <= at < size} for window in met]


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_same_pixels_by_the_same_taps(stride: int, dilation: int) -> None:
    smaller = 0
    for size, taps, before, after in product(range(1, 7), range(1, 7), range(-2, 6), range(-2, 6)):
        whole = pixels(size, range(taps), stride, dilation, before, after, 0)
        if size + min(before, 0) + min(after, 0) < 1 or not whole:
            continue
        span = meeting(size, taps, stride, dilation, before, after)
        kept = range(taps)[span.taps]
        assert len(kept) == span.count, "no tap that the window has not"
        assert pixels(size, kept, stride, span.dilation, span.before, span.after, span.first) == whole
        smaller += span.count < taps
    assert smaller
