"""Which consecutive nodes stream together: dynamic programming over the cuts of a network.

The nodes of a group interleave row by row: the constants of all of them lie on the chip together, and what
passes between them lies in rings of a few rows. What crosses from one group to another lies in act as a whole,
or goes through DRAM. A good partition has few and small tensors across its cuts.
"""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit.kernels.base import Node
from tilewright.jit.rings import RingSizes

LONGEST_GROUP = 16  #: nodes of one group
CUT_COST = 300  #: cost of a cut beside its tensors, in units of act moved
#: rows that rings have beyond the least, and the cost of a group that can have no more
_COMFORT = ((2, 0), (1, 1000), (0, 4000))


def constants(node: Node) -> tuple[int, int]:
    """Entries of wgt and of prm that all of a node's chunks take together."""
    return sum(len(c.weights) for c in node.chunks), sum(len(c.prm) for c in node.chunks)


def group_nodes(rings: RingSizes, config: Config, share: float) -> list[tuple[int, int]]:
    """(first, last) node of each group, in order; constants of a group take at most ``share`` of wgt and prm."""
    count = len(rings.nodes)
    crossing = _crossing_units(rings, config)
    best: list[tuple[float, int]] = [(0.0, 0)]
    for stop in range(1, count + 1):
        choices = []
        for first in range(stop - 1, max(-1, stop - 1 - LONGEST_GROUP), -1):
            comfort = _comfort(rings, config, share, first, stop - 1)
            if comfort is None:
                break
            choices.append((best[first][0] + comfort + (crossing[stop] + CUT_COST if stop < count else 0), first))
        best.append(min(choices))
    groups = []
    stop = count
    while stop:
        first = best[stop][1]
        groups.append((first, stop - 1))
        stop = first
    return groups[::-1]


def _crossing_units(rings: RingSizes, config: Config) -> list[float]:
    """Units of act that lie across a cut in front of each node; what is too large for act counts twice."""
    result = [0.0] * (len(rings.nodes) + 1)
    for name, buffer in rings.buffers.items():
        if not rings.producers[name] or not rings.consumers[name]:
            continue
        size = buffer.rows * buffer.stride
        size *= 2 if size > config.act_units // 2 else 1
        for cut in range(rings.producers[name][0] + 1, max(i for i, _ in rings.consumers[name]) + 1):
            result[cut] += size
    return result


def _comfort(rings: RingSizes, config: Config, share: float, first: int, last: int) -> float | None:
    """Cost of a group for want of room in its rings; None if its nodes cannot stream together."""
    if first == last:
        return 0.0
    nodes = rings.nodes[first : last + 1]
    sizes = [constants(node) for node in nodes]
    if sum(w for w, _ in sizes) > config.wgt_entries * share or sum(p for _, p in sizes) > config.prm_entries * share:
        return None
    if any(rings.open[index] > 1 for index in range(first, last + 1)):
        return None
    touched = dict.fromkeys(t for n in nodes for t in n.inputs)
    touched |= dict.fromkeys(t for made in rings.made[first : last + 1] for t in made)
    for slack, cost in _COMFORT:
        if sum(_held(rings, name, first, last, slack) for name in touched) <= config.act_units:
            return float(cost)
    return None


def _held(rings: RingSizes, name: str, first: int, last: int, slack: int) -> int:
    """Least units that a tensor takes while a group runs.

    A ring if all its nodes are in the group. Otherwise it is held whole, or goes through DRAM: a ring for STORE
    if the group makes it, and one for each reader's copy.
    """
    buffer = rings.buffers[name]
    ring = min(buffer.rows, rings.least(name, first, last) + slack) * buffer.stride
    made = any(first <= index <= last for index in rings.producers[name])
    readers = sum(first <= index <= last for index, _ in rings.consumers[name])
    if readers == len(rings.consumers[name]) and (made or not rings.producers[name]):
        return ring
    return min(buffer.rows * buffer.stride, ring * (made + readers))
