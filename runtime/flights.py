"""Groups of inferences on their way through the steps of an artifact: one after another, or several at once.

At once, the thread that asks for them launches programs and waits for them, and threads of the CPU meanwhile carry out
the host's steps of other groups: they pack, unpack and run operators, in code that releases the interpreter lock. Each
group has segments of its own, so that the next inputs are packed while the accelerators work on the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue

from tilewright.progress import Advance
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import Allocation, Counters, Device
from tilewright.runtime.flow import check_form
from tilewright.runtime.host_steps import Environment, run_host_step
from tilewright.runtime.interpreter_step import reset_interpreter
from tilewright.runtime.interpreters import Interpreter
from tilewright.runtime.report.report import Timings
from tilewright.runtime.steps import InterpreterStep, LaunchStep, PackStep, Step, TensorSpec, UnpackStep, form_of
from tilewright.runtime.stream import Kept, reset_states

SPARE = 2  #: groups under way besides one for each thread of the CPU: one that is launched, one that waits for it


def under_way(jobs: int | None) -> int:
    """Groups that are under way at once with so many threads of the CPU; None: one step after another."""
    return 1 if jobs is None else jobs + SPARE


def of_most_cores(launches: Iterable[Mapping[int, Counters]]) -> dict[int, Counters]:
    """By program the counters of the latest of those launches in which most cores had a share.

    The last group may be of too few inferences for all cores, and says less about the device than a full one.
    """
    found: dict[int, Counters] = {}
    for launch in launches:
        found |= {p: counted for p, counted in launch.items() if p not in found or counted.cores >= found[p].cores}
    return found


@dataclass
class Flight:
    """What carries one group of inferences after another through the steps, in segments of its own.

    ``kept``: what a stream has kept, for groups that follow on each other. ``clock``: seconds for the host's steps.
    ``turn``: held while the device is used, where it can do one thing only.
    """

    artifact: Artifact
    device: Device
    allocations: dict[int, Allocation]
    kept: Kept | None = None
    clock: Callable[[], float] = time.perf_counter
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    timings: Timings = field(default_factory=Timings)
    counters: dict[int, Counters] = field(default_factory=dict)
    group: int = 0  #: which of the groups is under way
    launching: bool = False  #: whether the next step is a launch
    _environment: Environment = field(default_factory=dict)
    _next: int = 0

    def begin(self, group: int, environment: Environment) -> None:
        """Take up a group's inputs, and the states that it finds."""
        inferences = next(iter(environment.values())).shape[0]
        states = self.kept.tensors if self.kept is not None else reset_states(self.artifact, inferences)
        self.group, self._environment, self._next = group, {**environment, **states}, 0
        if self.kept is not None:
            self.kept.under_way = True

    @property
    def inferences(self) -> int:
        """Those of the group."""
        return int(next(iter(self._environment.values())).shape[0])

    def to_launch(self) -> Flight:
        """Carry out the host's steps up to the next launch, or to the end."""
        steps = self.artifact.steps
        while self._next < len(steps) and not isinstance(steps[self._next], LaunchStep):
            self._carry_out(steps[self._next])
            self._next += 1
        self.launching = self._next < len(steps)
        return self

    def launch(self, progress: Advance | None) -> None:
        """Launch what comes next and wait for it."""
        steps = self.artifact.steps
        step = steps[self._next]
        assert isinstance(step, LaunchStep)
        self._next += 1
        last = not any(isinstance(later, LaunchStep) for later in steps[self._next :])
        together = [self.allocations[program] for program in step.programs]
        start = time.perf_counter()
        with self.turn:
            self.device.run_together(together, self.inferences, progress if last else None)
            counted = {program: self.device.counters(self.allocations[program]) for program in step.programs}
        self.counters = of_most_cores([self.counters, counted])
        self.timings.launch_s += time.perf_counter() - start

    def results(self, wanted: Sequence[TensorSpec]) -> Environment:
        """What the steps have made of the group, each tensor checked against what it must be."""
        for tensor in wanted:
            check_form(self.artifact.name, tensor, form_of(self._environment[tensor.name]))
        if self.kept is not None:
            for state in self.artifact.states:
                check_form(self.artifact.name, state, form_of(self._environment[state.name]))
            self.kept.tensors = {state.name: self._environment[state.name] for state in self.artifact.states}
            self.kept.under_way = False
        return {tensor.name: self._environment[tensor.name] for tensor in wanted}

    def _carry_out(self, step: Step) -> None:
        environment, timings, start = self._environment, self.timings, self.clock()
        if isinstance(step, PackStep):
            step.check(form_of(environment[step.tensor]))
            data = step.apply(environment[step.tensor])
            with self.turn:
                self.device.write_stack(self.allocations[step.program], step.segment, step.offset, data)
            timings.pack_s += self.clock() - start
        elif isinstance(step, UnpackStep):
            allocation, inferences = self.allocations[step.program], self.inferences
            with self.turn:
                rows = self.device.read_stack(allocation, step.segment, inferences, step.offset, step.size)
            environment[step.tensor] = step.apply(rows)
            timings.unpack_s += self.clock() - start
        else:
            run_host_step(step, environment, self.artifact.blobs, self._going_on(step))
            seconds = self.clock() - start
            timings.host_s += seconds
            if isinstance(step, InterpreterStep):
                timings.interpreted_s[step.operators] = timings.interpreted_s.get(step.operators, 0.0) + seconds

    def _going_on(self, step: Step) -> Interpreter | None:
        """A stream's own interpreter for a step with a state."""
        if self.kept is None or not isinstance(step, InterpreterStep) or not step.stateful:
            return None
        if self._next not in self.kept.interpreters:
            self.kept.interpreters[self._next] = reset_interpreter(step, self.artifact.blobs)
        return self.kept.interpreters[self._next]


def one_by_one(
    flight: Flight, groups: Sequence[Environment], wanted: Sequence[TensorSpec], progress: Advance | None
) -> list[Environment]:
    """The ``wanted`` tensors of each group, one group after another."""
    found = []
    for number, group in enumerate(groups):
        flight.begin(number, group)
        while flight.to_launch().launching:
            flight.launch(progress)
        found.append(_ended(flight, wanted, progress))
    return found


def at_once(
    flights: Sequence[Flight], groups: Sequence[Environment], wanted: Sequence[TensorSpec], jobs: int,
    progress: Advance | None,
) -> tuple[list[Environment], float | None]:  # fmt: skip
    """As :func:`one_by_one`, with as many groups under way as there are flights and ``jobs`` threads of the CPU.

    Also gives the inferences that ended in a second, from the end of the first group to that of the last; None where
    there was but one.
    """
    found: list[Environment] = [{} for _ in groups]
    ends: list[tuple[float, int]] = []
    waiting = list(enumerate(groups))[::-1]
    events: SimpleQueue[Future[Flight]] = SimpleQueue()
    with ThreadPoolExecutor(jobs, thread_name_prefix="cpu") as pool:

        def go_on(flight: Flight) -> None:
            pool.submit(flight.to_launch).add_done_callback(events.put)

        try:
            for flight in flights[: len(groups)]:
                flight.begin(*waiting.pop())
                go_on(flight)
            while len(ends) < len(groups):
                flight = events.get().result()
                if flight.launching:
                    flight.launch(progress)
                    go_on(flight)
                    continue
                found[flight.group] = _ended(flight, wanted, progress)
                ends.append((time.perf_counter(), flight.inferences))
                if waiting:
                    flight.begin(*waiting.pop())
                    go_on(flight)
        finally:
            pool.shutdown(cancel_futures=True)  # before the segments are given back
    later = sum(count for _, count in ends[1:])
    return found, later / (ends[-1][0] - ends[0][0]) if later else None


def _ended(flight: Flight, wanted: Sequence[TensorSpec], progress: Advance | None) -> Environment:
    if progress is not None and not flight.counters:
        progress(flight.inferences)  # nothing was launched that would have said so
    return flight.results(wanted)
