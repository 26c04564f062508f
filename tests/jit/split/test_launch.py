"""A stretch in pieces, compiled and run on cores at the same time: the integers of the whole, the time of the last."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.jit.random_graphs import odd_graph
from tests.jit.split.test_pieces import residual
from tilewright.config import PRESETS, Config
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.reference import evaluate
from tilewright.jit.split.pieces import AXES, Axis
from tilewright.jit.split.steps import Split
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device_base import Device
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.report import Report
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.steps import JoinStep, LaunchStep
from tilewright.sim import simulate_timing

TINY = PRESETS["tiny"].replace(cores=4)


def artifact_of(graph: Graph, config: Config, split: Split | None) -> Artifact:
    compiled = compile_graph(graph, config, split=None if split is None else {graph.ops[0].name: split})
    return Artifact(
        name=graph.name, config=config, programs=tuple(compiled.programs), steps=tuple(compiled.steps),
        inputs=tuple(graph.tensors[n] for n in graph.inputs), outputs=tuple(graph.tensors[n] for n in graph.outputs),
    )  # fmt: skip


def run(graph: Graph, artifact: Artifact, count: int = 2, device: Device | None = None) -> Report:
    """Run and compare with the reference."""
    rng = np.random.default_rng(0)
    shapes = {n: graph.tensors[n].shape for n in graph.inputs}
    inputs = {n: rng.integers(-128, 128, (count, *shape[1:])).astype(np.int8) for n, shape in shapes.items()}
    y, report = Executable(Artifact.from_bytes(artifact.to_bytes()), device or SimDevice(artifact.config)).run(inputs)
    for k in range(count):
        expected = evaluate(graph, {n: x[k : k + 1] for n, x in inputs.items()})
        found = y if isinstance(y, list) else [y]
        for name, values in zip(graph.outputs, found):
            np.testing.assert_array_equal(values[k], expected[name][0])
    return report


@pytest.mark.parametrize("axis", AXES)
def test_a_residual_block_on_four_cores(axis: Axis) -> None:
    """In channels all but what makes the last channels is made four times."""
    graph = residual(24)
    alone, split = artifact_of(graph, TINY, None), artifact_of(graph, TINY, Split(4, axis))
    report, one = run(graph, split), run(graph, alone)
    assert run(graph, replace(alone, config=TINY.replace(cores=1))).cycles == one.cycles
    (launch,) = (step for step in split.steps if isinstance(step, LaunchStep))
    assert launch == LaunchStep(0, (1, 2, 3))
    assert report.cycles == max(simulate_timing(program).cycles for program in split.programs)
    assert report.cycles < one.cycles / (2 if axis == "rows" else 1)
    assert report.lower_bound_cycles <= report.cycles == report.interval_cycles
    assert sum(report.causes.values()) == report.cycles
    assert any(note.startswith("4 programs on 4 cores, some at the same time") for note in report.notes)
    assert 0 < report.utilization < 1
    assert json.loads(json.dumps(report.to_dict()))["cycles"] == report.cycles


@pytest.mark.parametrize("seed", [1, 4, 5, 8, 13, 21])
def test_random_graphs_in_pieces(seed: int) -> None:
    builder, outputs = odd_graph(seed)
    graph = builder.graph(*outputs)
    for axis in AXES:
        run(graph, artifact_of(graph, PRESETS["pynq-z2"].replace(cores=3), Split(3, axis)), 1)


def test_a_limit_of_the_dram_holds_the_pieces_up() -> None:
    graph = residual(24)
    free, bound = (
        run(graph, artifact_of(graph, TINY.replace(dram_bandwidth=limit), Split(4, "rows"))) for limit in (0, 8)
    )
    assert bound.cycles > free.cycles


def test_a_device_of_fewer_cores_runs_them_one_after_another() -> None:
    graph = residual(24)
    artifact = artifact_of(graph, TINY, Split(4, "rows"))
    report = run(graph, artifact, device=SimDevice(TINY.replace(cores=1)))
    assert report.cycles == sum(simulate_timing(program).cycles for program in artifact.programs)
    assert sum(isinstance(step, JoinStep) for step in artifact.steps) == 1
