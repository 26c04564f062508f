"""Which schedules are tried for one program, and which are not because nothing is to be gained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ModelCase
from tests.jit.builder import GraphBuilder
from tests.jit.proof.cases import NO_PADDING, SMALL, inverted_residuals
from tilewright.config import PRESETS, Config
from tilewright.isa.codec import EncodingError, Instruction
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory, Opcode, instruction_width
from tilewright.isa.tokens.hazards import HazardTracker
from tilewright.jit import programs
from tilewright.jit.cost.estimate import SCHEDULES, streaming
from tilewright.jit.cost.forms import Forms
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model
from tilewright.jit.lower.lowering import lower
from tilewright.jit.plan.planner import Planner
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.tiled.program import TiledProgram

PYNQ = PRESETS["pynq-z2"]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that were written and simulated."""
    found: list[Program] = []
    original = programs.simulate_timing

    def timing(program: Program) -> Any:
        found.append(program)
        return original(program)

    monkeypatch.setattr(programs, "simulate_timing", timing)
    return found


def small_graph() -> Graph:
    b = GraphBuilder(1, (6, 6, 16))
    return b.graph(b.conv(b.conv("x", 16), 16, (1, 1), padding=NO_PADDING))


def compiled(graph: Graph, config: Config) -> int:
    """Cycles of the program that is kept."""
    found = programs.best_program(graph, config, programs.POLICIES, None)
    return int(programs.simulate_timing(found.program).cycles)


def test_what_is_decided_alike_is_written_once(simulated: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    """One row leaves a policy little to decide."""
    monkeypatch.setattr(programs, "BEST", 1e9)
    monkeypatch.setattr(programs, "NEAR", 1e9)
    said: list[str] = []
    b = GraphBuilder(1, (1, 1, 16))
    graph = b.graph(b.dense("x", 16))
    programs.best_program(graph, PYNQ, programs.POLICIES, lambda what, done, total: said.append(what))
    assert said == ["schedules"] * len(programs.POLICIES) + ["proving"]
    assert len(simulated) == 1


def test_tiles_that_the_coarse_count_makes_slower_are_not_written(
    simulated: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    original = TiledProgram.program

    def program(self: TiledProgram, choice: Any, meta: dict[str, Any]) -> Program:
        written.append(1)
        return original(self, choice, meta)

    monkeypatch.setattr(TiledProgram, "program", program)
    monkeypatch.setattr(programs, "NEAR", 0.0)
    monkeypatch.setattr(programs, "HOPELESS", 1e9)
    best = compiled(small_graph(), PYNQ)
    assert written
    written.clear()
    monkeypatch.setattr(programs, "HOPELESS", 0.0)
    assert compiled(small_graph(), PYNQ) >= best
    assert not written


def test_on_the_chip_tiles_are_taken_where_they_are_faster() -> None:
    """Weights take the bus most of the time here. The estimate of a graph looks at tiles, so they must be tried."""
    b, config = GraphBuilder(1, (7, 7, 512)), PRESETS["zcu104"]
    graph = b.graph(b.conv("x", 128))
    rows = streaming(Planner(lower(graph, config).tables, config), SCHEDULES)
    assert rows is not None  # it streams as a whole
    cycles = compiled(graph, config)
    assert cycles < 0.97 * rows.cycles
    assert cycles == pytest.approx(Forms(graph).estimate(config).cycles, rel=0.05)


def test_no_more_memories_are_tried_after_enough_instructions(
    simulated: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Config] = []
    original = programs._smaller

    def smaller(config: Config, field: str, all_sizes: bool) -> list[Config]:
        asked.extend(found := original(config, field, all_sizes))
        return found

    def tried(enough: int) -> int:
        simulated.clear()
        monkeypatch.setattr(programs, "ENOUGH", enough)
        programs.best_program(inverted_residuals(SMALL), SMALL, programs.POLICIES, None)
        return len(simulated)

    monkeypatch.setattr(programs, "_smaller", smaller)
    assert tried(0) < tried(1 << 30)
    assert asked


def test_twice_the_memory_is_never_slower(model_case: Callable[[str], ModelCase]) -> None:
    """Where instructions are as wide as before: the schedule for less memory runs, and is among those tried."""
    larger = PYNQ.replace(wgt_bytes=2 * PYNQ.wgt_bytes)
    assert instruction_width(larger) == instruction_width(PYNQ)
    for graph in accelerator_graphs(import_model(model_case("dscnn_keywords").model).graph):
        assert compiled(graph, larger) <= compiled(graph, PYNQ)


@pytest.mark.parametrize(
    ("memory", "address", "error"),
    [(Memory.ACT, -1, EncodingError), (Memory.ACT, 1 << 40, EncodingError), (Memory.PRM, PYNQ.prm_entries, IndexError)],
)
def test_no_access_lies_outside_its_memory(memory: Memory, address: int, error: type[Exception]) -> None:
    tracker = HazardTracker(PYNQ)
    tracker.add(Instruction(Opcode.FILL, {"memory": int(memory), "sram": address}), None, 0)
    with pytest.raises(error, match="outside|must be from"):
        tracker.finish()


def test_what_only_a_plan_in_groups_fits_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rings and constants seem to fit, and no schedule of the whole does."""
    monkeypatch.setattr(programs._Forms, "streams", lambda self, plan: True)
    graph = inverted_residuals(SMALL)
    found = programs.best_program(graph, SMALL, programs.POLICIES, None)
    assert not found.rejected
