"""A campaign of planted mistakes: every program that they make is refused, or exact all the same."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from tests.jit.execute import run_compiled
from tests.jit.proof.cases import CASES, Case, parts
from tests.jit.proof.mutations import MUTATIONS, Mutation
from tilewright.isa.container import dump
from tilewright.isa.verifier import VerifyError, verify
from tilewright.jit import programs
from tilewright.jit.compiler import CompiledGraph, compile_graph
from tilewright.jit.errors import PlaceError, ProofError
from tilewright.jit.plan.policy import Policy
from tilewright.jit.reference import evaluate

POLICIES = (Policy(False, 0.25, 1),)  #: short rings, which wrap
INPUTS = 3
#: what may become of a mistake, the worst first
OUTCOMES = ESCAPED, PROOF, VERIFIER, EQUIVALENT, NO_PROGRAM, SAME = (
    "escaped", "proof", "verifier", "equivalent", "no program", "same",
)  # fmt: skip


def compile_unchecked(case: Case) -> CompiledGraph:
    """The only schedule's program, whatever it computes; no tiles where there is none."""

    def no_tiles(*given: object) -> None:
        raise PlaceError("left out")

    with pytest.MonkeyPatch.context() as m:
        m.setattr(programs, "_tiled", no_tiles)
        m.setattr(programs, "_check", lambda *given: None)
        return compile_graph(case.graph, case.config, keep_intermediates=case.keep, policies=POLICIES)


@cache
def unbroken(case: Case) -> list[bytes]:
    compiled = compile_unchecked(case)
    assert exact(case, compiled)
    for part in parts(compiled):
        verify(part.program)
        assert part.prove().followed
    return identity(compiled)


def identity(compiled: CompiledGraph) -> list[bytes]:
    return [*map(dump, compiled.programs), repr(compiled.steps).encode()]


def exact(case: Case, compiled: CompiledGraph) -> bool:
    """Whether all that is unpacked equals the reference on some inputs."""
    graph = case.graph
    for seed in range(INPUTS):
        x = np.random.default_rng(seed).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
        values, _ = run_compiled(compiled, x)
        for tensor, expected in evaluate(graph, {"x": x}, keep=True).items():
            if tensor in values and not np.array_equal(values[tensor][0], expected.reshape(values[tensor][0].shape)):
                return False
    return True


def outcome(case: Case, mutation: Mutation) -> str:
    """What becomes of one mistake on one graph."""
    original = unbroken(case)
    with pytest.MonkeyPatch.context() as m:
        mutation.apply(m)
        try:
            compiled = compile_unchecked(case)
            found = parts(compiled)
        except Exception:  # noqa: BLE001 - whatever a broken compiler trips over
            return NO_PROGRAM
    if identity(compiled) == original:
        return SAME
    try:
        for part in found:
            verify(part.program)
    except VerifyError:
        return VERIFIER
    try:
        for part in found:
            assert part.prove().followed
    except ProofError:
        return PROOF
    return EQUIVALENT if exact(case, compiled) else ESCAPED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_unbroken(case: Case) -> None:
    assert unbroken(case)


def test_what_mutations_replace_is_there() -> None:
    assert len({m.label for m in MUTATIONS}) == len(MUTATIONS) >= 40
    assert not [m.label for m in MUTATIONS if m.name not in m.owner.__dict__]


@pytest.mark.slow
def test_no_mistake_escapes() -> None:
    """Counted by mistake: refused by the proof if one of its programs was, else by the verifier, else harmless."""
    counts: Counter[str] = Counter()
    table = []
    for mutation in MUTATIONS:
        outcomes = [outcome(case, mutation) for case in CASES]
        worst = next(rank for rank in OUTCOMES if rank in outcomes)
        counts[worst] += 1
        table.append(f"{worst:<12}{mutation.label:<72}{dict(Counter(outcomes))}")
    print("\n" + "\n".join(table) + f"\n{dict(counts)}")
    assert not counts[ESCAPED], "\n".join(row for row in table if row.startswith(ESCAPED))
    assert not counts[SAME], "mistakes that no graph meets"
    assert counts[PROOF] >= 40
