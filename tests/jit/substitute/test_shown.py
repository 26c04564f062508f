"""What was substituted is said, and a program that says it in another form is refused."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.channels.test_shown import shown
from tests.jit.substitute.drawn import side_by_side
from tilewright.config import PRESETS
from tilewright.jit.reference import evaluate
from tilewright.jit.relax.region import compile_region
from tilewright.runtime.executable import Executable
from tilewright.runtime.records import check_meta
from tilewright.schema import SchemaError


def test_inspect_names_what_was_substituted_and_the_layers_have_the_work_of_the_file() -> None:
    graph = side_by_side()
    artifact = compile_region(graph, PRESETS["pynq-z2"])
    assert f"substituted at {graph.ops[2].name}: layers joined" in shown(artifact)
    b = GraphBuilder(0, (4, 4, 5))
    assert "substituted" not in shown(compile_region(b.graph(b.conv("x", 20)), PRESETS["pynq-z2"]))
    x = np.random.default_rng(0).integers(-128, 128, (3, *graph.tensors["x"].shape[1:])).astype(np.int8)
    y, report = Executable(artifact, "sim").run(x)
    wanted = [evaluate(graph, {"x": each[None]})[graph.outputs[0]][0] for each in x]
    np.testing.assert_array_equal(y, wanted)
    assert report.macs == 81 * 9 * 16 * 16 + 81 * 9 * 16 * 16


@pytest.mark.parametrize("value", [["layers_joined"], [["a", 3]], "ab", {"a": "b"}, [["a", "b", "c"]]])
def test_a_program_that_says_it_otherwise_is_refused(value: Any) -> None:
    program = copy.copy(compile_region(side_by_side(), PRESETS["tiny"]).programs[0])
    program.meta["substitutions"] = value
    with pytest.raises(SchemaError, match="substitutions"):
        check_meta(program, "program 0")
