"""What must hold is checked under ``python -O`` too, where ``assert`` is nothing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.isa.rules.races import gemm_onto_acc_being_filled
from tests.runtime.network import make_artifact
from tests.test_layering import PARTS
from tilewright.isa.container import dump


def for_type_checkers(test: ast.expr) -> bool:
    """``x is not None`` or ``isinstance``, whose failure raises in the next line at the latest."""
    if isinstance(test, ast.UnaryOp):
        return for_type_checkers(test.operand)
    if isinstance(test, ast.Call):
        return ast.unparse(test.func) == "isinstance"
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.IsNot)
        and ast.unparse(test.comparators[0]) == "None"
    )


def test_no_check_is_an_assert() -> None:
    assert for_type_checkers(ast.parse("x.y is not None", mode="eval").body)
    assert not for_type_checkers(ast.parse("x == 3", mode="eval").body)
    found = []
    for part in (*PARTS, "tilewright"):
        for file in (REPOSITORY / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Assert) and not for_type_checkers(node.test):
                    found.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {ast.unparse(node.test)[:60]}")
    assert found == []


@pytest.mark.parametrize("level", ["0", "2"])
def test_verifier_and_readers_refuse_without_asserts(level: str, tmp_path: Path) -> None:
    (tmp_path / "illegal.twp").write_bytes(dump(gemm_onto_acc_being_filled(False)))
    make_artifact(faulty=True).save(tmp_path / "illegal.twa")
    sound = (tmp_path / "illegal.twa").read_bytes()
    (tmp_path / "corrupt.twa").write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    for command, said in (
        (["verify", "illegal.twp"], b"illegal.twp: "),
        (["run", "illegal.twa"], b"instruction 11 (STORE on store): extent: "),
        (["run", "corrupt.twa"], b"corrupt.twa: corrupt: the checksum does not match"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *command], cwd=tmp_path, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONOPTIMIZE": level},
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert done.stderr.count(b"\n") == 1
        assert said in done.stderr
