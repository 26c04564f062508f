"""Two mistakes that the compiler once made and its tests missed: the proof refuses their programs, and no others.

Rows of a ring stayed for their consumers alone. A concatenation that was an output lost rows of its first part while
the second was computed; a tensor that went through DRAM chunk by chunk lost the padding above it. Both mistakes are
planted here again, whatever the compiler does today.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import run_compiled
from tests.jit.proof.cases import Case, output_concat, parts
from tilewright.config import PRESETS, Config
from tilewright.isa.program import Program
from tilewright.isa.verifier import verify
from tilewright.jit import programs
from tilewright.jit.compiler import CompiledGraph, compile_graph
from tilewright.jit.errors import PlaceError, ProofError
from tilewright.jit.graph import Graph
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.planner import Draft, Plan, Planner
from tilewright.jit.plan.policy import PLANNED, POLICIES
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.proof import Proof
from tilewright.jit.reference import evaluate
from tilewright.jit.schedule.scheduler import Scheduler
from tilewright.sim import simulate_timing

#: (height, width, channels in, between, out) of pairs of 3x3 convolutions, and the first row that Config() gets wrong
WIDE_PAIRS = [
    ((5, 9, 175, 895, 237), 0), ((4, 4, 380, 397, 236), 0), ((16, 21, 288, 467, 238), 0),
    ((15, 6, 32, 470, 111), 0), ((9, 21, 368, 356, 115), 6), ((8, 8, 184, 643, 88), None),
]  # fmt: skip


@pytest.fixture
def defective(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler with both mistakes, which neither verifies nor proves what it makes.

    It has no tiles to fall back on: they keep no rings, so neither mistake shows in them.
    """

    def consumers_only(self: Any, state: Any) -> int:
        lowest = 1 << 60
        for node, k in state.consumers:
            if self._next[node] < len(self.nodes[node].tasks):
                lowest = min(lowest, max(0, self._lowest[node][k][self._next[node]] + state.buffer.pad[0]))
        return lowest

    grouped = Planner.grouped

    def no_padding_beside_open_rows(
        self: Planner, share: float, slack: int, draft: Draft | None = None
    ) -> Plan | Refusal:
        """Planned for twice the room, then the rows taken away that the mistake forgot."""
        draft, config = draft or self.draft(share), self.c
        self.c = config * np.where(np.arange(len(config)) == t.C_ACT, 2, 1)
        plan = grouped(self, share, 0, Draft(draft.group_of, 2 * draft.budget, draft.spills))
        self.c = config
        assert isinstance(plan, Plan)
        for row in plan.bound.buffers:
            makers = plan.network.makers[row[b.B_MAKE] : row[b.B_MAKE] + row[b.B_MAKES]]
            if row[b.B_GROUP] == row[b.B_LAST_GROUP] and not row[b.B_READS] and len(makers):
                begun = plan.nodes[makers, t.N_OPEN].max()
                row[b.B_CAPACITY] = min(row[b.B_ROWS], max(begun, 1 + max(row[b.B_TOP], row[b.B_BOTTOM])))
        return plan

    def no_tiles(*given: Any) -> None:
        raise PlaceError("left out")

    monkeypatch.setattr(Scheduler, "_lowest_needed", consumers_only)
    monkeypatch.setattr(Planner, "grouped", no_padding_beside_open_rows)
    monkeypatch.setattr(programs, "_tiled", no_tiles)
    monkeypatch.setattr(programs, "_check", lambda *given: None)


def refused(compiled: CompiledGraph) -> str:
    """Why the program is not proven; empty if it is. The verifier has nothing to say."""
    (part,) = parts(compiled)
    verify(part.program)
    try:
        assert part.prove().followed
        return ""
    except ProofError as error:
        return str(error)


def wrong_elements(graph: Graph, compiled: CompiledGraph) -> int:
    """Output elements that differ from the reference on a random input."""
    x = np.random.default_rng(0).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    values, _ = run_compiled(compiled, x)
    expected = evaluate(graph, {"x": x})
    return sum(int((values[t][0] != expected[t]).sum()) for t in graph.outputs)


@pytest.mark.usefixtures("defective")
@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_a_concatenation_as_output(config: Config) -> None:
    """Of the compiler's schedules those are refused that are wrong, which is some of them on every preset."""
    graph = output_concat(config)
    messages = []
    for policy in POLICIES:
        compiled = compile_graph(graph, config, policies=(policy,))
        messages.append(refused(compiled))
        assert bool(messages[-1]) == bool(wrong_elements(graph, compiled))
    assert any(messages)
    assert "output t3: " in max(messages)


@pytest.mark.usefixtures("defective")
@pytest.mark.parametrize("sizes,row", WIDE_PAIRS)
def test_padding_above_a_wide_tensor(sizes: tuple[int, ...], row: int | None) -> None:
    height, width, first, middle, last = sizes
    b = GraphBuilder(1, (height, width, first))
    graph = b.graph(b.conv(b.conv("x", middle), last))
    compiled = compile_graph(graph, Config(), policies=(PLANNED,))
    message = refused(compiled)
    assert bool(message) == bool(wrong_elements(graph, compiled)) == (row is not None)
    if row is not None:
        assert f"the first at row {row}, column 0, channel 0" in message
        assert "layer op001 conv is the first to write" in message


def test_the_compiler_takes_another_schedule_or_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are proven in order of cycles, the first that is right is kept, and none is an error."""
    simulated: list[int] = []
    tried: list[int] = []
    allowed = 3

    def timing(program: Program) -> Any:
        result = simulate_timing(program)
        simulated.append(result.cycles)
        return result

    def prove(graph: Graph, program: Program, packs: Any, unpacks: Any) -> Proof:
        tried.append(simulate_timing(program).cycles)
        if len(tried) < allowed:
            raise ProofError(f"{graph.name}: refusal {len(tried)}")
        return Proof("symbolic", 0, 0.0)

    monkeypatch.setattr(programs, "simulate_timing", timing)
    monkeypatch.setattr(programs, "prove", prove)
    case = Case(output_concat, PRESETS["pynq-z2"])
    found = programs.best_program(case.graph, case.config, POLICIES, None)
    assert tried == sorted(simulated)[:3]
    assert simulate_timing(found.program).cycles == tried[2]
    assert found.rejected == ("random: refusal 1", "random: refusal 2")
    simulated.clear()
    tried.clear()
    allowed = 100
    with pytest.raises(ProofError, match="refusal 1$"):
        programs.best_program(case.graph, case.config, POLICIES, None)
    assert sorted(tried) == sorted(simulated)
    assert len(tried) > len(POLICIES), "tiles are tried at last"
