"""Launches that become one where their programs exchange through memory that cores share, and what that saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.jit.network import CompiledModel
from tilewright.jit.place.costs import Costs
from tilewright.jit.place.splits import LAUNCH_NANOSECONDS
from tilewright.jit.split.linked import linked
from tilewright.runtime.steps import JoinStep, LaunchStep, PackStep, Step, UnpackStep
from tilewright.sim import Run, simulate_cores

Timed = tuple[str, tuple[int, int, int, int], int]  #: what steps have in common that take as long on the host


def exchanged(costs: Costs, made: CompiledModel) -> tuple[CompiledModel, int]:
    """A compiled model with as few launches as can be, and the cycles that an inference is shorter; it as it was, and
    0, where none is."""
    before = made.compiled
    kept = [*made.model.outputs, *before.states]
    steps, programs = linked(before.steps, before.programs, kept, costs.config)
    if len(programs) == len(before.programs):
        return made, 0
    saved = _spent(costs, before.steps, before.programs) - _spent(costs, steps, programs)
    if saved <= 0:
        return made, 0
    return replace(made, compiled=replace(before, steps=steps, programs=programs)), saved


def launch_cycles(config: Config, programs: Sequence[Program]) -> int:
    """Cycles of programs that begin together on cores of their own, until the last has ended."""
    runs = [Run(core, program) for core, program in enumerate(programs)]
    return max(ran.end for ran in simulate_cores(config, runs))


def _spent(costs: Costs, steps: Sequence[Step], programs: Sequence[Program]) -> int:
    """Cycles of all launches, and of the host around them, as placement counts them."""
    launched = [[programs[number] for number in step.programs] for step in steps if isinstance(step, LaunchStep)]
    return sum(launch_cycles(costs.config, together) for together in launched) + host_cycles(costs, steps)


def host_cycles(costs: Costs, steps: Sequence[Step]) -> int:
    """Cycles of the host around all launches."""
    several = [len(step.programs) for step in steps if isinstance(step, LaunchStep) and step.beside]
    found = Counter(timed for timed in map(_timed, steps) if timed is not None)
    moves: int = sum(count * _time(costs, timed) for timed, count in found.items())
    return moves + sum(costs.cycles(LAUNCH_NANOSECONDS * count) for count in several)


def _timed(step: Step) -> Timed | JoinStep | None:
    if isinstance(step, PackStep | UnpackStep):
        return step.kind, step.shape, step.lanes
    return step if isinstance(step, JoinStep) else None


def _time(costs: Costs, timed: Timed | JoinStep) -> int:
    if isinstance(timed, JoinStep):
        shapes = [[n - o for n, o in zip(timed.shape, origin)] for origin in timed.origins]
        parts = [np.zeros((1, *shape), "int8") for shape in shapes]
        return costs.measured(f"join {timed.shape} of {timed.origins}", partial(timed.apply, parts))
    kind, shape, lanes = timed
    units = -(-shape[3] // lanes)
    if kind == PackStep.kind:
        pack = PackStep("", 0, shape, lanes, units)
        return costs.measured(f"pack {shape} {lanes}", partial(pack.apply, np.zeros((1, *shape), "int8")))
    unpack = UnpackStep("", 0, shape, shape, lanes, units)
    return costs.measured(f"unpack {shape} {lanes}", partial(unpack.apply, np.zeros((1, unpack.size), np.uint8)))
