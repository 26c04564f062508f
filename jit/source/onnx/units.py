"""What has to stay together: stretches of the prepared graph between 8-bit tensors.

A float node means what ONNX Runtime makes of it together with the DequantizeLinear nodes ahead of it and the
QuantizeLinear nodes behind it; so the graph is cut at 8-bit tensors alone, and each unit is lowered or interpreted as
a whole. The units are the parts that are connected through other tensors. Where they would wait for each other, nodes
are units of their own, which ONNX Runtime runs with the same kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from tilewright.jit.source.onnx.prepared import Node, Prepared
from tilewright.jit.source.operators import onnx_row

_TRIED = 8  #: sets that are taken apart, the largest first


@dataclass
class Unit:
    """Nodes in order; ``inputs``, ``outputs``: the tensors it exchanges with the others and with the user.

    ``covers``: positions in the file, no two units have one in common; ``lead``: the position that it is named after.
    """

    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    covers: set[int] = field(default_factory=set)
    lead: int = -1


def is_dequantised(prepared: Prepared, node: Node) -> bool:
    """Whether a node is a DequantizeLinear to float32 with constant scale, of a constant or an 8-bit tensor."""
    if any(prepared.types[t][0] != "float32" for t in node.makes):
        return False
    if node.kind != "DequantizeLinear" or any(t not in prepared.constants for t in node.inputs[1:] if t):
        return False
    return node.inputs[0] in prepared.constants or prepared.is_eight_bit(node.inputs[0])


def otherwise_quantised(prepared: Prepared, unit: Unit) -> str | None:
    """In which way a unit is quantised that the accelerator has not; None for others."""
    if any(node.kind.startswith("DynamicQuantize") for node in unit.nodes):
        return "dynamic quantisation: scales that are computed for every input"
    made = (prepared.types[t][0] for node in unit.nodes for t in node.makes)
    wide = next((dtype for dtype in made if dtype in ("int16", "uint16")), None)
    return None if wide is None else f"activations quantised to {wide}; the accelerator's have 8 bits"


class _Sets:
    """Disjoint sets of node indices."""

    def __init__(self, indices: Iterable[int]) -> None:
        self._parent = {i: i for i in indices}

    def copy(self) -> _Sets:
        made = _Sets(())
        made._parent = dict(self._parent)
        return made

    def groups(self, nodes: Iterable[Node]) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in nodes:
            found.setdefault(self.find(node.index), []).append(node)
        return found

    def find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, a: int, b: int) -> None:
        first, second = sorted((self.find(a), self.find(b)))
        self._parent[second] = first

    def join_all(self, nodes: list[Node]) -> None:
        for node in nodes[1:]:
            self.join(nodes[0].index, node.index)


def find_units(prepared: Prepared) -> list[Unit]:
    """The units in an order in which they can run."""
    heads = [n for n in prepared.nodes if is_dequantised(prepared, n)]
    loose = {n.index for n in heads}
    core = [n for n in prepared.nodes if n.index not in loose]
    sets = _Sets(n.index for n in core)
    for node in core:
        for tensor in node.reads:
            source = prepared.producers.get(tensor)
            if source is not None and source.index not in loose and not prepared.is_eight_bit(tensor):
                sets.join(node.index, source.index)
    _join_nameless(prepared, core, sets, loose)
    before = sets.copy()
    while (cycle := _order(prepared, sets.groups(core), sets, loose)[1]) != []:
        for other in cycle[1:]:
            sets.join(cycle[0], other)
    sets = _taken_apart(prepared, core, before, sets, loose)
    groups = sets.groups(core)
    order, _ = _order(prepared, groups, sets, loose)
    members = [_with_heads(prepared, groups[key], loose) for key in order]
    taken = set(prepared.outputs)
    singles = [[n] for n in heads if n.makes[0] in taken or not prepared.readers.get(n.makes[0])]
    every = [*members, *singles]
    wanted = taken.union(*(_taken_from_outside(prepared, nodes) for nodes in every))
    return [_unit(prepared, nodes, wanted) for nodes in every]


def _taken_apart(prepared: Prepared, core: list[Node], before: _Sets, joined: _Sets, loose: set[int]) -> _Sets:
    """The sets with fewer of them joined because they wait for each other.

    A float tensor that is read both by a QuantizeLinear and behind what is computed of that (a residual that is not
    quantised) has everything in between joined, all of which only ONNX Runtime could run. With that tensor's own nodes
    for themselves, they run there and exchange float tensors, and what is in between is as ever.
    """
    sets = joined
    for nodes in joined.groups(core).values():
        parts = sorted(before.groups(nodes).values(), key=len, reverse=True)
        if len(parts) < 2:
            continue
        inside = {n.index for n in nodes}
        for part in parts[:_TRIED]:
            tried = _Sets(n.index for n in core)
            for group in sets.groups(core).values():
                if group[0].index not in inside:
                    tried.join_all(group)
            for other in parts:
                if other is not part:
                    tried.join_all(other)
            _join_alike(part, tried)
            _join_nameless(prepared, core, tried, loose)
            if not _order(prepared, tried.groups(core), tried, loose)[1]:
                sets = tried
                break
    return sets


def _join_alike(nodes: list[Node], sets: _Sets) -> None:
    """Nodes that one of the file became."""
    first: dict[int, int] = {}
    for node in nodes:
        for position in node.origin:
            sets.join(node.index, first.setdefault(position, node.index))


def _join_nameless(prepared: Prepared, core: list[Node], sets: _Sets, loose: set[int]) -> None:
    """Nodes that ONNX Runtime added go with the node whose result they read, or else with one that reads theirs.

    Those that hang together with a node of the file already (what it made of a HardSwish, say) are that unit's. What
    no node of the file is near of (all of a model, where that is a branch which is always taken) goes together.
    """
    apart = []
    for node in core:
        while True:
            own = [n for n in core if sets.find(n.index) == sets.find(node.index)]
            if any(n.origin for n in own):
                break
            near = next(_near(prepared, own, sets, loose), None)
            if near is None:
                apart.append(node)
                break
            sets.join(node.index, near.index)
    sets.join_all(apart)


def _near(prepared: Prepared, nodes: list[Node], sets: _Sets, loose: set[int]) -> Iterator[Node]:
    """Nodes of other sets whose results a set reads, and then those that read its results."""
    own = sets.find(nodes[0].index)

    def others(found: Iterable[Node]) -> Iterator[Node]:
        return (n for n in found if n.index not in loose and sets.find(n.index) != own)

    for node in nodes:
        yield from others(prepared.producers[t] for t in _through(prepared, node, loose) if t in prepared.producers)
    for node in nodes:
        readers = [n for t in node.makes for n in prepared.readers.get(t, [])]
        readers += [r for n in readers if n.index in loose for t in n.makes for r in prepared.readers.get(t, [])]
        yield from others(readers)


def _through(prepared: Prepared, node: Node, loose: set[int]) -> list[str]:
    """What a node reads, a DequantizeLinear ahead of it looked through."""
    found = []
    for tensor in node.reads:
        source = prepared.producers.get(tensor)
        found.append(source.inputs[0] if source is not None and source.index in loose else tensor)
    return found


def _order(
    prepared: Prepared, groups: dict[int, list[Node]], sets: _Sets, loose: set[int]
) -> tuple[list[int], list[int]]:
    """(an order of the groups, empty) or (empty, groups that wait for each other)."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for key, nodes in groups.items():
        sources = {
            sets.find(prepared.producers[t].index)
            for node in nodes
            for t in _through(prepared, node, loose)
            if t in prepared.producers
        }
        sorter.add(key, *(sources - {key}))
    try:
        sorter.prepare()
    except CycleError as error:
        return [], list(dict.fromkeys(error.args[1]))
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heapq.heappush(ready, key)
        key = heapq.heappop(ready)
        order.append(key)
        sorter.done(key)
    return order, []


def _with_heads(prepared: Prepared, nodes: list[Node], loose: set[int]) -> list[Node]:
    """The nodes with the DequantizeLinear nodes that they read."""
    found = {n.index: n for n in nodes}
    for node in nodes:
        for tensor in node.reads:
            source = prepared.producers.get(tensor)
            if source is not None and source.index in loose:
                found[source.index] = source
    return [found[i] for i in sorted(found)]


def _taken_from_outside(prepared: Prepared, nodes: list[Node]) -> list[str]:
    """What the nodes read, once each, that none of them makes, and that is no constant."""
    own = {t for n in nodes for t in n.makes}
    return list(dict.fromkeys(t for n in nodes for t in n.reads if t not in own and t not in prepared.constants))


def _unit(prepared: Prepared, nodes: list[Node], wanted: Collection[str]) -> Unit:
    """``wanted``: by the user, or by units that do not make it themselves."""
    alone = len(nodes) == 1
    made = [t for n in nodes if alone or not is_dequantised(prepared, n) for t in n.makes]
    return Unit(nodes, _taken_from_outside(prepared, nodes), [t for t in made if t in wanted])


def assign(prepared: Prepared, model: object, units: list[Unit]) -> dict[int, Unit]:
    """Gives every unit the positions in the file that it stands for; returns the unit of each position.

    Nodes that ONNX Runtime has done away with belong to what they were merged into: a DequantizeLinear to its reader,
    others to what they read. Positions that stand for nothing any more are left out.
    """
    nodes = list(model.graph.node)  # type: ignore[attr-defined]
    found: dict[int, Unit] = {}
    for heads in (False, True):
        for unit in units:
            for node in unit.nodes:
                if (is_dequantised(prepared, node) and len(unit.nodes) > 1) == heads:
                    for position in node.origin:
                        found.setdefault(position, unit)
    producer = {t: p for p, n in enumerate(nodes) for t in n.output if t}
    readers: dict[str, list[int]] = {}
    for position, node in enumerate(nodes):
        for tensor in node.input:
            readers.setdefault(tensor, []).append(position)

    def ahead(position: int) -> None:
        after = [found[r] for t in nodes[position].output for r in readers.get(t, []) if r in found]
        if position not in found and after:
            found[position] = after[0]

    for position in reversed(range(len(nodes))):
        if nodes[position].op_type == "DequantizeLinear":
            ahead(position)
    for position, node in enumerate(nodes):
        before = [found[producer[t]] for t in node.input if t in producer and producer[t] in found]
        if position not in found and before:
            found[position] = before[0]
    for position in reversed(range(len(nodes))):
        ahead(position)
    standing = {id(unit) for unit in found.values()}
    for unit in units:
        if id(unit) not in standing:  # of nodes that ONNX Runtime made anew
            named = [producer[t] for t in unit.outputs if t in producer]
            free = next((p for p in (*named, *range(len(nodes))) if p not in found), None)
            if free is not None:
                found[free] = unit
    for position, unit in found.items():
        unit.covers.add(position)
    for unit in units:
        unit.lead = _lead(nodes, unit)
    makers = {t: unit for unit in units for t in unit.outputs}
    for unit in units:
        if unit.lead < 0:  # a DequantizeLinear that ONNX Runtime moved to the model's edge
            unit.lead = makers[unit.inputs[0]].lead if unit.inputs and unit.inputs[0] in makers else 0
    return found


def _lead(nodes: list[object], unit: Unit) -> int:
    """The position that says best what a unit does."""
    own = sorted({p for n in unit.nodes for p in n.origin} & unit.covers) or sorted(unit.covers)
    telling = [p for p in own if not onnx_row(nodes[p].op_type).is_quiet]  # type: ignore[attr-defined]
    quiet = [p for p in own if nodes[p].op_type not in ("QuantizeLinear", "DequantizeLinear")]  # type: ignore[attr-defined]
    return next(iter((*telling, *quiet, *own)), -1)
