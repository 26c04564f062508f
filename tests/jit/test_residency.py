"""Where blocks go, against the rule written out: of all places the one whose blocks are wanted again last."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from tilewright.jit.tiled.residency import Residency, Wanted

REGIONS = ((0, 24), (24, 64), (0, 64))
SLOTS = (1, 2, 4)


class Plain:
    """The same memory, every place looked at."""

    def __init__(self, again: dict[Hashable, float]) -> None:
        self.again, self.kept = again, list[Hashable]()
        self.held: dict[Hashable, tuple[int, int]] = {}
        self.turn: dict[tuple[int, int], int] = {}

    def place(self, block: Wanted, beside: list[tuple[int, int]]) -> int | None:
        """The first of the best places from the turn on around the region."""
        low, high = block.region
        turn = block.up(self.turn.get(block.region, low))
        ends = [b for a, b in self.held.values() if b > low and a < high]
        free = [low, *(b for _, b in beside if b > low)]
        places = {turn, *map(block.up, ends), *map(block.up, free)}
        found = []
        for start in places:
            stop = start + block.size
            if start < low or stop > high or any(b > start and a < stop for a, b in beside):
                continue
            gone = [self.again[key] for key, (a, b) in self.held.items() if b > start and a < stop]
            found.append((-min(gone, default=float("inf")), start < turn, start))
        return min(found)[2] if found else None

    def take(self, wanted: list[Wanted]) -> tuple[dict[Hashable, int], list[Hashable]] | None:
        """As :meth:`Residency.take`."""
        places = {block.key: self.held[block.key][0] for block in wanted if block.key in self.held}
        missing = [block for block in wanted if block.key not in places]
        stay = [self.held[key] for key in (*self.kept, *places) if key in self.held]
        for block in missing:
            start = self.place(block, stay)
            if start is None:
                return None
            places[block.key] = start
            stay.append((start, start + block.size))
        for block in missing:
            start, stop = places[block.key], places[block.key] + block.size
            self.held = {k: (a, b) for k, (a, b) in self.held.items() if b <= start or a >= stop}
            self.held[block.key] = start, stop
            self.turn[block.region] = stop
        return places, [block.key for block in missing]


@pytest.mark.parametrize("seed", range(40))
def test_places_are_those_of_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    keys = [f"k{n}" for n in range(20)]
    regions = REGIONS[:2] if seed % 2 else REGIONS
    blocks = {key: Wanted(key, rng.randint(1, 12), rng.choice(regions), rng.choice(SLOTS)) for key in keys}
    again: dict[Hashable, float] = {key: rng.choice([1.0, 2.0, 3.0, float("inf")]) for key in keys}
    memory, plain = Residency(again.__getitem__), Plain(again)
    taken = refused = 0
    for _ in range(200):
        wanted = [blocks[key] for key in rng.sample(keys, rng.choice([1, 1, 2, 3]))]
        found = memory.take(wanted)
        assert found == plain.take(wanted)
        taken, refused = taken + (found is not None), refused + (found is None)
        if found is not None and rng.random() < 0.4:
            memory.keep(block.key for block in wanted)
            plain.kept += [block.key for block in wanted]
        if plain.kept and (rng.random() < 0.5 or found is None):
            gone = rng.sample(plain.kept, rng.randint(1, len(plain.kept)))
            memory.release(gone)
            for key in gone:
                plain.kept.remove(key)
        again[rng.choice(keys)] = rng.choice([1.0, 2.0, 3.0, float("inf")])
    assert taken > 50
    assert refused or seed
