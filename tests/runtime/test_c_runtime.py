"""The C runtime gives what Python's gives, on the design and in every kind of step, and says what it cannot."""

from __future__ import annotations

import ctypes
import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ModelCase
from tests.isa.build import INPUT, OUTPUT, PAIRED
from tests.runtime import native_network as native
from tests.runtime.native_network import Board, DesignBoard, FunctionBoard, Network, Refused
from tests.runtime.network import SHAPE, TINY, images, make_artifact, reference
from tests.runtime.test_artifact_attack import PATCHES, ROWS
from tilewright.compiling import compile as compile_model
from tilewright.runtime.artifact import FORMAT_VERSION, Artifact
from tilewright.runtime.contract import HEADER, contract_header
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.native.library import library
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    InterpreterStep,
    LaunchStep,
    PackStep,
    QuantizeStep,
    ReshapeStep,
    Step,
    TableSoftmaxStep,
    TensorSpec,
    UnpackStep,
)
from tilewright.sim import Functional

C = library()
pytestmark = pytest.mark.skipif(C is None, reason="there is no C compiler")


def opened(artifact: Artifact | bytes, board: Board, **options: int) -> Network:
    assert C is not None
    return Network(C, artifact if isinstance(artifact, bytes) else artifact.to_bytes(), board, **options)


def computed(artifact: Artifact) -> FunctionBoard:
    """A board whose accelerator is the simulator."""
    machines = [Functional(program) for program in artifact.programs]

    def run(program: int, segments: list[native.Bytes]) -> None:
        assert machines[program].run(segments).fault is None

    return FunctionBoard(artifact.config, artifact.programs, run)


def equals_python(artifact: Artifact, count: int, **options: int) -> FunctionBoard:
    """Runs both on random inputs; the board, with what it saw."""
    executable, board = Executable(artifact), computed(artifact)
    x = random_inputs(executable.inputs, 1, count)
    y = executable(list(x))
    network = opened(artifact, board, **options)
    made = network.run(*x)
    for got, wanted in zip(made, y if isinstance(y, list) else [y], strict=True):
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()
    network.close()
    assert not board.buffers, "memory of the board's is left"
    return board


def test_the_toy_network_runs_on_the_design(toolchain: None) -> None:
    artifact, board = make_artifact(), DesignBoard(TINY)
    network = opened(artifact, board)
    ((x,), (y,)) = network.tensors("input"), network.tensors("output")
    assert (x.name, x.type, x.dims, x.bytes, y.dims) == (b"x", b"int8", SHAPE, 32, (1, 32))
    for count in (1, 2, 7, 40):
        values = images(count, count)
        assert np.array_equal(network.run(values)[0].reshape(count, -1), reference(values)[1].reshape(count, -1))
    with closing(open_device("rtl", TINY)) as device:
        assert network.cycles == Executable(artifact, device).run(images(1))[1].cycles
    network.close()
    assert not board.buffers


@pytest.mark.parametrize("artifact", [ROWS, PATCHES], ids=["rows", "patches"])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_every_kind_of_step_gives_what_python_gives(artifact: Artifact, count: int) -> None:
    equals_python(artifact, count)


def test_groups_are_launched_as_asked() -> None:
    assert equals_python(make_artifact(), 100).launches == [(0, 8)] * 12 + [(0, 4)]
    assert equals_python(make_artifact(), 10, per_launch=2).launches == [(0, 2)] * 5
    assert equals_python(make_artifact(), 5).launches == [(0, 2), (0, 2), (0, 1)], "both sides have work"
    (program,) = make_artifact().programs
    fixed = tuple(dataclasses.replace(s, repeat_stride=0) for s in program.segments)
    alone = dataclasses.replace(make_artifact(), programs=(dataclasses.replace(program, segments=fixed),))
    assert equals_python(alone, 3).launches == [(0, 1)] * 3


def test_the_cache_is_maintained_around_each_launch() -> None:
    board = computed(make_artifact())
    network = opened(make_artifact(), board)
    board.maintained.clear()
    network.run(images(1))
    assert board.maintained == [native.TO_DEVICE, native.FROM_DEVICE]


def test_programs_follow_on_each_other() -> None:
    """Two launches an inference, with a table's softmax and a constant between them."""
    twice = make_artifact()
    table = tuple(float(v) for v in np.exp((np.arange(256) - 255) / 10).astype(np.float32))
    steps: list[Step] = [
        PackStep("x", INPUT, SHAPE, TINY.lanes, 1), LaunchStep(0), UnpackStep("a", OUTPUT, SHAPE, SHAPE, TINY.lanes, 1),
        TableSoftmaxStep("a", "b", table, 256.0, 3),
        PackStep("b", INPUT, SHAPE, TINY.lanes, 1, program=1), LaunchStep(1),
        UnpackStep("c", OUTPUT, SHAPE, SHAPE, TINY.lanes, 1, program=1), ReshapeStep("c", "y", (1, 32)),
        ConstantStep.of("x", "z", np.array([[1.5, -2.0]], np.float32)),
    ]  # fmt: skip
    outputs = (TensorSpec("y", (1, 32)), TensorSpec("z", (1, 2), "float32"))
    made = dataclasses.replace(twice, programs=twice.programs * 2, steps=tuple(steps), outputs=outputs)
    board = computed(made)
    # equal programs are told from each other by nobody: the second runs as the first
    x = images(9)
    network = opened(made, board)
    y, z = network.run(x)
    for got, wanted in zip((y.reshape(9, -1), z.reshape(9, -1)), Executable(made)(x), strict=True):
        assert np.array_equal(got, wanted)
    assert len(board.launches) == 2 * 3


def test_two_ports_find_their_words() -> None:
    whole = make_artifact(PAIRED)
    shape = (1, 1, 2, 8)
    steps = (PackStep("x", INPUT, shape, PAIRED.lanes, 1), LaunchStep(),
             UnpackStep("y", OUTPUT, shape, shape, PAIRED.lanes, 1, offset=16))  # fmt: skip
    made = dataclasses.replace(
        whole, steps=steps, inputs=(TensorSpec("x", shape),), outputs=(TensorSpec("y", shape),)
    )  # fmt: skip
    board = FunctionBoard(PAIRED, made.programs, double)
    x = np.random.default_rng(0).integers(-64, 64, (5, *shape)).astype(np.int8)
    (y,) = opened(made, board).run(x)
    assert np.array_equal(y, 2 * x)


def double(program: int, segments: list[native.Bytes]) -> None:
    segments[OUTPUT][16:32] = 2 * segments[INPUT][:16]


def test_states_begin_anew_or_go_on() -> None:
    """A sum over the inferences of a stream."""
    state = TensorSpec("s", SHAPE, zero_point=3)
    steps: list[Step] = [
        PackStep("x", INPUT, SHAPE, TINY.lanes, 1), LaunchStep(),
        UnpackStep("new", OUTPUT, SHAPE, SHAPE, TINY.lanes, 1),
        ReshapeStep("s", "y", (1, 32)), ReshapeStep("new", "s", SHAPE),
    ]  # fmt: skip
    made = make_artifact(steps=tuple(steps), states=(state,))
    x = images(5)
    assert np.array_equal(opened(made, computed(made)).run(x)[0], np.full((5, 1, 32), 3))
    network, stream = opened(made, computed(made), keep_states=1), Executable(made).stream()
    for part in (x[:2], x[2:]):
        assert np.array_equal(network.run(part)[0].reshape(len(part), -1), stream(part))
    network.reset()
    stream.reset()
    assert np.array_equal(network.run(x)[0].reshape(5, -1), stream(x))
    assert stream(x)[0, 0] != 3


def test_batches_run_image_by_image() -> None:
    made = make_artifact(batch=2)
    network = opened(made, computed(made))
    assert [t.dims for t in network.tensors("input") + network.tensors("output")] == [(2, 2, 4, 4), (2, 32)]
    x = images(6).reshape(3, 2, 2, 4, 4)
    assert np.array_equal(network.run(x)[0], Executable(made)(x).reshape(3, 2, 32))


def test_names_are_those_of_the_models_file() -> None:
    made = make_artifact(output_names=('na\u00efve \U0001f600 "y"\n',))
    (y,) = opened(made, computed(made)).tensors("output")
    assert y.name.decode() == made.output_names[0]


# -- refusals ----------------------------------------------------------------------------------------------


def refused(code: int, said: str, artifact: Artifact | bytes, board: Board | None = None, **options: int) -> None:
    with pytest.raises(Refused) as caught:
        opened(artifact, board or computed(make_artifact()), **options).run(images(1))
    assert caught.value.args[0] == code, caught.value.args
    assert said in caught.value.args[1]


def test_damaged_files_are_refused() -> None:
    whole = make_artifact().to_bytes()
    refused(native.DAMAGED, "not a Tilewright artifact", b"")
    refused(native.DAMAGED, "not a Tilewright artifact", b"PK" + whole)
    refused(native.DAMAGED, f"this version of Tilewright reads {FORMAT_VERSION}", whole[:8] + b"\0" + whole[9:])
    for end in (8, 20, 51, 52, 60, len(whole) // 2, len(whole) - 1):
        refused(native.DAMAGED, "truncated", whole[:end])
    for at in range(20, len(whole), 97):
        refused(native.DAMAGED, "corrupt", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    refused(native.DAMAGED, "corrupt", whole + b"\0")


def test_operators_of_an_interpreter_are_named() -> None:
    step = InterpreterStep(("x",), ("z",), "m", "litert", operators=("LSTM", "COS"))
    refused(
        native.UNSUPPORTED,
        "LSTM, COS run in an interpreter, which needs Python",
        make_artifact(steps=(step,), blobs={"m": b""}),
    )


def test_programs_that_exchange_are_refused() -> None:
    (program,) = make_artifact().programs
    segments = tuple(dataclasses.replace(s, kind="shared") if s.kind == "scratch" else s for s in program.segments)
    shared = dataclasses.replace(
        program, segments=(*segments, dataclasses.replace(segments[1], name="s", kind="shared"))
    )
    refused(native.UNSUPPORTED, "program 0 exchanges with programs on other cores", make_artifact(programs=(shared,)))


def test_a_board_of_another_config_is_refused() -> None:
    board = computed(make_artifact())
    board.values[board.offsets["FINGERPRINT_LOW"]] ^= 1
    refused(native.BOARD, f"compiled for config {TINY.fingerprint}, the hardware is ", make_artifact(), board)
    board.values[board.offsets["ID"]] = 0xFFFFFFFF
    refused(native.BOARD, "register ID holds 0xffffffff", make_artifact(), board)


def test_a_board_without_memory_is_refused() -> None:
    board = computed(make_artifact())
    board.most_bytes = 4096
    refused(native.NO_MEMORY, "the board has no ", make_artifact(), board)
    assert not board.buffers


def test_faults_and_hangs_leave_the_board_usable() -> None:
    artifact = make_artifact()
    board = computed(artifact)
    network, x = opened(artifact, board, timeout_ms=3), images(2)
    board.ends = False
    with pytest.raises(Refused, match="no end after 3 ms; the run was ended"):
        network.run(x)
    board.ends, board.fault = True, 1
    board.values[board.offsets["FAULT_CODE"]], board.values[board.offsets["FAULT_INSTRUCTION"]] = 1, 7
    with pytest.raises(Refused, match="program 0: fault SEGMENT at instruction 7"):
        network.run(x)
    board.fault = 0
    assert np.array_equal(network.run(x)[0].reshape(2, -1), reference(x)[1].reshape(2, -1))


def test_a_fault_of_the_design_is_named(toolchain: None) -> None:
    refused(native.FAULT, "program 0: fault SEGMENT at instruction ", make_artifact(faulty=True), DesignBoard(TINY))


def test_another_networks_registers_are_not_taken_for_its_own() -> None:
    first, second = make_artifact(), ROWS
    board = computed(first)
    one, two = opened(first, board), opened(second, board)
    x, u = images(2), random_inputs(Executable(second).inputs, 0, 2)
    for _ in range(2):
        assert np.array_equal(one.run(x)[0].reshape(2, -1), reference(x)[1].reshape(2, -1))
        assert np.array_equal(two.run(*u)[1], Executable(second)(list(u))[1].reshape(2, *SHAPE))


def test_values_that_steps_cannot_take_are_named() -> None:
    steps: tuple[Step, ...] = (QuantizeStep("f", "x", 0.5, 0), *make_artifact().steps)
    made = make_artifact(steps=steps, inputs=(TensorSpec("f", SHAPE, "float32"),))
    network, x = opened(made, computed(made)), images(2).astype(np.float32)
    assert np.array_equal(network.run(x)[0].reshape(2, -1), Executable(made)(x))
    x[1, 0, 0, 0] = np.nan
    with pytest.raises(Refused, match="input f: a value is NaN or infinite"):
        network.run(x)
    cast = CastStep("t", "s8", -1, "int8")
    bad = dataclasses.replace(ROWS, steps=(ROWS.steps[0], cast, *ROWS.steps[2:]))
    with pytest.raises(Refused, match="tensor t: a value that the step cannot take"):
        opened(bad, computed(bad)).run(np.full((1, 1, 4, 8), 255, np.uint8))


def test_registers_and_formats_are_pythons() -> None:
    assert HEADER.read_text() == contract_header(), "run python -m tilewright.runtime.contract"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert C is not None
    handle, board = ctypes.c_void_p(), computed(make_artifact())
    path = str(tmp_path / "missing.twa").encode()
    assert C.tilewright_open_file(ctypes.byref(handle), path, ctypes.byref(board.struct), None) == native.FILE
    C.tilewright_error.restype = ctypes.c_char_p
    assert C.tilewright_error(handle).decode() == f"{path.decode()}: cannot be read: No such file or directory"
    C.tilewright_close(handle)


# -- whole networks on the design --------------------------------------------------------------------------


def on_the_design(artifact: Artifact, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the C runtime makes of inputs on the design: the same as Python's ``rtl`` device, in as many cycles."""
    network = opened(artifact, DesignBoard(artifact.config))
    (y,) = network.run(x)
    with closing(open_device("rtl", artifact.config)) as device:
        wanted, report = Executable(artifact, device, verified=True).run(x)
    assert y.tobytes() == wanted.tobytes()
    assert network.cycles == report.cycles
    return y


@pytest.mark.slow
def test_the_digits_run_on_the_design(toolchain: None) -> None:
    folder = Path(__file__).parents[2] / "examples" / "digits"
    artifact = compile_model(folder / "digits.onnx", "pynq-z2", cache=False).artifact
    with np.load(folder / "digits_test.npz") as data:
        x = data[data.files[0]][:5]
    on_the_design(artifact, x)


@pytest.mark.slow
@pytest.mark.parametrize("name,count", [("resnet8_cifar10", 5), ("mobilenet_v2_imagenet", 1)])
def test_real_networks_run_on_the_design(name: str, count: int, model_case: Any, toolchain: None) -> None:
    case: ModelCase = model_case(name)
    artifact = compile_model(case.model, "pynq-z2").artifact
    assert on_the_design(artifact, case.x[:count]).tobytes() == case.y[:count].tobytes()
