"""A place in act for every buffer of a network that is cut into groups.

Places are static. Each buffer lives from the first to the last group that touches it; buffers that live in a
common group have disjoint places. The scheduler may run ahead into later groups, but a buffer comes to life
only when every buffer of an earlier group that has its place is dead. So the earliest unfinished group is never
blocked by a later one, and no schedule can get stuck.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tilewright.isa.spec import Engine
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.planner import Plan, Planner, act_refusal
from tilewright.jit.plan.refusal import Refusal

#: where a buffer finds no place in one piece, the groups it lives in get this much less room; so many times
_TIGHTER, _ATTEMPTS = 0.92, 80
#: weights of the reasons against a place: engines that share a bank; the last tenant in the group just before
_BANK, _RECENT = 20, (8, 2, 1)


@dataclass(frozen=True)
class Placed:
    """A plan whose buffers have places: the first unit of each, and the buffers whose death each place waits for."""

    plan: Plan
    base: list[int]
    after: list[list[int]]


class _Packing(IntEnum):
    """How the buffers that are born in a group get their places; the next one is tried where one fails."""

    BANKS = 0  #: where engines share fewest banks and the last tenant is long dead
    SIDES = 1  #: what only GEMM reads from the bottom, the others from the top
    BOTTOM = 2  #: all from the bottom


class _Home(NamedTuple):
    """A buffer that has a place: units ``base`` to ``end``, until group ``last``."""

    buffer: int
    last: int
    base: int
    end: int


def placed_plan(planner: Planner, share: float, slack: int) -> Placed | Refusal:
    """The plan in groups, with budgets low enough for every buffer to find a place."""
    if isinstance(planner.nodes, Refusal):
        return planner.nodes
    draft = planner.draft(share)
    packing = [_Packing.BANKS] * len(draft.budget)
    for _ in range(_ATTEMPTS):
        found = planner.grouped(share, slack, draft)
        if isinstance(found, Refusal):
            return found
        plan = found
        places = _Places(plan, packing)
        if not places.homeless:
            return Placed(plan, places.base, places.after)
        for group in places.homeless:
            if packing[group] == _Packing.BOTTOM:
                draft.budget[group] = int(draft.budget[group] * _TIGHTER)
            packing[group] = _Packing(min(packing[group] + 1, _Packing.BOTTOM))
        worst = max(places.homeless)
    return act_refusal(plan, worst, _needed(plan, worst))


def _needed(plan: Plan, group: int) -> int:
    rows = plan.bound.buffers
    live = rows[(rows[:, b.B_GROUP] <= group) & (rows[:, b.B_LAST_GROUP] >= group)]
    return int((live[:, b.B_CAPACITY] * live[:, b.B_UNITS]).sum())


class _Places:
    """Places for one plan; ``homeless``: groups with a buffer that found none."""

    def __init__(self, plan: Plan, packing: list[_Packing]) -> None:
        self._plan, self._packing = plan, packing
        self._rows = plan.bound.buffers.tolist()
        self._vector = plan.config.act_row_units
        self._engines = _engines(plan)
        self.base = [-1] * len(self._rows)
        self.after: list[list[int]] = [[] for _ in self._rows]
        self.homeless: set[int] = set()
        homes: list[_Home] = []
        rows = self._rows
        for k in sorted(
            range(len(rows)),
            key=lambda k: (rows[k][b.B_GROUP], rows[k][b.B_GROUP] - rows[k][b.B_LAST_GROUP], -self._size(k)),
        ):
            first, last = rows[k][b.B_GROUP], rows[k][b.B_LAST_GROUP]
            base = self._best_base(k, homes)
            if base is None:
                self.homeless |= set(range(first, last + 1))
                continue
            self.base[k], end = base, base + self._size(k)
            self.after[k] = [h.buffer for h in homes if h.last < first and h.base < end and base < h.end]
            homes.append(_Home(k, last, base, end))

    def _size(self, k: int) -> int:
        return self._rows[k][b.B_CAPACITY] * self._rows[k][b.B_UNITS]

    def _align(self, units: int) -> int:
        return -(-units // self._vector) * self._vector

    def _best_base(self, k: int, homes: list[_Home]) -> int | None:
        config, size, first, align = self._plan.config, self._size(k), self._rows[k][b.B_GROUP], self._align
        recent = [h for h in homes if h.last >= first - len(_RECENT)]
        taken = [(h.base, h.end) for h in recent if h.last >= first]
        bank, room = config.act_bank_units, config.act_units - size
        starts = {align(end) for end in [0, *(h.end for h in recent)]}
        starts |= {align(n * bank) for n in range(config.act_banks)}
        starts |= {(a - size) // self._vector * self._vector for a, _ in taken}
        starts.add(room // self._vector * self._vector)
        packing = self._packing[first]
        top = packing == _Packing.SIDES and not self._engines[k][1] <= {Engine.GEMM}
        side = -1 if top else 1
        best: tuple[int, int] | None = None
        for start in sorted(s for s in starts if 0 <= s <= room):
            end = start + size
            if any(a < end and start < stop for a, stop in taken):
                continue
            cost = start * side if packing else self._cost(k, start, end, recent)
            if best is None or cost < best[0]:
                best = (cost, start)
        return None if best is None else best[1]

    def _cost(self, k: int, start: int, end: int, recent: list[_Home]) -> int:
        bank, cost = self._plan.config.act_bank_units, 0
        first, mine = self._rows[k][b.B_GROUP], self._engines[k]
        low, high = start // bank, (end - 1) // bank
        for home in recent:
            if home.last < first:
                if home.base < end and start < home.end:
                    cost += _RECENT[first - home.last - 1]
            elif home.base // bank <= high and low <= (home.end - 1) // bank:
                cost += _BANK * (self._engines[home.buffer] != mine)
        return cost


def _engines(plan: Plan) -> list[tuple[bool, frozenset[Engine]]]:
    """For each buffer, whether LOAD writes it, and who reads it."""
    network, bound = plan.network, plan.bound
    gemm = network.layers[network.edges[:, t.E_LAYER], t.L_KIND] != t.ELEMENTWISE
    result = []
    for row in bound.buffers:
        edges = bound.readers[row[b.B_READ] : row[b.B_READ] + row[b.B_READS]]
        readers = {Engine.GEMM if by_gemm else Engine.ALU for by_gemm in np.unique(gemm[edges])}
        result.append((bool(row[b.B_LOADED]), frozenset(readers | ({Engine.STORE} if row[b.B_STORED] else set()))))
    return result
