"""The order of a network's work: stretches on the accelerator, in NumPy, and in the interpreter of the model file.

Stretches are as large as dependencies allow; a recurrent layer, whose program takes all of the chip, is one alone.
Operators that share a variable (``Interpreted.state``) run in one stretch, together with all that lies between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.jit import graph as g
from tilewright.jit.errors import NeedsHost
from tilewright.jit.graph import Graph, Op

Kind = Literal["accelerator", "alone", "numpy", "interpreter"]
PartOf = Callable[[Op], int | None]  #: the number of an operator's part; None: that of what it reads

_BETWEEN = "lies between the reads and writes of one variable, which one interpreter keeps"


@dataclass(frozen=True)
class Stage:
    """A stretch of operators of one kind, in an order in which they can run."""

    kind: Kind
    ops: list[Op]


def stages(graph: Graph, place: Mapping[str, str]) -> list[Stage]:
    """Stretches in execution order; ``place`` says for each operator's name ``host`` or ``accelerator``.

    Raises :class:`NeedsHost` for accelerator operators that lie between the uses of one variable.
    """
    waiting = _units(graph, place)
    done = set(graph.inputs)
    result: list[Stage] = []
    phase: Kind = "interpreter"
    idle = 0
    while waiting:
        taken = sum(_take(waiting, kind, done, result) for kind in ("numpy", "alone", phase))
        if not taken:
            phase = "accelerator" if phase == "interpreter" else "interpreter"
            idle += 1
            if idle > 2:
                raise _stuck(waiting)
        else:
            idle = 0
    return result


def stages_of_parts(graph: Graph, place: Mapping[str, str], part_of: PartOf) -> list[Stage]:
    """Parts in the order of their numbers, each cut where the kind changes; operators in the graph's order."""
    parts: dict[str, int] = {}
    for op in graph.ops:
        part = part_of(op)
        before = [parts[producer.name] for t in op.inputs if (producer := graph.producer(t)) is not None]
        parts[op.name] = max(before, default=0) if part is None else part
    result: list[Stage] = []
    last: tuple[int, Kind] | None = None
    for op in sorted(graph.ops, key=lambda op: parts[op.name]):
        key = parts[op.name], kind_of(op, place)
        if key != last or key[1] == "alone":
            result.append(Stage(key[1], []))
        result[-1].ops.append(op)
        last = key
    return result


def _take(waiting: list[_Unit], kind: Kind, done: set[str], result: list[Stage]) -> int:
    """Move what can run now into a stage of its own; how many operators that were."""
    found = _ready(waiting, kind, done)
    if kind == "alone":
        result += [Stage(kind, [op]) for op in found]
    elif found:
        result.append(Stage(kind, found))
    return len(found)


@dataclass(frozen=True)
class _Unit:
    """Operators that must run together."""

    kind: Kind
    ops: list[Op]

    @property
    def needs(self) -> set[str]:
        made = {t for op in self.ops for t in op.outputs}
        return {t for op in self.ops for t in op.inputs} - made


def _ready(waiting: list[_Unit], kind: Kind, done: set[str]) -> list[Op]:
    found: list[Op] = []
    again = True
    while again:
        again = False
        for unit in list(waiting):
            if unit.kind == kind and unit.needs <= done:
                waiting.remove(unit)
                found += unit.ops
                done |= {t for op in unit.ops for t in op.outputs}
                again = True
    return found


def kind_of(op: Op, place: Mapping[str, str]) -> Kind:
    """Where an operator runs."""
    if isinstance(op, g.Interpreted):
        return "interpreter"
    if place[op.name] != "accelerator":
        return "numpy"
    return "alone" if op.alone else "accelerator"


def _units(graph: Graph, place: Mapping[str, str]) -> list[_Unit]:
    together = _groups(graph)
    units: list[_Unit] = []
    seen: set[str] = set()
    for op in graph.ops:
        if op.name in seen:
            continue
        members = together.get(op.name, [op])
        seen |= {m.name for m in members}
        outside = [m for m in members if not isinstance(m, g.Interpreted)] if len(members) > 1 else []
        if outside:
            raise NeedsHost({i: _BETWEEN for m in outside for i in m.covers}, f"{outside[0].name}: {_BETWEEN}")
        units.append(_Unit(kind_of(members[0], place), members))
    return units


def _groups(graph: Graph) -> dict[str, list[Op]]:
    """By operator, all operators of its group: users of a common variable, and what lies on paths between them."""
    users: dict[str, set[int]] = {}
    for index, op in enumerate(graph.ops):
        for key in op.state if isinstance(op, g.Interpreted) else ():
            users.setdefault(key, set()).add(index)
    if not users:
        return {}
    before = _ancestors(graph)
    groups = list(users.values())
    merged = True
    while merged:
        merged = False
        groups = [_closed(group, before) for group in groups]
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                if groups[a] & groups[b]:
                    groups[a] |= groups.pop(b)
                    merged = True
                    break
            if merged:
                break
    result: dict[str, list[Op]] = {}
    for group in groups:
        members = [graph.ops[i] for i in sorted(group)]
        result |= {op.name: members for op in members}
    return result


def _closed(group: set[int], before: list[set[int]]) -> set[int]:
    """The group with every operator that comes after one of its members and before another."""
    earlier = set().union(*(before[i] for i in group))
    return group | {i for i in earlier if before[i] & group}


def _ancestors(graph: Graph) -> list[set[int]]:
    made: dict[str, int] = {}
    before: list[set[int]] = []
    for index, op in enumerate(graph.ops):
        direct = {made[t] for t in op.inputs if t in made}
        before.append(direct.union(*(before[i] for i in direct)))
        made |= dict.fromkeys(op.outputs, index)
    return before


def _stuck(waiting: Iterable[_Unit]) -> NeedsHost:
    """Groups of variables that wait for each other through the accelerator: all of it to the interpreter."""
    ops = [op for unit in waiting for op in unit.ops if not isinstance(op, g.Interpreted)]
    reason = "lies between variables that need each other's interpreter"
    return NeedsHost({i: reason for op in ops for i in op.covers}, f"{ops[0].name}: {reason}" if ops else reason)


def idle_islands(graph: Graph) -> dict[int, str]:
    """Operators without multiply-accumulates whose neighbours the interpreter runs: cheaper left there too.

    A connected island of such operators costs a launch and two copies and computes nothing that counts. By position
    in the model file, the reason.
    """
    foreign = [op for op in graph.ops if isinstance(op, g.Interpreted)]
    given, taken = {t for op in foreign for t in op.outputs}, {t for op in foreign for t in op.inputs}
    if not foreign:
        return {}
    own = [op for op in graph.ops if not isinstance(op, g.Interpreted)]
    parent = {op.output: op.output for op in own}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for op in own:
        for tensor in op.inputs:
            if tensor in parent:
                parent[root(tensor)] = root(op.output)
    working = {root(op.output) for op in own if op.macs(graph)}
    touching = {root(op.output) for op in own if op.output in taken or given & set(op.inputs)}
    reason = "no multiply-accumulates, between operators of the interpreter"
    idle = touching - working
    return {i: reason for op in own if root(op.output) in idle for i in op.covers}
