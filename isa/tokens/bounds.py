"""No token queue holds more than it can: tokens that would not fit are taken early.

A token is popped by the instruction that needs it. Where a queue is full in program order, a WAIT of one cycle on
the consuming engine takes the oldest token at once, and the later instruction, which comes after that WAIT on its
engine, no longer pops. Program order stays a valid execution, so nothing can wait for ever.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.spec import Engine, others, token_bit


def bound_tokens(
    engines: NDArray[np.int64], pops: NDArray[np.uint8], pushes: NDArray[np.uint8], depth: int
) -> tuple[NDArray[np.uint8], list[tuple[int, int, int]]]:
    """What instructions on these engines pop so that every queue holds at most ``depth`` tokens, and the WAITs for it:
    each the instruction before which it stands, its engine, and the token bit that it pops."""
    held: Counter[tuple[int, int]] = Counter()
    early: Counter[tuple[int, int]] = Counter()  #: taken before the instruction that pops them
    left, waits = pops.copy(), []
    busy = np.flatnonzero(pops | pushes)
    for index, own, pop, push in zip(
        *(x.tolist() for x in (busy, engines[busy], pops[busy], pushes[busy])), strict=True
    ):
        for other, bit in _OTHERS[own]:
            if pop & bit and early[other, own]:
                early[other, own] -= 1
                left[index] &= ~bit & 7
            elif pop & bit:
                held[other, own] -= 1
        for other, bit in _OTHERS[own]:
            if not push & bit:
                continue
            if held[own, other] == depth:
                waits.append((index, other, token_bit(Engine(other), Engine(own))))
                early[own, other] += 1
                held[own, other] -= 1
            held[own, other] += 1
    return left, waits


#: by engine: the others, and the bit of their tokens
_OTHERS = [[(int(o), token_bit(e, o)) for o in others(e)] for e in Engine]
