"""A placement compiled and timed: the integers are those of the greedy one, the times those of its programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jit.place.test_placed import CONFIG, DIGITS, Fixed
from tilewright.jit.network import CompiledModel
from tilewright.jit.place.execute import compile_placed, simulate_placed
from tilewright.jit.place.placed import Placed, place_source
from tilewright.jit.place.problem import Part, Solution, members
from tilewright.jit.place.solve import best_side_by_side
from tilewright.jit.source import open_source
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.sim import simulate_timing


def outputs(model: CompiledModel) -> NDArray[Any]:
    compiled = model.compiled
    artifact = Artifact(
        name="digits", config=CONFIG, programs=tuple(compiled.programs), steps=tuple(compiled.steps),
        inputs=tuple(model.model.inputs), outputs=tuple(model.model.outputs), blobs=compiled.blobs,
    )  # fmt: skip
    (spec,) = artifact.inputs
    x = np.random.default_rng(0).normal(size=(5, *spec.shape[1:])).astype(spec.dtype)
    return np.asarray(Executable(artifact).run(x)[0])


def halves(placed: Placed) -> Solution:
    """The greedy placement with its part on cores cut in two, and an operator after them left to the CPU."""
    (core,) = (part for part in placed.greedy.parts if part.replicas)
    mask = core.operators
    *front, last = members(mask)
    cuts = [sum(1 << k for k in front[:n]) for n in range(1, len(front))]
    whole = sum(1 << k for k in front)
    costs = placed.costs
    cut = next(c for c in cuts if costs.core(c) is not None and costs.core(whole & ~c) is not None)
    parts = [Part(cut, 1), Part(whole & ~cut, 1), Part(1 << last, 0)]
    at = placed.greedy.parts.index(core)
    return Solution((*placed.greedy.parts[:at], *parts, *placed.greedy.parts[at + 1 :]), 0)


def test_a_pipeline_computes_what_the_whole_does() -> None:
    source = open_source(DIGITS)
    placed = place_source(source, CONFIG.replace(cores=2), "throughput", Fixed(10**6))
    pipeline = halves(placed)
    made, greedy = compile_placed(source, placed, pipeline), compile_placed(source, placed, placed.greedy)
    assert len(made.compiled.programs) == 2
    assert len(greedy.compiled.programs) == 1
    assert any("placed on the CPU for throughput" in reason for _, reason in made.moved)
    assert np.array_equal(outputs(made), outputs(greedy))
    first, second = (simulate_timing(p).cycles for p in made.compiled.programs)
    moved = [sum(placed.costs.moved(graph)) for p in pipeline.parts if (graph := placed.costs.part(p.operators))]
    cpu = sum(placed.costs.problem.cpu[k] or 0 for p in pipeline.parts if not p.replicas for k in members(p.operators))
    found = simulate_placed(placed, pipeline, made.compiled.programs, side_by_side=False)
    busiest = max(first + moved[0], second + moved[1], cpu)
    assert found.interval == pytest.approx(busiest, rel=0.01)
    assert found.latency >= first + second + moved[0] + moved[1] + cpu
    beside = simulate_placed(placed, pipeline, made.compiled.programs, side_by_side=True)
    assert beside.interval == pytest.approx(max((first + second + moved[0] + moved[1]) / 2, cpu), rel=0.01)


def test_the_best_is_as_predicted() -> None:
    source = open_source(DIGITS)
    placed = place_source(source, CONFIG.replace(cores=4), "throughput", Fixed(10**6))
    assert placed.best == best_side_by_side(placed.costs.problem, 4)
    made = compile_placed(source, placed, placed.best)
    found = simulate_placed(placed, placed.best, made.compiled.programs, side_by_side=True)
    assert found.interval == pytest.approx(placed.best.cost, rel=0.05)
