"""Arrival times over a graph of nets: levels of arcs, and per starting unit the latest arrival at each net."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.timing.netlist import NetlistError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Graph:
    """Arcs from net to net, each ``logic`` ns and ``hops`` nets (0 or 1) long, which go to ``loads`` pins.

    Raises :class:`NetlistError` if the arcs make a loop, naming one of its nets by ``name``.
    """

    def __init__(
        self, nets: int, source: Ints, sink: Ints, logic: Floats, hops: Ints, loads: Ints, name: Callable[[int], str]
    ) -> None:
        level = _levels(nets, source, sink)
        if (level < 0).any():
            raise NetlistError(f"a combinational loop goes through {name(_on_a_loop(source, sink, level))}")
        order = np.lexsort((sink, level[sink]))
        self.source, self.sink, self.logic, self.hops = source[order], sink[order], logic[order], hops[order]
        self.loads = loads[order]
        #: where the arcs into each net begin, and in which level that net is
        self.groups = np.flatnonzero(np.diff(self.sink, prepend=-1))
        self._ends = np.append(self.groups[1:], len(self.sink))
        self._group_levels = level[self.sink[self.groups]]
        self._group_of = dict(zip(self.sink[self.groups].tolist(), range(len(self.groups))))

    def arrivals(self, start: Floats, delay: Floats) -> Floats:
        """Latest arrival, [net, unit], where paths start at ``start`` (-inf: not there) and arcs take ``delay`` ns."""
        when = start.copy()
        for level in np.unique(self._group_levels):
            first, last = np.searchsorted(self._group_levels, [level, level + 1])
            begin, end = self.groups[first], self._ends[last - 1]
            through = when[self.source[begin:end]] + delay[begin:end, None]
            latest = np.maximum.reduceat(through, self.groups[first:last] - begin, axis=0)
            sinks = self.sink[self.groups[first:last]]
            when[sinks] = np.maximum(when[sinks], latest)
        return when

    def trace(self, at: int, unit: int, start: Floats, when: Floats, delay: Floats) -> tuple[list[int], int]:
        """Nets of the latest path from a unit to the net ``at``, the first one first; how many of them take time."""
        path, hops = [at], 0
        while start[path[-1], unit] < when[path[-1], unit]:
            group = self._group_of[path[-1]]
            arcs = slice(self.groups[group], self._ends[group])
            through = when[self.source[arcs], unit] + delay[arcs]
            best = self.groups[group] + int(np.argmax(through))
            path.append(int(self.source[best]))
            hops += int(self.hops[best])
        return path[::-1], hops


def _levels(nets: int, source: Ints, sink: Ints) -> Ints:
    """The longest way to each net, in arcs; -1 on a loop and behind one."""
    level = np.full(nets, -1)
    waiting = np.bincount(sink, minlength=nets)
    leaving = np.argsort(source, kind="stable")
    first = np.searchsorted(source[leaving], np.arange(nets + 1))
    ready = np.flatnonzero(waiting == 0)
    depth = 0
    while ready.size:
        level[ready] = depth
        counts = first[ready + 1] - first[ready]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        reached = sink[leaving[np.repeat(first[ready], counts) + within]]
        np.subtract.at(waiting, reached, 1)
        ready = np.unique(reached[waiting[reached] == 0])
        depth += 1
    return level


def _on_a_loop(source: Ints, sink: Ints, level: Ints) -> int:
    """A net of a loop: whatever is not ordered has an arc from something that is not, so going back ends in one."""
    before = {int(b): int(a) for a, b in zip(source, sink) if level[a] < 0 and level[b] < 0}
    net, seen = next(iter(before)), set()
    while net not in seen:
        seen.add(net)
        net = before[net]
    return net
