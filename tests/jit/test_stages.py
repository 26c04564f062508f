"""Stretches of accelerator, NumPy and interpreter work, and variables that must not be torn apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import run_compiled
from tilewright.config import PRESETS
from tilewright.jit import compiler
from tilewright.jit import graph as g
from tilewright.jit.errors import NeedsHost, PlaceError
from tilewright.jit.reference import evaluate
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.stages import idle_islands, stages, stages_of_parts


def interpreted(name: str, inputs: list[str], results: list[str], index: int, state: tuple[str, ...] = ()) -> g.Op:
    return g.Interpreted(
        name=name, inputs=inputs, output=results[0] if results else "", results=tuple(results), reason="test",
        covers=(index,), state=state,
    )  # fmt: skip


def requantize(b: GraphBuilder, x: str, index: int) -> str:
    y = b.requantize(x)
    b.ops[-1].covers = (index,)
    return y


def tensor(b: GraphBuilder, name: str) -> str:
    b.tensors[name] = g.TensorSpec(name, b.tensors["x"].shape)
    return name


def kinds(graph: g.Graph) -> list[tuple[str, list[str]]]:
    place = {op.name: "accelerator" for op in graph.ops}
    return [(stage.kind, [op.name.split()[-1] for op in stage.ops]) for stage in stages(graph, place)]


def test_stretches_are_as_large_as_dependencies_allow() -> None:
    b = GraphBuilder(0, (4, 4, 8))
    a, c = b.conv("x", 8), b.conv("x", 8)
    b.ops.append(interpreted("i", [a], [tensor(b, "h")], 2))
    last = b.add(b.conv(c, 8), b.conv("h", 8))
    assert [(kind, len(ops)) for kind, ops in kinds(b.graph(last))] == [
        ("accelerator", 3),
        ("interpreter", 1),
        ("accelerator", 2),
    ]


def test_reads_and_writes_of_a_variable_share_a_stretch() -> None:
    b = GraphBuilder(0, (4, 4, 8))
    b.ops.append(interpreted("read1", [], [tensor(b, "r1")], 0, ("v1",)))
    b.ops.append(interpreted("read2", [], [tensor(b, "r2")], 1, ("v2",)))
    b.ops.append(interpreted("write1", ["x"], [], 2, ("v1",)))
    y = b.conv("r1", 8)
    b.ops.append(interpreted("write2", [y], [], 4, ("v2",)))
    z = b.conv("r2", 8)
    found = kinds(b.graph(z))
    assert found[0] == ("interpreter", ["read1", "write1"])
    assert ("interpreter", ["read2", "write2"]) in found


def test_an_accelerator_operator_between_read_and_write_goes_to_the_host() -> None:
    b = GraphBuilder(0, (4, 4, 8))
    b.ops.append(interpreted("read", [], [tensor(b, "r")], 0, ("v",)))
    y = b.conv("r", 8)
    b.ops[-1].covers = (1,)
    b.ops.append(interpreted("write", [y], [], 2, ("v",)))
    with pytest.raises(NeedsHost) as caught:
        kinds(b.graph(y))
    assert list(caught.value.operators) == [1]


def test_islands_without_arithmetic_stay_with_the_interpreter() -> None:
    b = GraphBuilder(0, (4, 4, 8))
    b.ops.append(interpreted("i", ["x"], [tensor(b, "h")], 0))
    y = requantize(b, "h", 1)
    z = requantize(b, b.conv("h", 8), 3)
    assert list(idle_islands(b.graph(y, z))) == [1]


def test_reshapes_that_the_accelerator_does_not_reach_are_the_hosts() -> None:
    """A chain of them between operators of the interpreter, and one between two convolutions."""
    b = GraphBuilder(0, (4, 4, 8))
    b.ops.append(interpreted("first", ["x"], [tensor(b, "h")], 0))
    x = "h"
    for shape in ((1, 16, 8), (1, 1, 16, 8), (1, 16, 8)):
        x = b.reshape(x, shape)
    b.ops.append(interpreted("second", [x], [tensor(b, "i")], 1))
    y = b.conv(b.reshape(b.reshape(b.conv("i", 8), (1, 4, 4, 8)), (1, 4, 4, 8)), 8)
    graph = b.graph(y)
    assert [[op.kind for op in part.ops] for part in accelerator_graphs(graph)] == [
        ["Conv2D", "Reshape", "Reshape", "Conv2D"]
    ]


def test_a_stage_is_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing but pieces of one operator fit, reshapes between them are steps of their own."""
    b = GraphBuilder(0, (4, 4, 8))
    y = b.conv(b.reshape(b.reshape(b.conv("x", 8), (1, 4, 4, 8)), (1, 4, 4, 8)), 8)
    graph = b.graph(y)
    whole = compiler.best_program

    def small(part: g.Graph, *options: Any) -> Any:
        if len(part.ops) > 1:
            raise PlaceError("does not fit")
        return whole(part, *options)

    monkeypatch.setattr(compiler, "best_program", small)
    compiled = compiler.compile_graph(graph, PRESETS["tiny"])
    assert [step.kind for step in compiled.steps] == [
        "pack", "launch", "unpack", "reshape", "reshape", "pack", "launch", "unpack",
    ]  # fmt: skip
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 8)).astype(np.int8)
    values, _ = run_compiled(compiled, x)
    assert np.array_equal(values[y][0], evaluate(graph, {"x": x})[y])


def test_parts_are_cut_where_the_kind_changes_and_around_what_takes_all_of_a_chip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = GraphBuilder(0, (4, 4, 8))
    x = "x"
    for _ in range(6):
        x = b.conv(x, 8)
    names = [op.name for op in b.ops]
    kind_by_name = dict(
        zip(names, ("accelerator", "alone", "alone", "accelerator", "accelerator", "numpy"), strict=True)
    )
    monkeypatch.setattr("tilewright.jit.stages.kind_of", lambda op, place: kind_by_name[op.name])
    part = dict(zip(names, (0, 0, 0, 0, 1, None), strict=True))
    found = stages_of_parts(b.graph(x), {}, lambda op: part[op.name])
    assert [(stage.kind, [names.index(op.name) for op in stage.ops]) for stage in found] == [
        ("accelerator", [0]), ("alone", [1]), ("alone", [2]), ("accelerator", [3]), ("accelerator", [4]),
        ("numpy", [5]),
    ]  # fmt: skip
