"""What parts cost that all cores share, each making some rows or some channels of their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from tilewright.config import Config
from tilewright.jit.cost.forms import Forms
from tilewright.jit.cost.shared import shared_interval
from tilewright.jit.errors import PlaceError
from tilewright.jit.floor import layer_macs
from tilewright.jit.graph import Graph
from tilewright.jit.place.problem import Part
from tilewright.jit.split.pieces import AXES, Axis, Piece
from tilewright.jit.split.steps import Split, join_steps

#: of the host for each program of a launch: registers, the wait for all (``docs/runtime.md`` has what was measured)
LAUNCH_NANOSECONDS = 20_000


class Costs(Protocol):
    """What is asked of :class:`tilewright.jit.place.costs.Costs`, which says what each method gives."""

    config: Config

    def part(self, mask: int) -> Graph | None: ...

    def moved(self, part: Graph) -> tuple[int, int]: ...

    def cycles(self, nanoseconds: int) -> int: ...

    def measured(self, key: str, call: Callable[[], object]) -> int: ...


class Splits:
    """Parts of a network in as many pieces as there are cores, and their times."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._config = costs, costs.config
        self._pieces: dict[tuple[int, Axis], list[Piece]] = {}
        self._times: dict[tuple[int, Axis], int | None] = {}

    def times(self, mask: int, most: int) -> dict[Axis, int]:
        """By axis the time of operators in pieces, where that may be less than ``most``."""
        if self._config.cores == 1:
            return {}
        found = {axis: self._time(mask, axis, most) for axis in AXES}
        return {axis: time for axis, time in found.items() if time is not None}

    def pieces(self, part: Part) -> list[Piece]:
        """The pieces of a part that has an axis."""
        assert part.axis is not None
        return self._cut(part.operators, part.axis)

    def moved(self, part: Part) -> tuple[int, int]:
        """Cycles of the host before the pieces of a part begin, and after the last of them has ended."""
        whole, pieces = self._costs.part(part.operators), self.pieces(part)
        assert whole is not None
        return self._moved(whole, pieces)

    def time_of(self, part: Part) -> int | None:
        """The time of a part that has an axis; None where it has no two pieces."""
        return None if part.axis is None else self._time(part.operators, part.axis, 1 << 60)

    def learn(self, part: Part, cycles: int) -> None:
        """What the programs of a part that has an axis really take."""
        assert part.axis is not None
        self._times[part.operators, part.axis] = cycles + sum(self.moved(part))

    def _cut(self, mask: int, axis: Axis) -> list[Piece]:
        if (mask, axis) not in self._pieces:
            part = self._costs.part(mask)
            split = Split(self._config.cores, axis)
            self._pieces[mask, axis] = [] if part is None else split.pieces(part, self._config.lanes)
        return self._pieces[mask, axis]

    def _time(self, mask: int, axis: Axis, most: int) -> int | None:
        if (mask, axis) not in self._times:
            pieces, whole = self._cut(mask, axis), self._costs.part(mask)
            if not pieces or whole is None:
                self._times[mask, axis] = None
                return None
            largest = max((piece.graph for piece in pieces), key=_work)
            if _work(largest)[0] // self._config.array_macs >= most:
                return None  # not worth a closer look now
            try:
                self._times[mask, axis] = self._together(largest, len(pieces)) + sum(self._moved(whole, pieces))
            except PlaceError:
                self._times[mask, axis] = None
        return self._times[mask, axis]

    def _together(self, largest: Graph, pieces: int) -> int:
        """Cycles of pieces side by side: they are alike but for their edges, so the largest stands for all."""
        found, config = Forms(largest).estimate(self._config), self._config.replace(cores=pieces)
        moved = (found.busy["LOAD"] + found.busy["STORE"]) * config.beat_bytes
        return round(shared_interval(config, found.cycles, moved) * pieces)

    def _moved(self, whole: Graph, pieces: list[Piece]) -> tuple[int, int]:
        launches = self._costs.cycles(LAUNCH_NANOSECONDS * len(pieces))
        packed, unpacked = zip(*(self._costs.moved(piece.graph) for piece in pieces))
        return launches + sum(packed), sum(unpacked) + self._joined(whole, pieces)

    def _joined(self, whole: Graph, pieces: list[Piece]) -> int:
        times = []
        for step in join_steps(whole, pieces):
            shapes = {n: piece.graph.tensors[n].shape for piece in pieces for n in piece.given}
            parts = [np.zeros((1, *shapes[name]), "int8") for name in step.inputs]
            key = f"join {step.shape} of {step.origins}"
            times.append(self._costs.measured(key, partial(step.apply, parts)))
        return sum(times)


def _work(graph: Graph) -> tuple[int, int]:
    """Multiply-accumulates, and elements of the results."""
    sizes = [graph.tensors[op.output].form.elements for op in graph.ops]
    return sum(layer_macs(graph, op) for op in graph.ops), sum(sizes)
