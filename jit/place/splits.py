"""What parts cost that cores share, each making some rows or some channels of their results, or part of their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.cost.forms import Forms
from tilewright.jit.cost.lower_bound import nonzero, useful_macs
from tilewright.jit.cost.shared import shared_interval
from tilewright.jit.energy.actions import count_estimated
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Op, TensorSpec
from tilewright.jit.ir.regions import Uncut, image_shape
from tilewright.jit.place.energy import Energies
from tilewright.jit.place.problem import UNBOUNDED, Part
from tilewright.jit.simplify import of_fewer_operators
from tilewright.jit.split.boxes import Box
from tilewright.jit.split.pieces import AXES, Known, needs_of, wanted_of
from tilewright.jit.split.reduction import in_two, share_boxes
from tilewright.jit.split.steps import WAYS, Round, Split, join_steps
from tilewright.jit.substitute import Substitutions

#: of the host for each program of a launch: registers, the wait for all (``docs/runtime.md`` has what was measured)
LAUNCH_NANOSECONDS = 20_000


class Costs(Protocol):
    """What is asked of :class:`tilewright.jit.place.costs.Costs`, which says what each method gives."""

    config: Config
    exchanges: bool
    reduces: bool
    energies: Energies | None
    substitutions: Substitutions

    def part(self, mask: int) -> Graph | None: ...

    def moved(self, part: Graph) -> tuple[int, int]: ...

    def carried(self, part: Part) -> int: ...

    def cycles(self, nanoseconds: int) -> int: ...

    def measured(self, key: str, call: Callable[[], object]) -> int: ...


class Splits:
    """Parts of a network in as many pieces as there are cores, and their times."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._config = costs, costs.config
        self._rounds: dict[Part, list[Round]] = {}
        self._known: Known = {}
        self._times: dict[Part, int | None] = {}
        cores = self._config.cores
        self._counts = sorted({count for count in (2, 4, cores) if 1 < count <= cores})

    def times(self, mask: int, most: int) -> dict[Part, int]:
        """The ways in which cores, all or some, can share operators, with their times where those may be less than
        ``most``."""
        ways = WAYS if self._costs.reduces else AXES
        parts = [Part(mask, count, way) for count in self._counts for way in ways]
        return {part: time for part in parts if (time := self._time(part, most)) is not None}

    def rounds(self, part: Part) -> list[Round]:
        """What of a part that cores share runs one after another; nothing where there are no more pieces than for fewer
        cores."""
        if part not in self._rounds:
            whole = self._costs.part(part.operators)
            assert part.way is not None
            found = [] if whole is None else Split(part.replicas, part.way).rounds(whole, self._config, self._known)
            fewer = max((count for count in self._counts if count < part.replicas), default=1)
            self._rounds[part] = found if found and len(found[0].pieces) > fewer else []
        return self._rounds[part]

    def moves(self, part: Part) -> list[tuple[int, int]]:
        """Cycles of the host before the pieces of each round of a part begin, and after the last of them has ended."""
        found = []
        for whole, pieces in self.rounds(part):
            if not pieces:
                found.append(self._costs.moved(whole))
                continue
            launches = self._costs.cycles(LAUNCH_NANOSECONDS * len(pieces))
            packed, unpacked = zip(*(self._costs.moved(piece.graph) for piece in pieces))
            found.append((launches + sum(packed), sum(unpacked) + self._joined(Round(whole, pieces))))
        return found

    def time_of(self, part: Part) -> int | None:
        """The time of a part that cores share; None where it has no two pieces."""
        return self._time(part, UNBOUNDED)

    def learn(self, part: Part, cycles: int) -> None:
        """What the programs of a part that cores share really take."""
        self._times[part] = cycles

    def _time(self, part: Part, most: int) -> int | None:
        if part not in self._times:
            if self._exceeds(part, most * self._config.array_macs):
                return None  # not worth a closer look now
            rounds = self.rounds(part)
            if not rounds:
                self._times[part] = None
                return None
            try:
                self._times[part] = self._together(part, rounds)
            except PlaceError:
                self._times[part] = None
        cycles = self._times[part]
        if cycles is None:
            return None
        return cycles + (self._costs.carried(part) if self._costs.exchanges else sum(map(sum, self.moves(part))))

    def _exceeds(self, part: Part, macs: int) -> bool:
        """Whether a piece has so many multiply-accumulates or more, found before any is made."""
        whole = self._costs.part(part.operators)
        if whole is None or part.way is None:
            return False
        try:
            if part.way == "inputs":
                whole, _ = in_two(whole, part.replicas, self._config)
                boxes = share_boxes(whole)
            else:
                boxes = wanted_of(whole, part.replicas, part.way, self._config.lanes)
            for wanted in boxes:
                made, _, asked = needs_of(whole, wanted, self._known)
                if sum(_macs(op, made[op.output], whole.tensors[op.output]) for op, _ in asked.values()) >= macs:
                    return True
        except Uncut:
            return False  # it has no pieces
        return False

    def _together(self, part: Part, rounds: list[Round]) -> int:
        """Cycles of rounds of pieces side by side: alike but for their edges, so that the largest stands for all."""
        total, actions = 0, Counter[str]()
        for each in rounds:
            largest, pieces = max(each.graphs, key=_work), len(each.graphs)
            found = Forms(of_fewer_operators(largest, self._costs.substitutions)).estimate(self._config)
            config = self._config.replace(cores=pieces)
            moved = (found.busy["LOAD"] + found.busy["STORE"]) * config.beat_bytes
            total += round(shared_interval(config, found.cycles, moved) * pieces)
            if self._costs.energies is not None:
                actions += Counter({action: count * pieces for action, count in count_estimated(found).items()})
        if self._costs.energies is not None:
            self._costs.energies.learn(part, Counter(actions | {"cycle": total}))
        return total

    def _joined(self, made: Round) -> int:
        times = []
        for step in join_steps(made.graph, made.pieces):
            shapes = {n: piece.graph.tensors[n].shape for piece in made.pieces for n in piece.given}
            parts = [np.zeros((1, *shapes[name]), "int8") for name in step.inputs]
            key = f"join {step.shape} of {step.origins}"
            times.append(self._costs.measured(key, partial(step.apply, parts)))
        return sum(times)


def _macs(op: Op, made: Box, whole: TensorSpec) -> int:
    """Multiply-accumulates of a convolution cut to what makes a box of a tensor; of others none are counted."""
    if not isinstance(op, g.Convolution) or (isinstance(op, g.Conv2D) and op.transposed):
        return 0
    return (made.bottom - made.top) * image_shape(whole.shape)[2] * nonzero(op.weight)


def _work(graph: Graph) -> tuple[int, int]:
    """Multiply-accumulates that are none of zeros, and elements of the results."""
    sizes = [graph.tensors[op.output].form.elements for op in graph.ops]
    return sum(useful_macs(graph, op) for op in graph.ops), sum(sizes)
