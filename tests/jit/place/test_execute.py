"""A placement compiled and timed: the integers are those of the greedy one, the times those of its programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jit.place.test_placed import CONFIG, DIGITS, Fixed
from tests.jit.tflite_models import SAME, TfliteBuilder
from tilewright.jit.network import CompiledModel
from tilewright.jit.place.execute import Stage, compile_placed, measure, simulate_placed
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
    busiest = max(first, second, cpu + sum(moved))
    assert found.interval == pytest.approx(busiest, rel=0.01)
    assert found.latency >= first + second + moved[0] + moved[1] + cpu
    beside = simulate_placed(placed, pipeline, made.compiled.programs, side_by_side=True)
    assert beside.interval == pytest.approx(max((first + second) / 2, cpu + sum(moved)), rel=0.01)


def test_the_best_is_as_predicted() -> None:
    source = open_source(DIGITS)
    placed = place_source(source, CONFIG.replace(cores=4), "throughput", Fixed(10**6))
    assert placed.best == best_side_by_side(placed.costs.problem, 4)
    made = compile_placed(source, placed, placed.best)
    found = simulate_placed(placed, placed.best, made.compiled.programs, side_by_side=True)
    assert found.interval == pytest.approx(placed.best.cost, rel=0.05)


def test_an_operator_alone_between_those_of_the_cpu_is_where_it_is_placed(tmp_path: Path) -> None:
    """Unasked the compiler leaves it to the CPU, for want of multiply-accumulates."""
    b = TfliteBuilder(1)
    x = b.tensor([1, 8, 8, 8], 0.1, 0)
    y, z, end = (b.tensor([1, 8, 8, 8], scale, 3) for scale in (0.9, 0.8, 0.7))
    fields = {"StrideH": 1, "StrideW": 1, "Padding": SAME, "DilationHFactor": 1, "DilationWFactor": 1}
    for source_tensor, target in ((x, y), (z, end)):
        weights, scales = b.weights([8, 1, 1, 8], 0)
        if target == end:
            b.op("LOGISTIC", [y], z)
        b.op("CONV_2D", [source_tensor, weights, b.bias(source_tensor, scales, 8)], target, "Conv2DOptions", **fields)
    b.tensors[z].update(scale=1 / 256, zero_point=-128)
    source = open_source(b.save(tmp_path / "m.tflite", [x], [end]))
    placed = place_source(source, CONFIG, "throughput", Fixed(10**6))
    kinds = [type(op).__name__ for op in placed.costs.graph.ops]
    assert len(kinds) == 3, kinds
    alone = Solution((Part(1, 0), Part(2, 1), Part(4, 0)), 0)
    (program,) = compile_placed(source, placed, alone).compiled.programs
    assert len(program.meta["layers"]) == 1
    assert simulate_placed(placed, alone, [program], side_by_side=True).interval > 0


@pytest.mark.parametrize("cpu,core,expected", [(119, 500, 125), (119, 400, 119), (60, 500, 125)])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_timed_is_a_steady_state(cpu: int, core: int, expected: int, seed: int) -> None:
    """Cores begin late while the CPU packs for the inferences ahead, which makes the first results come too fast."""
    rng = np.random.default_rng(seed)
    config, parts = CONFIG.replace(cores=4), 1 + 2 * seed
    shares = [np.diff([0, *np.sort(rng.integers(0, 1000 * whole, n - 1)), 1000 * whole]).tolist()
              for whole, n in ((core, parts), (cpu, parts + 1))]  # fmt: skip
    stages = [Stage(shares[1][0], range(4, 5))]
    for on_core, after in zip(shares[0], shares[1][1:]):
        stages += [Stage(on_core, range(4)), Stage(after, range(4, 5))]
    found = measure(config, stages)
    assert 1000 * expected * 0.999 <= found.interval <= 1000 * expected * 1.02
    assert found.latency >= 1000 * (cpu + core)
