"""Networks larger than the chip: slices, groups, places and spills; and what is said when nothing helps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tests.conftest import ModelCase
from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact, run_compiled
from tilewright.config import PRESETS, Config
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import Estimate, grouped
from tilewright.jit.cost.slices import best_slices
from tilewright.jit.cost.slicing import finer_slices, slice_graph
from tilewright.jit.graph import Conv2D, Graph
from tilewright.jit.importer import import_model
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.places import Placed, placed_plan
from tilewright.jit.plan.planner import Planner
from tilewright.jit.plan.policy import PLANNED
from tilewright.jit.programs import _Forms, _program
from tilewright.jit.reference import evaluate
from tilewright.sim import simulate_timing

TINY = PRESETS["tiny"]
SMALL = TINY.replace(name="small", act_bytes=4096, wgt_bytes=8192, prm_entries=16)


def inverted_residuals(seed: int = 0, channels: int = 8, wide: int = 48) -> Graph:
    """Expand, depthwise and project three times, with a residual add and a classifier."""
    b = GraphBuilder(seed, (12, 12, 3))
    x = b.conv("x", channels, (3, 3), (2, 2), (0, 0, 1, 1))
    for step in range(3):
        y = b.conv(x, wide, (1, 1), padding=(0, 0, 0, 0))
        y = b.depthwise(y)
        y = b.conv(y, channels, (1, 1), padding=(0, 0, 0, 0))
        x = b.add(x, y) if step else y
    x = b.conv(x, 96, (1, 1), padding=(0, 0, 0, 0))
    x = b.average_pool(x, (6, 6))
    return b.graph(b.dense(x, 10))


def residual_stages(seed: int = 0) -> Graph:
    """3x3 convolutions whose weights exceed wgt and whose tensors exceed act, with residual adds."""
    b = GraphBuilder(seed, (20, 20, 3))
    x = b.conv("x", 16)
    for channels in (16, 32):
        y = b.conv(x, channels, strides=(2, 2))
        y = b.conv(y, channels)
        x = b.add(y, b.conv(x, channels, (1, 1), (2, 2), (0, 0, 0, 0)))
    return b.graph(b.dense(b.average_pool(x, (5, 5)), 12))


def planned(graph: Graph, config: Config) -> tuple[Lowered, list[list[str]]]:
    """The lowered graph after planning, and the buffers that live in each group."""
    lowered = lower(slice_graph(graph, config), config)
    placed = placed_plan(Planner(lowered.tables, config), 0.5, 4)
    assert isinstance(placed, Placed)
    lowered.bind(placed.plan)
    names = list(lowered.buffers)
    for name, base in zip(names, placed.base, strict=True):
        lowered.buffers[name].base = base
    rows = placed.plan.bound.buffers
    return lowered, [
        [name for name, row in zip(names, rows, strict=True) if row[b.B_GROUP] <= group <= row[b.B_LAST_GROUP]]
        for group in range(placed.plan.groups)
    ]


@pytest.mark.parametrize("config", [SMALL, SMALL.replace(name="packed", dsp_packing=True)], ids=lambda c: c.name)
@pytest.mark.parametrize("build", [inverted_residuals, residual_stages])
def test_exact_when_the_chip_is_too_small(build: Callable[[], Graph], config: Config) -> None:
    assert assert_exact(build(), config) > 0


def test_outputs_alone_are_exact_too() -> None:
    graph = residual_stages(3)
    x = np.random.default_rng(3).integers(-128, 128, (1, 20, 20, 3)).astype(np.int8)
    compiled = compile_graph(graph, SMALL)
    values, _ = run_compiled(compiled, x)
    wanted = evaluate(graph, {"x": x})[graph.outputs[0]]
    assert np.array_equal(values[graph.outputs[0]][0], wanted)
    assert any(s.kind == "scratch" for s in compiled.programs[0].segments)


def test_slices_cover_the_channels_of_wide_tensors_only() -> None:
    graph = inverted_residuals()
    sliced = slice_graph(graph, SMALL)
    assert sliced.parts
    for tensor, parts in sliced.parts.items():
        assert sum(sliced.graph.tensors[p].shape[3] for p in parts) == graph.tensors[tensor].shape[3] >= 48
    readers = [op for op in sliced.graph.ops if isinstance(op, Conv2D) and len(op.inputs) > 1]
    assert readers
    assert {graph.ops[sliced.layers[op.name]].output for op in readers} & set(graph.tensors)
    assert slice_graph(graph, PRESETS["zcu104"]).parts == {}


def test_finer_slices_make_strips_taller() -> None:
    """Where the estimate thinks so, and the program agrees; every channel is computed once."""
    b = GraphBuilder(3, (32, 28, 16))
    x = b.conv(b.depthwise(b.conv("x", 16)), 128, (1, 1), padding=(0, 0, 0, 0))
    graph = b.graph(b.conv(b.depthwise(x, strides=(2, 2)), 16, (1, 1), padding=(0, 0, 0, 0)))
    config = PRESETS["pynq-z2"].replace(name="half", act_bytes=32768, axi_ports=1)
    finer = finer_slices(graph, config)
    assert finer == {x: [2, 3, 4]}
    cut = best_slices(graph, config, lambda cut: lower(cut, config).tables)
    assert [len(parts) for parts in cut.parts.values()] == [3, 3]
    assert cut.parts.keys() == slice_graph(graph, config, {x: 2}).parts.keys()
    asked: list[NetworkTables] = []

    def second(tables: NetworkTables) -> bool:
        asked.append(tables)
        return len(asked) == 2

    other = best_slices(graph, config, lambda cut: lower(cut, config).tables, second)  # the best finds no places
    found = [grouped(Planner(tables, config)) for tables in asked]
    first, next_best = found
    assert isinstance(first, Estimate)
    assert isinstance(next_best, Estimate)
    assert first.cycles <= next_best.cycles
    assert other.parts != cut.parts
    none = best_slices(graph, config, lambda cut: lower(cut, config).tables, lambda _: False)
    assert none.parts == slice_graph(graph, config).parts
    forms = _Forms(graph, config)
    cycles = [
        simulate_timing(_program(forms, PLANNED, config, False, finer=each)[2]()[0]).cycles for each in (False, True)
    ]
    assert cycles[1] < 0.9 * cycles[0]
    x = np.random.default_rng(3).integers(-128, 128, (1, 32, 28, 16)).astype(np.int8)
    values, taken = run_compiled(compile_graph(graph, config), x)
    (output,) = graph.outputs
    assert taken < 0.9 * cycles[0]  # tiles near the lower bound end the search before finer slices are tried
    assert np.array_equal(values[output][0], evaluate(graph, {"x": x})[output])


def test_buffers_of_one_group_have_disjoint_places() -> None:
    lowered, live = planned(inverted_residuals(), SMALL)
    for names in live:
        spans = sorted((lowered.buffers[t].base, lowered.buffers[t].size) for t in names)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))
        assert spans[-1][0] + spans[-1][1] <= SMALL.act_units


def test_the_floor_does_not_depend_on_the_cut() -> None:
    graph = inverted_residuals()
    programs = [compile_graph(graph, config).programs[0] for config in (SMALL, TINY.replace(prm_entries=128))]
    assert programs[0].meta["floor_cycles"] == programs[1].meta["floor_cycles"]


def test_rows_too_wide_for_acc_run_in_tiles() -> None:
    b = GraphBuilder(5, (4, 200, 40))
    graph = b.graph(b.add(b.conv(b.depthwise("x"), 40), "x"))
    assert assert_exact(graph, TINY.replace(name="least", act_bytes=2048, act_banks=2)) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name,limit",
    [
        ("pynq-z2", 1.15),
        ("vta-64", 1.1),
    ],
)
def test_mobilenet_v2(name: str, limit: float, model_case: Callable[[str], ModelCase]) -> None:
    """Every operator exact, cycles near the lower bound."""
    case = model_case("mobilenet_v2_imagenet")
    model = import_model(case.model)
    x = case.x[0].reshape(model.inputs[0].shape)
    expected = evaluate(model.graph, {model.inputs[0].name: x}, keep=True)
    for keep in (False, True):
        compiled = compile_graph(model.graph, PRESETS[name], keep_intermediates=keep)
        values, cycles = run_compiled(compiled, x)
        made = [op.output for op in model.graph.ops if op.output in values]
        assert len(made) >= (64 if keep else 1)
        for tensor in made:
            got = values[tensor][0]
            assert np.array_equal(got, expected[tensor].reshape(got.shape)), tensor
        assert keep or cycles <= limit * compiled.programs[0].meta["floor_cycles"]


@pytest.mark.slow
def test_resnet_18_layers() -> None:
    """Its layers with their channels, on an image of 64 x 64."""
    b = GraphBuilder(1, (64, 64, 3))
    x = b.max_pool(b.conv("x", 64, (7, 7), (2, 2), (3, 3, 3, 3)), (3, 3), (2, 2), (1, 1, 1, 1))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for step in (2 if stage else 1, 1):
            y = b.conv(b.conv(x, channels, strides=(step, step)), channels)
            x = b.add(y, b.conv(x, channels, (1, 1), (2, 2), (0, 0, 0, 0)) if step == 2 else x)
    graph = b.graph(b.dense(b.average_pool(x, b.shape(x)[1:3]), 1000))
    assert assert_exact(graph, PRESETS["pynq-z2"]) > 0
