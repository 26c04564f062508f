"""What operators of a network cost on a core, on the CPU, and on the way between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.channels import reduce_channels
from tilewright.jit.compiler import paying
from tilewright.jit.cost.forms import Forms
from tilewright.jit.cost.lower_bound import useful_macs
from tilewright.jit.energy.actions import Counts, count_estimated, count_program
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Op
from tilewright.jit.ir.regions import image_shape
from tilewright.jit.place.energy import Energies, Power
from tilewright.jit.place.host_times import HostTimes
from tilewright.jit.place.ideals import ideals, in_a_row
from tilewright.jit.place.problem import Part, PlacementError, Problem, members
from tilewright.jit.place.splits import Splits
from tilewright.jit.plan.layout import units_for
from tilewright.jit.recurrent.program import is_recurrent, recurrent_program
from tilewright.jit.sides import subgraph
from tilewright.jit.simplify import of_fewer_operators
from tilewright.jit.source import Source
from tilewright.jit.substitute import Substitutions
from tilewright.progress import Progress, silent
from tilewright.runtime import interpreters
from tilewright.runtime.host_steps import run_host_step
from tilewright.runtime.steps import PackStep, TensorSpec, UnpackStep
from tilewright.sim import simulate_timing

MOST_IDEALS = 100  #: all pairs of them are estimated, which takes some 5 ms each


def file_times(source: Source, times: HostTimes, progress: Progress = silent) -> dict[int, int]:
    """Nanoseconds of each operator of a model file in its interpreter, by position; those that need none left out.

    Raises :class:`PlacementError` for operators that share a state: they run in one interpreter.
    """
    graph = source.build({operator.index: "timed" for operator in source.operators}).graph
    found: dict[int, int] = {}
    users = Counter(key for op in graph.ops if isinstance(op, g.Interpreted) for key in set(op.state))
    for number, op in enumerate(graph.ops):
        progress("timing operators on the CPU", number, len(graph.ops))
        if isinstance(op, g.Interpreted):
            if any(users[key] > 1 for key in op.state):
                raise PlacementError(f"{op.name}: shares a state with others, from which a placement could part it")
            part = subgraph(graph, [op], False)
            model = source.cut(list(op.covers), part.inputs, part.outputs)
            inputs = [example(graph.tensors[name]) for name in part.inputs]
            key = f"{source.runtime} {hashlib.sha256(model).hexdigest()}"
            found[op.covers[0]] = times.of(key, partial(_interpreted, source.runtime, model, op.name, inputs))
    return found


def _interpreted(runtime: str, model: bytes, name: str, inputs: list[NDArray[Any]]) -> Callable[[], object]:
    return partial(interpreters.load(runtime, model, name), inputs)


def example(tensor: TensorSpec) -> NDArray[Any]:
    """Values to time an operator on: bytes at random, since LiteRT's softmax fails on 1,001 equal ones, and zeros
    else, which are legal wherever they are positions."""
    if tensor.dtype not in ("int8", "uint8"):
        return _zeros(tensor)
    limits = np.iinfo(tensor.dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def _zeros(tensor: TensorSpec, count: tuple[int, ...] = ()) -> NDArray[Any]:
    return np.zeros((*count, *tensor.shape), tensor.dtype)


class Costs:
    """Times of a graph's operators in cycles of ``config``'s clock.

    ``places``: where the compiler puts each operator, by name; what it puts on the accelerator can run on the CPU too
    if it stands for operators of the file (``file``: their nanoseconds by position). Channels that the whole network
    does not need are left out of every part. ``jobs``: threads of the CPU that work on different inferences, for
    throughput. ``in_a_row``: the graph has so many ideals that operators are taken in their order in the file, each
    after the one before it. ``power``: for ``energies`` of parts beside their times.
    ``like``: costs of the same file for another number of the same cores, whose estimates are taken over.
    ``substitutions``: those that pay in the network placed greedily, which all parts get.
    """

    def __init__(
        self, graph: Graph, places: Mapping[str, str], config: Config, file: Mapping[int, int], times: HostTimes,
        progress: Progress = silent, jobs: int = 1, power: Power | None = None, like: Costs | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.config, self._times, self._progress = graph, config, times, progress
        self.jobs = jobs
        self.exchanges = False  #: whether cores exchange among themselves, so that the host moves only what must be
        self.reduces = False  #: whether they may exchange sums too, of layers split over input channels
        self.places, self._file = places, file
        self._core: dict[int, int | None] = {}
        self._estimates: dict[int, int | None] = {} if like is None else like._estimates
        self.substitutions: Substitutions = paying(graph, config) if like is None else like.substitutions
        self._moved: dict[int, int] = {}
        self._graphs: dict[int, Graph | None] = {}
        made: dict[str, int] = {}
        needs: list[int] = []
        for k, op in enumerate(graph.ops):
            needs.append(sum({1 << made[t] for t in op.inputs if t in made}))
            made |= dict.fromkeys(op.outputs, k)
        own = [op for op in graph.ops if places[op.name] == "accelerator"]
        self._made = {name for op in own for name in op.outputs}
        self._reduced = reduce_channels(subgraph(graph, own, False)).graph
        self._operators = {op.name: op for op in self._reduced.ops}
        self._useful = [
            useful_macs(self._reduced, self._operators[op.name]) if op.name in self._operators else 0
            for op in graph.ops
        ]
        self.in_a_row = len(ideals(needs, MOST_IDEALS)) > MOST_IDEALS
        self.splits = Splits(self)
        self.problem = Problem(
            in_a_row(needs) if self.in_a_row else tuple(needs), tuple(self.cpu(op) for op in graph.ops), self.core,
            self.splits.times, self._moved_of, self._least,
        )  # fmt: skip
        self.energies = None if power is None else Energies(self, power)
        found = ideals(self.problem.needs)
        self._parts = len({larger & ~ideal for ideal in found for larger in found if ideal & ~larger == 0}) - 1

    def cycles(self, nanoseconds: int) -> int:
        """A time of the CPU, in cycles."""
        return -(-nanoseconds * self.config.clock_mhz // 1000)

    def measured(self, key: str, call: Callable[[], object]) -> int:
        """The time of a call on this machine, in cycles; ``key`` says all that it depends on."""
        return self.cycles(self._times.of(key, lambda: call))

    def part_time(self, part: Part) -> int | None:
        """The time of a part, wherever it is."""
        if not part.replicas:
            return sum(self.problem.cpu[k] or 0 for k in members(part.operators))
        return self.core(part.operators) if part.way is None else self.splits.time_of(part)

    def cpu_time(self, part: Part) -> int:
        """What of a part's time is the CPU's: all of it, or packing and unpacking."""
        return sum(self.moves(part)) if part.replicas else self.part_time(part) or 0

    def _moved_of(self, mask: int) -> int:
        if mask not in self._moved:
            self._moved[mask] = sum(self.moves(Part(mask, 1)))
        return self._moved[mask]

    def _least(self, mask: int) -> int:
        """Cycles of a part on a core that no program needs less than: the array's, of weights that are not zero."""
        return sum(self._useful[k] for k in members(mask)) // self.config.array_macs

    def cpu(self, op: Op) -> int | None:
        """An operator's time on the CPU; None where it is the accelerator's alone."""
        if op.covers and (isinstance(op, g.Interpreted) or self.places[op.name] == "accelerator"):
            return self.cycles(sum(self._file.get(index, 0) for index in op.covers))
        if self.places[op.name] == "accelerator" and not isinstance(op, g.Reshape):
            return None
        tensor = self.graph.tensors[op.inputs[0]]
        key = f"{op.kind} {tensor.dtype} {tensor.shape} {self.graph.tensors[op.output].dtype}"
        step, data = op.host_step(self.graph), _zeros(tensor, (1,))
        return self.cycles(self._times.of(key, lambda: lambda: run_host_step(step, {op.inputs[0]: data}, {})))

    def core(self, mask: int) -> int | None:
        """The time of operators as one program on a core, with packing and unpacking; None where there is none."""
        if mask not in self._core:
            self._progress("estimating parts on a core", len(self._core), self._parts)
            part = self.part(mask)
            if mask not in self._estimates or self.energies is not None:
                self._estimates[mask] = None if part is None else self._program(mask, part)
            self._core[mask] = self._estimates[mask]
            if part is not None:
                self._moved[mask] = sum(self.moved(part))
        cycles = self._core[mask]
        if cycles is None:
            return None
        return cycles + (self.carried(Part(mask, 1)) if self.exchanges else self._moved_of(mask))

    def part(self, mask: int) -> Graph | None:
        """The operators as a graph of the accelerator's; None where they are not all that."""
        if mask not in self._graphs:
            self._graphs[mask] = self._graph_of(mask)
        return self._graphs[mask]

    def _graph_of(self, mask: int) -> Graph | None:
        names = [self.graph.ops[k].name for k in members(mask)]
        if any(self.places[name] != "accelerator" for name in names):
            return None
        ops = [self._operators[name] for name in names]
        part = subgraph(self._reduced, ops, False)
        made = {op.output for op in ops}
        for op in ops:  # the host does those while it packs and unpacks
            if isinstance(op, g.Reshape) and (op.inputs[0] not in made or op.output in part.outputs):
                return None
        return part

    def _program(self, mask: int, part: Graph) -> int | None:
        count: Callable[[], Counts]
        try:
            if is_recurrent(part):
                program = recurrent_program(part, self.config).program
                cycles = simulate_timing(program).cycles
                count = partial(count_program, program, cycles)
            else:
                found = Forms(of_fewer_operators(part, self.substitutions)).estimate(self.config)
                cycles, count = found.cycles, partial(count_estimated, found)
        except PlaceError:
            return None
        if self.energies is not None:
            self.energies.learn(Part(mask, 1), count())
        return cycles

    def moved(self, part: Graph) -> tuple[int, int]:
        """Cycles of packing what a program reads, and of unpacking what it gives."""
        tensors = {**part.tensors, **self.graph.tensors}  # all channels: a part drops its own alone
        return sum(self._packed(tensors[t]) for t in part.inputs), sum(self._unpacked(tensors[t]) for t in part.outputs)

    def packed(self, part: Graph, tensor: str) -> int:
        """Cycles of packing one input of a program."""
        return self._packed({**part.tensors, **self.graph.tensors}[tensor])

    def in_units(self, tensor: TensorSpec) -> bool:
        """Whether a program reads or gives a tensor as units that hold nothing else, which cores can exchange."""
        channels = tensor.shape[-1]
        whole = units_for(channels, self.config) * self.config.lanes == channels
        return whole and tensor.dtype == "int8" and self.config.batch == 1

    def gives_units(self, part: Part) -> bool:
        """Whether all that a part gives can lie in memory that cores share; else it is launched alone."""
        return all(self.in_units(graph.tensors[name]) for graph, _ in self.programs(part) for name in graph.outputs)

    def given(self, part: Part) -> set[str]:
        """The tensors that a part on cores gives."""
        whole = self.part(part.operators)
        return set() if whole is None else set(whole.outputs)

    def carried(self, part: Part) -> int:
        """Cycles that the host has to move for a part, whichever parts are around it, where cores exchange."""
        if not self.gives_units(part):
            return sum(self.moves(part))
        made = self._made | self.passed(part)
        return sum(
            self.packed(graph, tensor) for graph, of in self.programs(part) for tensor, name in of.items()
            if name not in made or not self.in_units(graph.tensors[tensor])
        )  # fmt: skip

    def passed(self, part: Part) -> set[str]:
        """The tensors that one round of a part gives another."""
        rounds = [] if part.way is None else self.splits.rounds(part)
        return {name for each in rounds[:-1] for name in each.graph.outputs}

    def programs(self, part: Part) -> list[tuple[Graph, dict[str, str]]]:
        """The graphs of a part's programs; of each of their inputs the tensor of the network that it is of."""
        return [program for each in self.launched(part) for program in each]

    def launched(self, part: Part) -> list[list[tuple[Graph, dict[str, str]]]]:
        """Those of each round, which begin together."""
        if part.way is None:
            whole = self.part(part.operators)
            return [] if whole is None else [[_whole(whole)]]
        return [
            [(piece.graph, {name: piece.taken[name][0] for name in piece.graph.inputs}) for piece in each.pieces]
            or [_whole(each.graph)]
            for each in self.splits.rounds(part)
        ]

    def learn(self, part: Part, cycles: int) -> None:
        """What the programs of a part really take, in the place of an estimate."""
        if part.way is not None:
            self.splits.learn(part, cycles)
        else:
            self._core[part.operators] = cycles

    def moves(self, part: Part) -> tuple[int, int]:
        """Cycles of the host before the programs of a part on cores, and after (and between) them."""
        (before, after), *others = self.moves_of_rounds(part) or [(0, 0)]
        return before, after + sum(map(sum, others))

    def moves_of_rounds(self, part: Part) -> list[tuple[int, int]]:
        """Cycles of the host before and after each round of a part's programs."""
        if part.way is not None:
            return self.splits.moves(part)
        graph = self.part(part.operators)
        return [] if graph is None else [self.moved(graph)]

    def _packed(self, tensor: TensorSpec) -> int:
        shape, lanes = image_shape(tensor.shape), self.config.lanes
        step = PackStep(tensor.name, 0, shape, lanes, -(-shape[3] // lanes), batch=self.config.batch)
        data = np.zeros((1, *tensor.shape), "int8")
        return self.cycles(self._times.of(f"pack {shape} {lanes}", lambda: lambda: step.apply(data)))

    def _unpacked(self, tensor: TensorSpec) -> int:
        shape, lanes = image_shape(tensor.shape), self.config.lanes
        step = UnpackStep(tensor.name, 0, shape, tensor.shape, lanes, -(-shape[3] // lanes), batch=self.config.batch)
        rows = np.zeros((1, step.size), np.uint8)
        return self.cycles(self._times.of(f"unpack {shape} {lanes}", lambda: lambda: step.apply(rows)))


def _whole(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """A program that reads whole tensors."""
    return graph, {name: name for name in graph.inputs}
