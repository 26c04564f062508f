"""The estimate of what the host's work takes on a board: by shapes, near what is counted, and never made up."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.bench_c_runtime import counter, counts
from bench.host_steps import drawn
from tests.conftest import REPOSITORY
from tests.runtime.network import SHAPE, TINY, make_artifact
from tilewright.config import PRESETS, Config
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.report.host_work import COSTS, PROCESSORS, host_instructions, on_board, work
from tilewright.runtime.step_base import TensorSpec
from tilewright.runtime.steps import CutStep, InterpreterStep, JoinStep, LaunchStep, PackStep, TransposeStep

BOARD = TINY.replace(name="board", board="pynq-z2", axi_version=3, axi_ports=2, batch=2, block_in=8)


def estimated(artifact: Artifact, accelerator_ms: float | None) -> dict[str, Any]:
    found = on_board(artifact, accelerator_ms)
    assert found is not None
    return found


@pytest.mark.parametrize("config", [BOARD, PRESETS["zcu104"]], ids=lambda c: c.name)
def test_one_takes_both_times_and_of_many_the_slower_decides(config: Config) -> None:
    artifact = make_artifact(config)
    found, processor = estimated(artifact, 2.0), PROCESSORS[config.axi_version]
    assert found["host_instructions"] == round(host_instructions(artifact)) > COSTS["launch"]
    assert found["host_ms"] == 1e3 * found["host_instructions"] / processor.instructions_per_second < 2
    assert found["latency_ms"] == 2 + found["host_ms"]
    assert found["inferences_per_second"] == 500
    short = estimated(artifact, 0.001 * found["host_ms"])
    assert short["inferences_per_second"] == pytest.approx(1e3 / found["host_ms"])
    assert (found["name"], found["processor"], found["unknown"]) == (config.board, processor.name, "")


def test_nothing_is_estimated_of_what_was_not_counted() -> None:
    step = InterpreterStep(("x",), ("z",), "m", "litert", operators=("LSTM", "COS"))
    artifact = make_artifact(BOARD)
    left = estimated(dataclasses.replace(artifact, steps=(step, *artifact.steps)), 2.0)
    assert left["unknown"] == "LSTM, COS run in an interpreter, whose instructions are not counted"
    segments = tuple(dataclasses.replace(s, kind="shared") for s in artifact.programs[0].segments)
    joined = dataclasses.replace(artifact.programs[0], segments=segments)
    shared = estimated(dataclasses.replace(artifact, programs=(joined,)), 2.0)
    assert "share memory" in shared["unknown"]
    for found in (left, shared):
        assert [found[key] for key in ("host_instructions", "host_ms", "latency_ms", "inferences_per_second")] == [
            None
        ] * 4
    untimed = estimated(artifact, None)
    assert untimed["host_ms"] > 0
    assert untimed["latency_ms"] is untimed["inferences_per_second"] is None
    assert on_board(make_artifact(TINY), 2.0) is None, "a Config without a board"


def test_every_unit_of_work_has_a_cost() -> None:
    units = {
        unit: number
        for step, form in drawn(np.random.default_rng(1))
        for unit, number in work(step, {"x": form}, PRESETS["pynq-z2"])
    }
    form = {"x": TensorSpec("x", (1, 4, 6)).form}
    for step in (
        TransposeStep("x", "y", (0, 2, 1)), CutStep("x", "y", (0, 0, 0), (1, 2, 6)), LaunchStep(),
        JoinStep(("x", "x"), "y", ((0, 0, 0), (0, 4, 0)), (1, 8, 6)), TransposeStep("f", "y", (0, 2, 1)),
    ):  # fmt: skip
        units |= dict(work(step, {**form, "f": TensorSpec("f", (1, 4, 6), "float32").form}, BOARD))
    assert units.keys() == COSTS.keys()
    assert min(COSTS.values()) > 0


def test_work_grows_with_what_is_packed() -> None:
    def packed(height: int) -> float:
        step = PackStep("x", 0, (1, height, 8, 3), 16, 2, "patches", kernel=(3, 3))
        form = {"x": TensorSpec("x", (1, height, 8, 3)).form}
        return sum(COSTS[unit] * number for unit, number in work(step, form, PRESETS["pynq-z2"]))

    assert packed(16) < packed(32) < 3 * packed(16)
    assert dict(work(PackStep("x", 0, SHAPE, 4, 1), {"x": TensorSpec("x", SHAPE).form}, TINY)).keys() == {
        "pack rows", "pack bytes",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("qemu-arm") and shutil.which("arm-linux-gnueabihf-gcc") and shutil.which("cc")),
    reason="needs qemu-user and gcc-arm-linux-gnueabihf",
)
def test_the_digits_are_near_what_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("tvm", reason="the compiler needs apache-tvm: pip install 'tilewright[compile]'")
    from tilewright.compiling import compile as compile_model

    artifact = compile_model(REPOSITORY / "examples" / "digits" / "digits.onnx", "pynq-z2").artifact
    artifact.save(tmp_path / "digits.twa")
    found = counts(counter(tmp_path), tmp_path / "digits.twa", 1)[1]
    assert host_instructions(artifact) == pytest.approx(found, rel=0.15)
