"""The compiled search for places against one that tries every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.jit.plan.place_kernels import Packing, find_places
from tilewright.jit.plan.places import _Places

WEIGHTS = {1: 8, 2: 2, 3: 1}  #: groups since the last tenant died -> what speaks against its place


def naive(case: dict[str, Any]) -> list[int]:
    """Every aligned place of every buffer that the search may consider, with its cost."""
    row, room, banks = case["row"], case["room"], case["banks"]
    bank = room // banks
    homes: dict[int, set[int]] = {}  # buffer -> its units
    base = [-1] * len(case["order"])
    for k in case["order"]:
        size, now = int(case["size"][k]), int(case["first"][k])
        near = {h: units for h, units in homes.items() if case["last"][h] >= now - max(WEIGHTS)}
        edges = {0, *(n * bank for n in range(banks)), *(max(units) + 1 for units in near.values())}
        starts = {-(-edge // row) * row for edge in edges} | {(room - size) // row * row}
        starts |= {(min(u) - size) // row * row for h, u in near.items() if case["last"][h] >= now}
        costs = {}
        for start in starts:
            mine = set(range(start, start + size))
            alive = {h: units for h, units in near.items() if case["last"][h] >= now}
            if start < 0 or start + size > room or any(mine & units for units in alive.values()):
                continue
            packing = case["packing"][now]
            if packing != Packing.BANKS:
                costs[start] = -start if packing == Packing.SIDES and not case["low"][k] else start
                continue
            shared = [h for h, units in alive.items() if {u // bank for u in units} & {u // bank for u in mine}]
            dead = [h for h, units in near.items() if h not in alive and units & mine]
            costs[start] = 20 * sum(case["users"][h] != case["users"][k] for h in shared)
            costs[start] += sum(WEIGHTS[now - int(case["last"][h])] for h in dead)
        if costs:
            base[k] = min(costs, key=lambda start: (costs[start], start))
            homes[k] = set(range(base[k], base[k] + size))
    return base


@pytest.mark.parametrize("seed", range(40))
def test_places_are_those_of_a_search_through_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, row, banks = int(rng.integers(1, 40)), int(rng.choice([1, 2, 4])), int(rng.choice([2, 4, 8]))
    first = np.sort(rng.integers(0, 12, count))
    last = first + rng.integers(0, 4, count)
    case: dict[str, Any] = {
        "order": np.arange(count), "first": first, "last": last, "size": rng.integers(1, 40, count),
        "users": rng.integers(0, 3, count), "low": rng.integers(0, 2, count),
        "packing": rng.choice([int(p) for p in Packing], 20), "row": row, "banks": banks,
        "room": banks * row * int(rng.integers(4, 12)),
    }  # fmt: skip
    found = find_places(**case)
    assert found.tolist() == naive(case)
    assert (found >= 0).any() or (case["size"] > case["room"]).any()


@pytest.mark.parametrize("seed", range(10))
def test_a_place_waits_for_the_death_of_all_who_were_there(seed: int) -> None:
    """Neighbours that touch share nothing, and who lives still has another place."""
    rng = np.random.default_rng(seed)
    places = object.__new__(_Places)
    places._first = np.sort(rng.integers(0, 6, 24))
    places._last = places._first + rng.integers(0, 3, 24)
    places._size, places.base = rng.integers(1, 5, 24), rng.integers(0, 12, 24)
    places._order = np.arange(24)
    units = [set(range(base, base + size)) for base, size in zip(places.base, places._size, strict=True)]
    touching = 0
    for k, waits in enumerate(places.after()):
        before = [other for other in range(k) if places._last[other] < places._first[k]]
        assert waits == [other for other in before if units[other] & units[k]]
        touching += sum(
            max(units[other]) + 1 == min(units[k]) or max(units[k]) + 1 == min(units[other]) for other in before
        )
    assert touching > 3
