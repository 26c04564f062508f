"""The parts of the campaigns that decide what counts as wrong."""

from __future__ import annotations

import inspect
import os
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
from tests.conftest import HANG, REPOSITORY
from tests.fuzz.seeds import draw_network, recipe_inputs
from tilewright.config import PRESETS
from tilewright.hw.verilated import design
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.isa.assembler import assemble
from tilewright.runtime.device import open_device
from tilewright.sim import array


def test_interpreted_kernels_show_their_lines(tmp_path: Path) -> None:
    data, test = tmp_path / "map", "tests/sim/test_functional.py::test_block_shapes[8-1-4-64]"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPOSITORY)}
    measured = [sys.executable, "-m", "coverage", "run", "--branch", "--source=sim", f"--data-file={data}"]
    plugins = ["-p", "tests.campaigns.interpreted", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*measured, "-m", "pytest", "-q", "-n", "0", *plugins, test], cwd=REPOSITORY, env=environment,
        capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = coverage.CoverageData(str(data))
    lines.read()
    kernel = next(n for n, line in enumerate(inspect.getsource(array).splitlines(), 1) if "dense_block(v, to," in line)
    arcs = lines.arcs(str(REPOSITORY / "sim" / "array.py"))
    assert arcs is not None
    assert kernel in {line for arc in arcs for line in arc}


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
