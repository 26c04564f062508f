"""Numbers cut into ranges: of layers into chunks, of rows into parts, of images into tiles."""

from __future__ import annotations

from itertools import pairwise


def split_evenly(count: int, limit: int) -> list[tuple[int, int]]:
    """``[lo, hi)`` ranges that cover ``count`` in the fewest pieces of at most ``limit``, sizes near equal."""
    return split_into(count, -(-count // max(1, limit)))


def split_into(count: int, pieces: int) -> list[tuple[int, int]]:
    """``[lo, hi)`` ranges that cover ``count`` in so many pieces, sizes near equal."""
    return list(pairwise(count * i // pieces for i in range(pieces + 1)))
