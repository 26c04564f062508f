"""A plan for networks larger than the chip: groups, what goes through DRAM, and a place in act for every buffer.

The plan is static. Each buffer lives from the first to the last group that touches it; buffers that live in a
common group have disjoint places. The scheduler may run ahead into later groups, but a buffer comes to life
only when every buffer of an earlier group that has its place is dead. So the earliest unfinished group is never
blocked by a later one, and no schedule can get stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tilewright.config import Config
from tilewright.isa.spec import Engine
from tilewright.jit.groups import group_nodes
from tilewright.jit.kernels.base import PlaceError
from tilewright.jit.layout import Buffer, origin
from tilewright.jit.rings import RingSizes
from tilewright.jit.tensors import Lowered, Spill

#: where a buffer finds no place in one piece, the groups it lives in get this much less room; so many times
_TIGHTER, _ATTEMPTS = 0.92, 80
#: weights of the reasons against a place: engines that share a bank; the last tenant in the group just before
_BANK, _RECENT = 20, (8, 2, 1)


@dataclass
class Plan:
    """``after``: for each buffer, those whose death its place waits for; ``groups``: (first, last) node of each."""

    groups: list[tuple[int, int]]
    after: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Span:
    first: int
    last: int


class _Home(NamedTuple):
    """A buffer that has a place: units ``base`` to ``end``, until group ``last``."""

    name: str
    last: int
    base: int
    end: int


def make_plan(lowered: Lowered, config: Config, stored: list[str], share: float, most_slack: int) -> Plan:
    """Bind tensors, set every buffer's capacity and base. Raises :class:`PlaceError` if the chip is too small.

    ``share`` of wgt and prm bounds the constants of one group; ``most_slack`` the spare rows of rings.
    """
    lowered.bind({})
    rings = RingSizes(lowered.nodes, lowered.buffers)
    planner = _Planner(lowered, config, group_nodes(rings, config, share), stored, most_slack, rings)
    for _ in range(_ATTEMPTS):
        planner.fit()
        after = planner.place()
        if after is not None:
            return Plan(planner.groups, after)
    raise planner.failure()


class _Packing(IntEnum):
    """How the buffers that are born in a group get their places; the next one is tried where one fails."""

    BANKS = 0  #: where engines share fewest banks and the last tenant is long dead
    SIDES = 1  #: what only GEMM reads from the bottom, the others from the top
    BOTTOM = 2  #: all from the bottom


class _Planner:
    """``fit`` sends tensors through DRAM until every group has its budget; ``place`` lowers budgets if it fails."""

    def __init__(
        self, lowered: Lowered, config: Config, groups: list[tuple[int, int]], stored: list[str], most_slack: int,
        rings: RingSizes,
    ) -> None:  # fmt: skip
        self.lowered, self.config, self.groups, self.stored = lowered, config, groups, stored
        self.rings = rings
        self._vector = max(config.in_units, config.out_units)
        self.spilled: dict[str, Spill] = {}
        self.budget = [config.act_units] * len(groups)
        self.group_of = [g for g, (first, last) in enumerate(groups) for _ in range(first, last + 1)]
        self.most_slack = most_slack
        self.packing = [_Packing.BANKS] * len(groups)
        self._bind()

    def fit(self) -> None:
        """Choose spills and capacities within the budgets. Raises :class:`PlaceError` if act is too small."""
        for buffer_name, least in self.least.items():
            self.lowered.buffers[buffer_name].capacity = least
        hopeless: set[int] = set()
        while (worst := self._worst(hopeless)) is not None:
            choice = self._choose(worst)
            if choice is None:
                if self._need(worst) > self.config.act_units:
                    raise self.failure()
                hopeless.add(worst)
                continue
            self.spilled[choice[0]] = choice[1]
            self._bind()
        self._set_slacks()

    def _bind(self) -> None:
        lowered = self.lowered
        lowered.bind(self.spilled)
        self.rings = RingSizes(lowered.nodes, lowered.buffers, self.rings)
        self._users: dict[str, tuple[bool, frozenset[Engine]]] = {}
        self.spans: dict[str, _Span] = {}
        self.live: list[list[str]] = [[] for _ in self.groups]
        self.least: dict[str, int] = {}
        for name, buffer in lowered.buffers.items():
            uses = [*self.rings.producers[name], *(i for i, _ in self.rings.consumers[name])]
            span = _Span(min(self.group_of[i] for i in uses), max(self.group_of[i] for i in uses))
            self.spans[name] = span
            for group in range(span.first, span.last + 1):
                self.live[group].append(name)
            if span.first == span.last or name in lowered.packs:
                first, last = self.groups[span.first][0], self.groups[span.last][1]
                self.least[name] = self.rings.least(name, first, last)
            else:
                self.least[name] = buffer.rows
            buffer.capacity = self.least[name]

    def _need(self, group: int) -> int:
        return sum(self._align(self.lowered.buffers[name].size) for name in self.live[group])

    def _align(self, units: int) -> int:
        return -(-units // self._vector) * self._vector

    def _worst(self, hopeless: set[int]) -> int | None:
        sizes = {name: self._align(buffer.size) for name, buffer in self.lowered.buffers.items()}
        excess = {
            g: sum(sizes[name] for name in self.live[g]) - self.budget[g]
            for g in range(len(self.groups))
            if g not in hopeless
        }
        worst = max(excess, key=excess.__getitem__, default=None)
        return worst if worst is not None and excess[worst] > 0 else None

    def _choose(self, group: int) -> tuple[str, Spill] | None:
        """The tensor to send through DRAM: untouched ones first, then what frees most for least traffic."""
        choices: list[tuple[bool, int, str, Spill]] = []
        for name in self.live[group]:
            span, tensor = self.spans[name], origin(name)
            if span.first == span.last or self.spilled.get(tensor) == "all" or name in self.lowered.packs:
                continue
            left = self._spilled_size(name, group)
            gain = self.lowered.buffers[name].size - left
            if gain > 0:
                again = len(self.rings.consumers[name]) - 1  # it is loaded once for each reader
                traffic = again * self.lowered.buffers[name].size // 4
                choices.append((left == 0, gain - traffic, tensor, "alu" if name != tensor else "all"))
        return max(choices)[2:] if choices else None

    def _spilled_size(self, name: str, group: int) -> int:
        """Units that a tensor that goes through DRAM still takes while a group runs."""
        first, last = self.groups[group]
        readers = [i for i, _ in self.rings.consumers[name] if first <= i <= last]
        rows = sum(self.rings.least(name, i, i) for i in readers)
        if name == origin(name) and any(first <= i <= last for i in self.rings.producers[name]):
            rows += self.rings.made_rows(name)
        return rows * self.lowered.buffers[name].stride

    def _set_slacks(self) -> None:
        """Give the rings of each group spare rows in turn, short rows first, as long as the budget allows."""
        for group, live in enumerate(self.live):
            rings = [self.lowered.buffers[n] for n in live if self.spans[n].first == self.spans[n].last]
            rings.sort(key=lambda b: b.stride)
            need = self._need(group)
            for slack in range(1, self.most_slack + 1):
                grew = False
                for buffer in rings:
                    rows = min(buffer.rows, self.least[buffer.tensor] + slack)
                    grown = need + self._align(rows * buffer.stride) - self._align(buffer.size)
                    if grown <= self.budget[group] and rows != buffer.capacity:
                        buffer.capacity, need, grew = rows, grown, True
                if not grew:  # nor will any for more rows
                    break

    # -- places ----------------------------------------------------------------------------------------

    def place(self) -> dict[str, list[str]] | None:
        """A base for every buffer; returns what each must wait for, or None if some buffer finds no place."""
        buffers = self.lowered.buffers
        placed: list[_Home] = []
        after: dict[str, list[str]] = {}
        homeless: set[int] = set()
        spans = self.spans
        order = sorted(buffers, key=lambda n: (spans[n].first, spans[n].first - spans[n].last, -buffers[n].size))
        for name in order:
            base = self._best_base(name, placed)
            if base is None:
                homeless |= set(range(spans[name].first, spans[name].last + 1))
                continue
            buffers[name].base, end = base, base + buffers[name].size
            first = spans[name].first
            after[name] = [h.name for h in placed if h.last < first and h.base < end and base < h.end]
            placed.append(_Home(name, spans[name].last, base, end))
        for group in homeless:
            if self.packing[group] == _Packing.BOTTOM:
                self.budget[group] = int(self.budget[group] * _TIGHTER)
            self.packing[group] = _Packing(min(self.packing[group] + 1, _Packing.BOTTOM))
        return None if homeless else after

    def _best_base(self, name: str, placed: list[_Home]) -> int | None:
        size, span, align = self.lowered.buffers[name].size, self.spans[name], self._align
        recent = [h for h in placed if h.last >= span.first - len(_RECENT)]
        taken = [(h.base, h.end) for h in recent if h.last >= span.first]
        bank, room = self.config.act_bank_units, self.config.act_units - size
        starts = {align(end) for end in [0, *(h.end for h in recent)]}
        starts |= {align(k * bank) for k in range(self.config.act_banks)}
        starts |= {(a - size) // align(1) * align(1) for a, _ in taken}
        starts.add(room // align(1) * align(1))
        packing = self.packing[span.first]
        top = packing == _Packing.SIDES and not self._engines(name)[1] <= {Engine.GEMM}
        side = -1 if top else 1
        best: tuple[int, int] | None = None
        for start in sorted(s for s in starts if 0 <= s <= room):
            end = start + size
            if any(a < end and start < b for a, b in taken):
                continue
            cost = start * side if packing else self._cost(name, start, end, recent)
            if best is None or cost < best[0]:
                best = (cost, start)
        return None if best is None else best[1]

    def _cost(self, name: str, start: int, end: int, recent: list[_Home]) -> int:
        bank, cost = self.config.act_bank_units, 0
        first, mine = self.spans[name].first, self._engines(name)
        low, high = start // bank, (end - 1) // bank
        for home in recent:
            if home.last < first:
                if home.base < end and start < home.end:
                    cost += _RECENT[first - home.last - 1]
            elif home.base // bank <= high and low <= (home.end - 1) // bank:
                cost += _BANK * (self._engines(home.name) != mine)
        return cost

    def _engines(self, name: str) -> tuple[bool, frozenset[Engine]]:
        """Whether LOAD writes a buffer, and who reads it."""
        if name not in self._users:
            nodes = self.lowered.nodes
            readers = {Engine.GEMM if nodes[i].uses_gemm else Engine.ALU for i, _ in self.rings.consumers[name]}
            if name in self.stored or name in self.lowered.spills.values():
                readers.add(Engine.STORE)
            self._users[name] = name in self.lowered.spills or name in self.lowered.packs, frozenset(readers)
        return self._users[name]

    def failure(self) -> PlaceError:
        """What does not fit, where, and the way out."""
        group = max(range(len(self.groups)), key=self._need)
        first, last = self.groups[group]
        names = ", ".join(node.name for node in self.lowered.nodes[first : last + 1])
        held = sorted(self.live[group], key=lambda n: -self.lowered.buffers[n].size)
        sizes = ", ".join(f"{n} {self._describe(self.lowered.buffers[n])}" for n in held[:4])
        return PlaceError(
            f"{names}: {self._need(group)} units of act are needed at once, there are {self.config.act_units} "
            f"({self.config.act_bytes} bytes); the largest are {sizes}; raise act_bytes"
        )

    def _describe(self, buffer: Buffer) -> str:
        return f"({buffer.capacity} rows of {buffer.stride} units)"
