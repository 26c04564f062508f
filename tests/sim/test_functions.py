"""Compiled functions written from expressions: all values of narrow ones, and the instruction set's own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hw.lane_programs import table_program
from tests.isa.expressions import EXPRESSIONS, PAIRS, stated
from tests.isa.test_functions import EDGES
from tilewright.config import PRESETS
from tilewright.isa.expression import evaluate, text
from tilewright.isa.functions import SCALING, AluOp, Rounding
from tilewright.isa.verifier import verify
from tilewright.runtime.segments import segment_memories
from tilewright.sim import Functional
from tilewright.sim.functions import nudge, operate, to_even, written


def test_every_operator_over_all_values() -> None:
    made = written("code, a, b", [(k, text(expression)) for k, expression in enumerate(EXPRESSIONS.values())])
    pairs = np.stack(PAIRS, 1)
    for k, expression in enumerate(EXPRESSIONS.values()):
        assert [int(made(k, a, b)) for a, b in pairs] == stated(expression)


@pytest.mark.parametrize("name", ["tiny", "pynq-z2", "zcu104"])
def test_tables_of_all_values(name: str) -> None:
    program, sums = table_program(PRESETS[name])
    verify(program)
    segments = segment_memories(program, 1)
    assert Functional(program).run(segments).fault is None
    np.testing.assert_array_equal(segments[2].view(np.int8)[: sums.size].reshape(sums.shape), sums)


def test_functions_and_rounding_modes_have_their_meaning() -> None:
    a, b = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))
    for function in AluOp:
        found = [int(operate(int(function), *pair)) for pair in zip(a, b)]
        assert found == evaluate(function.meaning, x=a, y=b).tolist()
    shift = np.arange(64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    for rounding in SCALING:
        assert rounding.nudge is not None
        for negative in (0, 1):
            found = [int(nudge(int(rounding), negative, *pair)) for pair in zip(shift, half)]
            expected = evaluate(rounding.nudge, negative=negative, shift=shift, half=half)
            assert found == np.broadcast_to(expected, 64).tolist()
    assert [bool(to_even(int(rounding))) for rounding in Rounding] == [rounding.to_even for rounding in Rounding]
