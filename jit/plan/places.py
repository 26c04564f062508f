"""A place in act for every buffer of a network that is cut into groups.

Places are static. Each buffer lives from the first to the last group that touches it; buffers that live in a
common group have disjoint places. The scheduler may run ahead into later groups, but a buffer comes to life
only when every buffer of an earlier group that has its place is dead. So the earliest unfinished group is never
blocked by a later one, and no schedule can get stuck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.isa.spec import Engine
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.place_kernels import Packing, find_places
from tilewright.jit.plan.planner import Plan, Planner, act_refusal
from tilewright.jit.plan.refusal import Refusal

#: where a buffer finds no place in one piece, the groups it lives in get this much less room; so many times
_TIGHTER, _ATTEMPTS = 0.92, 80


@dataclass(frozen=True)
class Placed:
    """A plan whose buffers have places: the first unit of each, and the buffers whose death each place waits for."""

    plan: Plan
    base: list[int]
    after: list[list[int]]


def placed_plan(planner: Planner, share: float, slack: int) -> Placed | Refusal:
    """The plan in groups, with budgets low enough for every buffer to find a place."""
    if isinstance(planner.nodes, Refusal):
        return planner.nodes
    draft = planner.draft(share)
    packing = [Packing.BANKS] * len(draft.budget)
    for _ in range(_ATTEMPTS):
        found = planner.grouped(share, slack, draft)
        if isinstance(found, Refusal):
            return found
        plan = found
        places = _Places(plan, packing)
        if not places.homeless:
            return Placed(plan, places.base.tolist(), places.after())
        for group in places.homeless:
            if packing[group] == Packing.BOTTOM:
                draft.budget[group] = int(draft.budget[group] * _TIGHTER)
            packing[group] = Packing(min(packing[group] + 1, Packing.BOTTOM))
        worst = max(places.homeless)
    return act_refusal(plan, worst, _needed(plan, worst))


def _needed(plan: Plan, group: int) -> int:
    rows = plan.bound.buffers
    live = rows[(rows[:, b.B_GROUP] <= group) & (rows[:, b.B_LAST_GROUP] >= group)]
    return int((live[:, b.B_CAPACITY] * live[:, b.B_UNITS]).sum())


class _Places:
    """Places for one plan; ``homeless``: groups with a buffer that found none."""

    def __init__(self, plan: Plan, packing: list[Packing]) -> None:
        rows, config = plan.bound.buffers, plan.config
        self._first, self._last = rows[:, b.B_GROUP].astype(np.int64), rows[:, b.B_LAST_GROUP].astype(np.int64)
        self._size = (rows[:, b.B_CAPACITY] * rows[:, b.B_UNITS]).astype(np.int64)
        self._order = np.lexsort((-self._size, self._first - self._last, self._first))
        engines = _engines(plan)
        kinds = {one: number for number, one in enumerate(dict.fromkeys(engines))}
        self.base = find_places(
            self._order, self._first, self._last, self._size, np.array([kinds[one] for one in engines], np.int64),
            np.array([readers <= {Engine.GEMM} for _, readers in engines], np.int64),
            np.array(packing, np.int64), config.act_row_units, config.act_banks, config.act_units,
        )  # fmt: skip
        self.homeless = {
            group for k in np.flatnonzero(self.base < 0) for group in range(self._first[k], self._last[k] + 1)
        }

    def after(self) -> list[list[int]]:
        """For each buffer those whose death its place waits for, where all have one."""
        end = self.base + self._size
        found: list[list[int]] = [[] for _ in self.base]
        for position, k in enumerate(self._order):
            others = self._order[:position]
            waits = (self.base[others] < end[k]) & (end[others] > self.base[k]) & (self._last[others] < self._first[k])
            found[k] = others[waits].tolist()
        return found


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
