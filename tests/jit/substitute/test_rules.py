"""Every substitution gives the integers of what it stands for, on random graphs and inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.random_graphs import odd_graph
from tests.jit.substitute.drawn import drawn_for
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.jit.reference import evaluate
from tilewright.jit.substitute import RULES, Substitution, substituted

SEEDS = range(150)


def sites(graph: g.Graph, rule: str) -> list[Substitution]:
    return [Substitution(rule, op.name) for op in graph.ops if RULES[rule](graph, op) is not None]


def assert_same(before: g.Graph, after: g.Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for extremes in (False, True):
        x = rng.integers(-128, 128, before.tensors["x"].shape, np.int8)
        if extremes:
            x[rng.random(x.shape) < 0.7] = rng.choice([-128, 127])
        wanted, found = evaluate(before, {"x": x}), evaluate(after, {"x": x})
        for name in before.outputs:
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


@pytest.mark.parametrize("rule", RULES)
def test_the_integers_stay(rule: str) -> None:
    taken = refused = 0
    for seed in SEEDS:
        graph = drawn_for(rule, seed)
        found = sites(graph, rule)
        for step in found:
            changed = substituted(graph, (step,))
            names = [op.name for op in changed.ops]
            assert len(names) == len(set(names))
            assert_same(graph, changed, seed)
        taken, refused = taken + bool(found), refused + (not found)
    assert taken > len(SEEDS) / 4, "the rule is hardly tried"
    assert refused > 0 or rule == "depthwise_as_dense", "what it must not touch is not tried"


def test_any_order_of_all_rules_keeps_the_integers() -> None:
    longest = 0
    for seed in range(120):
        b, outputs = odd_graph(seed)
        graph = first = b.graph(*outputs)
        rng = np.random.default_rng(seed)
        steps = 0
        while (found := [step for rule in RULES for step in sites(graph, rule)]) and steps < 6:
            graph = substituted(graph, (found[int(rng.integers(0, len(found)))],))
            steps += 1
        longest = max(longest, steps)
        if steps:
            assert_same(first, graph, seed)
    assert longest >= 2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
def test_what_a_rule_makes_compiles_and_is_proven(rule: str, config: str) -> None:
    seed = next(seed for seed in SEEDS if sites(drawn_for(rule, seed), rule))
    graph = drawn_for(rule, seed)
    steps = tuple(sites(graph, rule)[:1])
    compiled = compile_graph(graph, PRESETS[config], substitutions=steps)
    assert [program.meta["substitutions"] for program in compiled.programs] == [[list(steps[0])]]
    assert not compiled.rejected
