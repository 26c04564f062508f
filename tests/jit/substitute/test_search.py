"""The search finds what costs least, and the compiler keeps what the simulator says is faster."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact, run_compiled
from tests.jit.substitute.drawn import drawn_for, side_by_side
from tilewright.config import PRESETS
from tilewright.jit import compiler
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph, paying, promising
from tilewright.jit.plan.policy import POLICIES
from tilewright.jit.reference import evaluate
from tilewright.jit.substitute import RULES, Found, Substitution, search, substituted
from tilewright.sim import simulate_timing

PYNQ = PRESETS["pynq-z2"]


def depthwise_chain(layers: int, shape: tuple[int, int, int] = (4, 4, 3)) -> g.Graph:
    """A graph in which each layer can be substituted, by itself."""
    b = GraphBuilder(0, shape)
    x = "x"
    for _ in range(layers):
        x = b.depthwise(x)
    return b.graph(x)


def dense(graph: g.Graph) -> frozenset[int]:
    return frozenset(k for k, op in enumerate(graph.ops) if isinstance(op, g.Conv2D))


@pytest.mark.parametrize("seed", range(20))
def test_the_least_of_all_combinations_is_found(seed: int) -> None:
    """Costs that add up but for some pairs, which are worth more or less together than apart."""
    graph, rng = depthwise_chain(6), np.random.default_rng(seed)
    alone = rng.integers(-40, 40, 6)
    pairs = {pair: int(rng.integers(-25, 25)) for pair in itertools.combinations(range(6), 2) if rng.random() < 0.3}

    def cost(changed: g.Graph) -> int:
        taken = dense(changed)
        return 1000 + sum(int(alone[k]) for k in taken) + sum(v for pair, v in pairs.items() if taken >= set(pair))

    everything = [frozenset(c) for n in range(7) for c in itertools.combinations(range(6), n)]
    names = [op.name for op in graph.ops]
    steps = {taken: tuple(Substitution("depthwise_as_dense", names[k]) for k in taken) for taken in everything}
    least = min(cost(substituted(graph, steps[taken])) for taken in everything)
    found = search(graph, cost, most=10_000)
    assert found is not None
    assert found.before == 1000
    assert found.cost == least == cost(substituted(graph, found.steps))


def test_a_step_that_loses_opens_one_that_wins() -> None:
    graph = depthwise_chain(2)
    costs = {(): 1000, (0,): 1030, (1,): 1040, (0, 1): 900}
    found = search(graph, lambda changed: costs[tuple(sorted(dense(changed)))], most=10_000)
    assert found is not None
    assert (found.cost, len(found.steps)) == (900, 2)


def test_what_costs_much_more_is_not_followed_and_the_work_is_limited() -> None:
    graph, asked = depthwise_chain(8), list[int]()

    def cost(changed: g.Graph) -> int:
        asked.append(len(changed.ops))
        return 1000 + 100 * len(dense(changed))

    found = search(graph, cost, most=10_000)
    assert found == Found((), 1000, 1000)
    assert len(asked) == 1 + 8
    asked.clear()
    search(graph, cost, most=32)
    assert sum(asked) <= 32


def test_nothing_is_asked_where_nothing_can_be_done() -> None:
    b = GraphBuilder(0, (4, 4, 3))
    assert search(b.graph(b.conv(b.conv("x", 8), 8)), lambda changed: pytest.fail("asked")) is None
    assert search(depthwise_chain(1), lambda changed: None) is None


def test_the_compiler_takes_what_is_faster_and_the_integers_stay() -> None:
    graph = side_by_side()
    (plain,), compiled = compile_graph(graph, PYNQ, substitutions=()).programs, compile_graph(graph, PYNQ)
    (program,) = compiled.programs
    assert program.meta["substitutions"] == [["layers_joined", graph.ops[2].name]]
    assert plain.meta["substitutions"] == []
    assert simulate_timing(program).cycles < 0.9 * simulate_timing(plain).cycles
    assert paying(graph, PYNQ) == (Substitution("layers_joined", graph.ops[2].name),)
    x = np.random.default_rng(0).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    values, _ = run_compiled(compiled, x)
    (name,) = graph.outputs
    np.testing.assert_array_equal(values[name][0], evaluate(graph, {"x": x})[name])


def test_what_the_estimate_alone_likes_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = depthwise_chain(3, (14, 14, 32))
    wrong = Found((Substitution("depthwise_as_dense", graph.ops[0].name),), 1, 1000)
    monkeypatch.setattr(compiler, "best_substitutions", lambda part, config: wrong)
    assert promising(graph, PYNQ) == wrong.steps
    (program,) = compile_graph(graph, PYNQ).programs
    assert program.meta["substitutions"] == []
    assert paying(graph, PYNQ) == ()


@pytest.mark.parametrize("rule", RULES)
def test_networks_as_users_compile_them_stay_exact(rule: str) -> None:
    for seed in range(6):
        assert_exact(drawn_for(rule, seed), PYNQ, seed, POLICIES)
