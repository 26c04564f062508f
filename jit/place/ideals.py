"""The ideals of an operator graph: sets that hold with each operator all that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.jit.place.problem import members


def ideals(needs: Sequence[int], most: int | None = None) -> list[int]:
    """All ideals as bit masks, each after those within it; some of them, more than ``most``, if there are more."""
    everything = (1 << len(needs)) - 1
    level, found = {0}, [0]
    while level:
        following: set[int] = set()
        for ideal in level:
            for v in members(everything & ~ideal):
                if needs[v] & ~ideal == 0:
                    following.add(ideal | 1 << v)
        found += sorted(following)
        if most is not None and len(found) > most:
            break
        level = following
    return found


def in_a_row(needs: Sequence[int]) -> tuple[int, ...]:
    """The needs with each operator after the one before it: a line, whose ideals are its beginnings."""
    return tuple(mask | (1 << k >> 1) for k, mask in enumerate(needs))
