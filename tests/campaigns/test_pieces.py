"""The parts of the campaigns that decide what counts as wrong."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.campaigns.full_disk import OLD, judge
from tests.campaigns.mutants import mutated
from tests.campaigns.mutation import change, places, spliced
from tilewright.hw.verilated import design
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.isa.assembler import assemble


@pytest.mark.parametrize(
    ("line", "changed"),
    [("a < b", "a <= b"), ("a + 3", "a - 3"), ("a and b", "a or b"), ("a << b", "a >> b"), ("a is b", "a is not b")],
)
def test_a_change_is_one_change(line: str, changed: str) -> None:
    text = f"def f(a, b):\n    return {line}  # é stays\n"
    node = places(ast.parse(text))[0]
    assert change(node)
    assert spliced(text, node) == f"def f(a, b):\n    return ({changed})  # é stays\n"


def test_declarations_outside_functions_stay() -> None:
    assert places(ast.parse("LIMIT = 3 + 4\nclass A:\n    size: int = 5\n")) == []


def test_a_mutant_is_its_seeds() -> None:
    program = assemble(".config tiny\nwait gemm cycles=3\nwait alu cycles=4\nwait load cycles=5\n")
    one, same, other = (mutated(program, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.instructions == same.instructions != other.instructions


def test_ends_are_judged(tmp_path: Path) -> None:
    whole = {"a": b"x" * 100}
    (tmp_path / "a").write_bytes(OLD)
    assert judge(2, "tilewright: a: cannot be written: no room\n", tmp_path, ("a",), whole) is None
    assert "not one line" in str(judge(2, "Traceback ...\ntilewright: x\n", tmp_path, ("a",), whole))
    assert "exit code 1" in str(judge(1, "", tmp_path, ("a",), whole))
    (tmp_path / "a").write_bytes(b"x" * 50)
    assert judge(0, "", tmp_path, ("a",), whole) == "a: 50 of 100 bytes"
    (tmp_path / "a").unlink()
    assert judge(2, "tilewright: x\n", tmp_path, ("a",), whole) == "a: gone"


def test_a_yosys_that_has_no_room_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    generate = pytest.importorskip("tilewright.hw.rtl.generate", reason="needs Amaranth: pip install 'tilewright[rtl]'")
    full = type("YosysError", (Exception,), {})
    for error, expected in (
        (full("Traceback\nWasmtimeError: File too large (os error 27)\n"), ToolError),
        (TypeError("a defect"), TypeError),
    ):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(generate, "generate_verilog", fails)
        with pytest.raises(expected) as caught:
            design._generated(design.Config(), True, 4)
        assert "\n" not in str(caught.value)
        assert ("File too large" in str(caught.value)) is (expected is ToolError)
        assert ("File too large" in str(caught.value)) is (expected is ToolError)
