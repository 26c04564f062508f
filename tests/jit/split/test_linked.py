"""Launches made one: the same integers, and no step of the host in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jit.random_graphs import odd_graph
from tests.jit.split.test_launch import TINY, run
from tests.jit.split.test_pieces import residual
from tilewright.config import PRESETS, Config
from tilewright.isa.verifier import VerifyError, verify
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph, Op
from tilewright.jit.place.exchange import launch_cycles
from tilewright.jit.split.linked import linked
from tilewright.jit.split.pieces import AXES
from tilewright.jit.split.steps import Split
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device_base import DeviceError
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.steps import LaunchStep


def parted(graph: Graph, config: Config, cuts: list[int], splits: list[Split | None]) -> Artifact:
    """A graph in parts that begin at some of its operators, each as a whole or in pieces."""
    number = {op.name: sum(k >= cut for cut in cuts) for k, op in enumerate(graph.ops)}
    firsts = [graph.ops[cut].name for cut in (0, *cuts)]

    def part_of(op: Op) -> int:
        return number[op.name]

    split = {name: how for name, how in zip(firsts, splits, strict=True) if how is not None}
    compiled = compile_graph(graph, config, part_of=part_of, split=split)
    return Artifact(
        name=graph.name, config=config, programs=tuple(compiled.programs), steps=tuple(compiled.steps),
        inputs=tuple(graph.tensors[n] for n in graph.inputs), outputs=tuple(graph.tensors[n] for n in graph.outputs),
    )  # fmt: skip


def link(artifact: Artifact) -> Artifact:
    steps, programs = linked(artifact.steps, artifact.programs, artifact.outputs, artifact.config)
    return replace(artifact, steps=tuple(steps), programs=tuple(programs))


def launches(artifact: Artifact) -> list[LaunchStep]:
    return [step for step in artifact.steps if isinstance(step, LaunchStep)]


ROWS = Split(4, "rows")


@pytest.mark.parametrize("splits", [[ROWS] * 3, [None, ROWS, None], [ROWS, None, Split(2, "rows")]])
def test_parts_become_one_launch(splits: list[Split | None]) -> None:
    graph = residual(24)
    apart = parted(graph, TINY, [1, 3], splits)
    whole = link(apart)
    assert len(launches(apart)) == 3
    (launch,) = launches(whole)
    assert len(launch.programs) == 4
    assert {type(step) for step in whole.steps} <= {type(s) for s in apart.steps}
    one, before = run(graph, whole), run(graph, apart)
    assert one.cycles < before.cycles * 1.1
    with pytest.raises(VerifyError):
        verify(whole.programs[0])


def test_a_device_of_fewer_cores_refuses_it_by_name() -> None:
    graph = residual(24)
    whole = link(parted(graph, TINY, [1], [ROWS, ROWS]))
    with pytest.raises(DeviceError, match="4 programs wait for each other, each on a core of its own, and there are 1"):
        run(graph, whole, device=SimDevice(TINY.replace(cores=1)))


def test_a_core_of_such_a_program_does_not_run_alone() -> None:
    whole = link(parted(residual(24), TINY, [1], [ROWS, ROWS]))
    device = SimDevice(TINY)
    allocation = device.allocate(whole.programs[0], 1)
    with pytest.raises(DeviceError, match="shares memory with others"):
        device.launch(allocation, 1)


@pytest.mark.parametrize("seed", [1, 4, 5, 8, 13, 21])
def test_random_graphs_in_parts(seed: int) -> None:
    """Whatever can be linked is: strides, concatenations, channels, and tensors that several parts read."""
    builder, outputs = odd_graph(seed)
    graph = builder.graph(*outputs)
    cuts = sorted({len(graph.ops) // 3, 2 * len(graph.ops) // 3} - {0})
    for axis in AXES:
        config = PRESETS["pynq-z2"].replace(cores=3)
        apart = parted(graph, config, cuts, [Split(3, axis)] * (len(cuts) + 1))
        run(graph, link(apart), 2)


def test_what_is_linked_ends_before_what_is_not() -> None:
    """Even without the host: a neighbour's rows are there before the last core has ended."""
    graph = residual(24)
    apart = parted(graph, TINY, [1, 3], [ROWS, ROWS, ROWS])
    programs = [[apart.programs[k] for k in step.programs] for step in launches(apart)]
    (launch,) = launches(link(apart))
    whole = [link(apart).programs[k] for k in launch.programs]
    assert launch_cycles(TINY, whole) < 1.1 * sum(launch_cycles(TINY, together) for together in programs)
