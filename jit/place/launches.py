"""Which parts that exchange become one launch, and what the host has to do around it.

As :mod:`tilewright.jit.split.linked` makes them, found from the graph before anything is compiled: a tensor lies in
memory that cores share if programs hold it in whole units, and a part that gives another one is launched alone.
"""

from __future__ import annotations

from itertools import groupby

from tilewright.jit import graph as g
from tilewright.jit.lower.patches import of_few_channels
from tilewright.jit.place.costs import Costs
from tilewright.jit.place.problem import Part, Solution
from tilewright.jit.place.splits import LAUNCH_NANOSECONDS


def launches(costs: Costs, found: Solution) -> list[list[Part]]:
    """The parts on cores that follow one another, as launches where they exchange."""
    made: list[list[Part]] = []
    for on_cores, parts in groupby(found.parts, lambda part: part.replicas > 0):
        made += _chains(costs, list(parts)) if on_cores else []
    return made


def _chains(costs: Costs, parts: list[Part]) -> list[list[Part]]:
    chains: list[list[Part]] = []
    given: set[str] = set()  #: by the parts of the last of them
    follows = False
    for part in parts:
        exchanges = costs.gives_units(part)
        if not (follows and exchanges and _takes_units(costs, part, given)):
            chains.append([])
            given = set()
        chains[-1].append(part)
        given |= costs.given(part)
        follows = exchanges
    return chains


def _takes_units(costs: Costs, part: Part, given: set[str]) -> bool:
    """Whether a part reads what others gave as whole units, and none of it as patches, which the host packs."""
    for graph, names in costs.programs(part):
        exchanged = {tensor for tensor, name in names.items() if name in given}
        if not all(costs.in_units(graph.tensors[tensor]) for tensor in exchanged):
            return False
        for op in graph.ops:
            if isinstance(op, g.Conv2D) and not op.transposed and op.inputs[0] in exchanged:
                _, kh, kw, ic = op.weight.shape
                if of_few_channels(kh, kw, ic, costs.config):
                    return False
    return True


def around(costs: Costs, parts: list[Part]) -> int:
    """Cycles of the host around parts that are one launch: of what enters them each piece is packed, of what leaves
    them the whole is unpacked."""
    if len(parts) == 1 and not (costs.passed(parts[0]) and costs.gives_units(parts[0])):
        return sum(costs.moves(parts[0]))
    whole = costs.part(sum(part.operators for part in parts))
    assert whole is not None
    given: set[str] = set()
    packed, programs = 0, 1
    for part in parts:
        given |= costs.passed(part)
        for together in costs.launched(part):
            programs = max(programs, len(together))
            for graph, names in together:
                packed += sum(costs.packed(graph, tensor) for tensor, name in names.items() if name not in given)
        given |= costs.given(part)
    starts = costs.cycles(LAUNCH_NANOSECONDS * programs) if programs > 1 else 0
    return starts + packed + costs.moved(whole)[1]
