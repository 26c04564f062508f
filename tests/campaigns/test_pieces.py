"""The parts of the campaigns that decide what counts as wrong."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import coverage
import numpy as np
import pytest

from tests.campaigns.devices import Held, differences
from tests.campaigns.full_disk import OLD, judge
from tests.campaigns.mutants import mutated
from tests.campaigns.mutation import change, is_compiled, places, sample, spliced, statement
from tests.campaigns.reached import MEASURED, Reached, digest_of
from tests.conftest import HANG, REPOSITORY
from tests.fuzz.seeds import draw_network, recipe_inputs
from tilewright.config import PRESETS
from tilewright.hw.verilated import design
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.isa.assembler import assemble
from tilewright.runtime.device import open_device
from tilewright.sim import array


@pytest.mark.parametrize(
    ("line", "changed"),
    [("a < b", "a <= b"), ("a + 3", "a - 3"), ("a and b", "a or b"), ("a << b", "a >> b"), ("a is b", "a is not b")],
)
def test_a_change_is_one_change(line: str, changed: str) -> None:
    text = f"def f(a, b):\n    return {line}  # é stays\n"
    node = places(ast.parse(text))[0]
    assert change(node)
    assert spliced(text, node) == f"def f(a, b):\n    return ({changed})  # é stays\n"


def test_lines_of_the_innermost_statement() -> None:
    tree = ast.parse("def f(a):\n    if (a <\n            3):\n        return (a\n                + 4)\n    return 5\n")
    lines = {ast.unparse(node): list(statement(tree, node)) for node in places(tree)}
    assert lines == {"a < 3": [2, 3], "3": [2, 3], "a + 4": [4, 5], "4": [4, 5], "5": [6]}


def test_what_numba_compiles() -> None:
    tree = ast.parse("@compiled\ndef f(a):\n    return a < 1\n@cache\ndef g(a):\n    return a < 2\n")
    assert {ast.unparse(node): is_compiled(tree, node) for node in places(tree)} == {
        "a < 1": True, "1": True, "a < 2": False, "2": False
    }  # fmt: skip


def test_a_line_is_tried_by_the_tests_that_reach_it(tmp_path: Path) -> None:
    data = coverage.CoverageData(str(tmp_path / "map"))
    for test, lines in (("slow", [1, 2]), ("quick", [2]), ("failed", [1])):
        data.set_context(test)
        data.add_lines({str(REPOSITORY / "isa" / "schema.py"): lines})
    reached = Reached("isa", False, {"slow": 5.0, "quick": 1.0}, data)
    file = Path("isa/schema.py")
    assert reached.tests(file, [1], 9.0) == ["slow"]
    assert reached.tests(file, [2], 9.0) == reached.tests(file, [1, 2], 6.0) == ["quick", "slow"]
    assert reached.tests(file, [2], 0.5) == ["quick"]
    assert reached.tests(file, [7], 9.0) == ["quick", "slow"]  # whatever there is
    assert dataclasses.replace(reached, interpreted=True).tests(file, [7], 9.0) == []


def test_a_kernel_is_tried_by_the_tests_that_stand_beside_it() -> None:
    """And by those that import it: what Numba compiles is in no map."""
    reached = Reached("jit", False, {}, coverage.CoverageData(no_disk=True))
    near = {str(path.relative_to(REPOSITORY / "tests" / "jit")) for path in reached.near(Path("jit/proof/vector.py"))}
    assert {"proof/test_prove.py", "proof/test_program_side.py", "recurrent/test_svdf.py"} <= near
    assert not any(name.startswith("cost/") for name in near)
    assert len(reached.near(Path("jit/graph.py"))) < len([*(REPOSITORY / "tests" / "jit").rglob("test_*.py")])


def test_mutants_are_drawn_of_what_is_named_alone(tmp_path: Path) -> None:
    for file in ("a/one.py", "a/two.py", "ab.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("def f(a):\n    return a + 1 < 2\n")
    drawn = {under: sample(tmp_path, 99, random.Random(0), under) for under in ((), ("a",), ("a/two.py", "ab.py"))}
    files = {under: {str(path.relative_to(tmp_path)) for path, _ in found} for under, found in drawn.items()}
    assert files[()] == {"a/one.py", "a/two.py", "ab.py"}
    assert files["a",] == {"a/one.py", "a/two.py"}
    assert files["a/two.py", "ab.py"] == {"a/two.py", "ab.py"}
    assert len(drawn[()]) == 3 * 4


def test_a_map_is_of_its_sources_and_tests(tmp_path: Path) -> None:
    for folder in ("part", "tests"):
        (tmp_path / folder).mkdir()
    digests = []
    for file in ("part/a.py", "tests/test_a.py", "tests/test_b.py"):
        digests.append(digest_of(tmp_path / "part", tmp_path / "tests"))
        (tmp_path / file).write_text("A = 1\n")
    (tmp_path / "part" / "a.py").rename(tmp_path / "part" / "b.py")
    digests.append(digest_of(tmp_path / "part", tmp_path / "tests"))
    assert len(set(digests)) == 4
    (tmp_path / "part" / "notes.md").write_text("no source")
    assert digest_of(tmp_path / "part", tmp_path / "tests") == digests[-1]


def test_contexts_and_interpreted_kernels(tmp_path: Path) -> None:
    data, test = tmp_path / "map", "tests/sim/test_functional.py::test_block_shapes[8-1-4-64]"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPOSITORY)}
    measured = [sys.executable, "-m", "coverage", "run", "--branch", "--source=sim", f"--data-file={data}"]
    plugins = ["-p", "tests.campaigns.contexts", "-p", "tests.campaigns.interpreted", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*measured, "-m", "pytest", "-q", "-n", "0", *plugins, test], cwd=REPOSITORY, env=environment,
        capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(json.loads(Path(f"{data}-seconds.json").read_text())) == [test]
    lines = coverage.CoverageData(str(data))
    lines.read()
    kernel = next(n for n, line in enumerate(inspect.getsource(array).splitlines(), 1) if "dense_block(v, to," in line)
    assert lines.contexts_by_lineno(str(REPOSITORY / "sim" / "array.py"))[kernel] == [test]


def test_what_a_tests_processes_reach_is_the_tests(tmp_path: Path) -> None:
    """Two tests run one module, each in a process of its own, with another argument."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "run.py").write_text("import sys\nif sys.argv[1] == 'a':\n    print(1)\nelse:\n    print(2)\n")
    test = "def test_{0}(): subprocess.run([sys.executable, 'part/run.py', '{0}'], check=True)\n"
    (tmp_path / "test_run.py").write_text("import subprocess, sys\n" + test.format("a") + test.format("b"))
    data, environment = tmp_path / "map", {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    measure = [sys.executable, "-m", "coverage"]
    run = [f"--rcfile={MEASURED}", "--source=part", f"--data-file={data}", "-m", "pytest", "-q", "--rootdir=."]
    plugins = ["-p", "tests.campaigns.contexts", "-p", "no:cacheprovider", "test_run.py"]
    for command in (["run", *run, *plugins], ["combine", "-q", f"--data-file={data}"]):
        subprocess.run([*measure, *command], cwd=tmp_path, env=environment, check=True, timeout=HANG)
    lines = coverage.CoverageData(str(data))
    lines.read()
    both = ["test_run.py::test_a", "test_run.py::test_b"]
    reached = lines.contexts_by_lineno(str((tmp_path / "part" / "run.py").resolve()))
    assert {line: sorted(tests) for line, tests in reached.items() if line > 0} == {
        1: both, 2: both, 3: both[:1], 5: both[1:]
    }  # fmt: skip


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


def test_a_device_that_gives_another_integer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, path, _ = draw_network("tflite", 8, "small", tmp_path)
    devices = {"good": open_device("sim", PRESETS["tiny"]), "bad": open_device("sim", PRESETS["tiny"])}
    read = devices["bad"].read_stack

    def other(*arguments: Any) -> Any:
        return read(*arguments) ^ 1

    monkeypatch.setattr(devices["bad"], "read_stack", other)
    assert list(differences(path, recipe_inputs(recipe, path), devices)) == ["bad"]


def test_what_a_process_holds_more_of_is_noticed(tmp_path: Path) -> None:
    before = Held(os.getpid())
    assert not Held(os.getpid()).grown(before)
    with (tmp_path / "file").open("w"):
        assert Held(os.getpid()).grown(before)
    after = Held(os.getpid())
    after.memory = (2 * before.memory[0], before.memory[1])
    assert after.grown(before)
