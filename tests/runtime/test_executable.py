"""Running artifacts on the sim device: values, batches, inputs that do not fit, intermediates, TVM steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import images, make_artifact, reference
from tilewright.config import PRESETS
from tilewright.files import FileError
from tilewright.isa.program import Program
from tilewright.isa.verifier import VerifyError
from tilewright.runtime import executable as executable_module
from tilewright.runtime import interpreters, run_bytes
from tilewright.runtime.artifact import ConfigMismatch
from tilewright.runtime.device import Allocation, DeviceFault
from tilewright.runtime.executable import Executable, InputError, load
from tilewright.runtime.host_steps import HostStepError, run_host_step
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.steps import (
    CastStep,
    DequantizeStep,
    InterpreterStep,
    LaunchStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    Step,
    TensorSpec,
    TransposeStep,
)


def test_outputs_equal_the_reference_for_every_input() -> None:
    x = images(5)
    y, report = Executable(make_artifact()).run(x)
    assert np.array_equal(y, reference(x)[1].reshape(5, 32))
    assert y.dtype == np.int8
    assert report.inferences == 5


def test_launches_are_cut_into_chunks_and_progress_counts_every_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_module, "LAUNCH_INFERENCES", 3)
    x = images(8)
    seen: list[int] = []
    y, _ = Executable(make_artifact()).run(x, progress=seen.append)
    assert np.array_equal(y, reference(x)[1].reshape(8, 32))
    assert sum(seen) == 8


def test_segments_without_stride_run_one_inference_at_a_time() -> None:
    import dataclasses

    artifact = make_artifact()
    program = artifact.programs[0]
    fixed = dataclasses.replace(
        program, segments=tuple(dataclasses.replace(s, repeat_stride=0) for s in program.segments)
    )
    x = images(3)
    y, _ = Executable(dataclasses.replace(artifact, programs=(fixed,))).run(x)
    assert np.array_equal(y, reference(x)[1].reshape(3, 32))


def test_saved_and_loaded_gives_the_same(tmp_path: Path) -> None:
    x = images(2)
    first = Executable(make_artifact())
    first.save(tmp_path / "a.twa")
    again = load(tmp_path / "a.twa")
    assert np.array_equal(first(x), again(x))
    assert again.inputs == first.inputs


def test_run_bytes_takes_and_gives_tensors_with_their_batch() -> None:
    x = images(1)
    data = make_artifact().to_bytes()
    for _ in range(2):  # the second time from memory
        (y,) = run_bytes(data, [x])
        assert y.shape == (1, 32)
        assert np.array_equal(y, reference(x)[1].reshape(1, 32))


@pytest.mark.parametrize(
    "x,message",
    [
        (np.zeros((2, 2, 4, 5), np.int8), r"input x: shape \(2, 2, 4, 5\), the model takes \(N, 2, 4, 4\)"),
        (np.zeros((2, 4, 4), np.int8), r"input x: shape \(2, 4, 4\)"),
        (np.zeros((2, 2, 4, 4), np.float32), "input x: dtype float32, the model takes int8"),
        (np.zeros((0, 2, 4, 4), np.int8), "input x: holds no inputs"),
        ({"z": np.zeros((1, 2, 4, 4), np.int8)}, "toy: takes the inputs x, not z"),
        ({1: np.zeros((1, 2, 4, 4), np.int8)}, "toy: takes the inputs x, not 1"),
        ([], r"toy: takes 1 input \(x\), 0 given"),
        (None, "toy: takes a NumPy array, several in a list or by name, not NoneType"),
        ([[1, 2]], "input x: must be a NumPy array, not list"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Executable(make_artifact()).run(x)


def test_a_launch_is_bounded_by_the_memory_of_all_its_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    exe, asked = Executable(make_artifact()), list[int]()
    strides = [s.repeat_stride for s in exe.artifact.programs[0].segments]
    assert sum(strides) > max(strides) > 0
    monkeypatch.setattr(executable_module, "LAUNCH_BYTES", 3 * sum(strides))
    allocate = exe.device.allocate

    def noted(program: Program, inferences: int) -> Allocation:
        asked.append(inferences)
        return allocate(program, inferences)

    monkeypatch.setattr(exe.device, "allocate", noted)
    exe.run(images(8))
    assert asked == [3]


def test_nan_is_refused_with_its_place() -> None:
    x = np.zeros((2, 3), np.float32)
    x[1, 2] = np.nan
    artifact = make_artifact(
        programs=(),
        steps=(QuantizeStep("x", "y", 0.5, 0),),
        inputs=(TensorSpec("x", (1, 3), "float32"),),
        outputs=(TensorSpec("y", (1, 3)),),
    )
    exe = Executable(artifact)
    with pytest.raises(InputError, match=r"input x: 1 values are NaN or infinite, the first at index \(1, 2\)"):
        exe.run(x)


def test_intermediates_are_stored_by_name(tmp_path: Path) -> None:
    x = images(3)
    Executable(make_artifact(keep=True)).run(x, keep_intermediates=tmp_path / "deep" / "d")
    entries = json.loads((tmp_path / "deep" / "d" / "index.json").read_text())
    assert [e["file"] for e in entries] == ["000_op000_conv_2d.npy"]
    assert entries[0]["operator"] == "op000 conv/2d"
    assert np.array_equal(np.load(tmp_path / "deep" / "d" / entries[0]["file"]), reference(x)[0])


def test_intermediates_need_an_artifact_compiled_for_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="toy: compiled without intermediates"):
        Executable(make_artifact()).run(images(1), keep_intermediates=tmp_path / "d")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is not a directory"):
        Executable(make_artifact(keep=True)).run(images(1), keep_intermediates=tmp_path / "file")


def test_a_device_of_another_config_is_refused_with_the_differences() -> None:
    other = SimDevice(PRESETS["tiny"].replace(dram_latency=99))
    with pytest.raises(ConfigMismatch, match=r"compiled for config tiny, .*dram_latency: 32 != 99"):
        Executable(make_artifact(), other)


def test_an_illegal_program_is_refused_on_load() -> None:
    with pytest.raises(VerifyError, match="extent"):
        Executable(make_artifact(faulty=True))


def test_a_fault_names_code_instruction_and_layer_and_the_device_stays_usable() -> None:
    bad = Executable(make_artifact(faulty=True), verified=True)
    with pytest.raises(DeviceFault, match=r"^sim device: fault SEGMENT at instruction 11 of layer scale: ") as caught:
        bad.run(images(1))
    assert (caught.value.code, caught.value.instruction, caught.value.layer) == ("SEGMENT", 11, "scale")
    assert "\n" not in str(caught.value)
    x = images(2)
    y, _ = Executable(make_artifact(), bad.device).run(x)
    assert np.array_equal(y, reference(x)[1].reshape(2, 32))


def run_steps(x: np.ndarray, *steps: Step) -> np.ndarray:
    environment = {"x": x}
    for step in steps:
        run_host_step(step, environment, {})
    return environment["y"]


def test_host_steps_compute_what_they_say() -> None:
    x = np.array([[[0.25, -0.75, 0.74, 300.0]]], np.float32)
    assert run_steps(x, QuantizeStep("x", "y", 0.5, 1)).tolist() == [[[1, -1, 2, 127]]]
    assert run_steps(x, QuantizeStep("x", "y", 0.5, 1, rounding="away")).tolist() == [[[2, -1, 2, 127]]]
    q = np.arange(6, dtype=np.int8).reshape(1, 1, 2, 3)
    assert run_steps(q, DequantizeStep("x", "y", 0.5, 1)).tolist() == [[[[-0.5, 0.0, 0.5], [1.0, 1.5, 2.0]]]]
    assert run_steps(q, TransposeStep("x", "y", (0, 2, 1))).tolist() == [[[[0, 3], [1, 4], [2, 5]]]]
    assert run_steps(q, ReshapeStep("x", "y", (6,))).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert run_steps(q, CastStep("x", "y", 128, "uint8")).dtype == np.uint8
    total = run_steps(q, SoftmaxStep("x", "y", 1 << 30, 22, -200)).astype(int) + 128
    assert abs(total.sum(axis=-1) - 256).max() <= 2
    with pytest.raises(HostStepError, match="launch: not a host step"):
        run_host_step(LaunchStep(), {}, {})


def test_steps_of_an_interpreter_that_is_not_installed_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "find_spec", lambda name: None)
    step = InterpreterStep(("x",), ("y",), "host0.tflite", "litert", operators=("LSTM_3", "GATHER_4"))
    with pytest.raises(HostStepError, match="toy: LSTM_3, GATHER_4 run on the host in ai-edge-litert, which is not"):
        Executable(make_artifact(steps=(step,)))


def test_a_model_that_the_artifact_lacks_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"model host0.tflite: not in the artifact"):
        run_steps(images(1), InterpreterStep(("x",), ("y",), "host0.tflite", "litert"))


def test_bytes_that_are_no_model_are_an_error() -> None:
    pytest.importorskip("ai_edge_litert")
    step = InterpreterStep(("x",), ("y",), "m", "litert", operators=("ADD_1",))
    with pytest.raises(InterpreterError, match="ADD_1: ai-edge-litert cannot load them: ."):
        run_host_step(step, {"x": images(1)}, {"m": b"nothing"})
