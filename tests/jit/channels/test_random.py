"""Dropping channels changes no output: random graphs over every operator, random and extreme inputs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.jit.channels.sparse import KINDS, inputs_of, sparse_graph
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS
from tilewright.jit.channels import reduce_channels
from tilewright.jit.ir.facts import unknown
from tilewright.jit.reference import evaluate

SEEDS = range(120)


def test_outputs_are_equal_and_every_operator_and_rule_takes_part() -> None:
    lost: Counter[str] = Counter()
    why: Counter[str] = Counter()
    for seed in SEEDS:
        graph = sparse_graph(seed)
        reduced = reduce_channels(graph, (1, 4, 16)[seed % 3])
        for x in inputs_of(graph, seed):
            before, after = evaluate(graph, {"x": x}), evaluate(reduced.graph, {"x": x})
            for name in graph.outputs:
                np.testing.assert_array_equal(after[name], before[name], err_msg=f"seed {seed}")
        kinds = {op.name: op.kind for op in graph.ops}
        for name, reasons in reduced.dropped.items():
            lost[kinds[name]] += 1
            why += Counter(reasons)
    assert min(lost[kind] for kind in KINDS) >= 5, lost
    assert min(why[reason] for reason in ("unread", "constant", "duplicate")) >= 50, why


def test_what_is_known_of_channels_holds() -> None:
    """Ranges and equalities against values; and constants are found where weights are zero."""
    constants = duplicates = 0
    for seed in SEEDS:
        graph = sparse_graph(seed)
        facts = {"x": unknown(graph.tensors["x"].shape)}
        for op in graph.ops:
            known = op.facts(*(facts[name] for name in op.inputs))
            facts |= {name: known or unknown(graph.tensors[name].shape) for name in op.outputs}
        for x in inputs_of(graph, seed):
            for name, values in evaluate(graph, {"x": x}, keep=True).items():
                known, flat = facts[name], values.reshape(-1, values.shape[-1])
                assert ((flat >= known.lo) & (flat <= known.hi)).all(), (seed, name)
                np.testing.assert_array_equal(flat, flat[:, known.same], err_msg=f"seed {seed} {name}")
        constants += sum(int(known.constant.sum()) for known in facts.values())
        duplicates += sum(int((known.same != np.arange(len(known.same))).sum()) for known in facts.values())
    assert constants > 500
    assert duplicates > 300


def test_nothing_is_left_to_drop() -> None:
    for seed in SEEDS:
        once = reduce_channels(sparse_graph(seed), 16)
        again = reduce_channels(once.graph, 16)
        assert (again.graph is once.graph, again.dropped) == (True, {}), seed


@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
@pytest.mark.parametrize("seed", range(6))
def test_programs_are_exact(seed: int, config: str) -> None:
    """Compiled as users compile, and with every operator's output stored, which drops nothing."""
    assert_exact(sparse_graph(seed), PRESETS[config], seed)
