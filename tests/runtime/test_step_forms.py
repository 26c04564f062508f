"""What each step takes, to the last value, shape and type."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import images, make_artifact, make_program, reference
from tilewright.isa.program import Segment
from tilewright.runtime import executable, interpreter_step
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable, InputError, digest
from tilewright.runtime.flow import check_flow
from tilewright.runtime.interpreter_step import run_interpreter_step
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.step_base import INTEGERS, MOST_ELEMENTS
from tilewright.runtime.steps import (
    CastStep,
    DequantizeStep,
    Form,
    InterpreterStep,
    JoinStep,
    LaunchStep,
    PackStep,
    QuantizeStep,
    SoftmaxStep,
    StepError,
    TableSoftmaxStep,
    TensorSpec,
    UnpackStep,
)

VECTOR = Form((1, 4), "int8")


@pytest.mark.parametrize(
    ("least", "shift", "taken"),
    [(-128, 24, True), (-129, 24, False), (-255, 23, True), (-1000, 23, True), (-256, 24, False), (-1, 31, True),
     (-2, 31, False), (0, 31, True)],
)  # fmt: skip
def test_the_widest_difference_of_a_softmax_stays_within_int32(least: int, shift: int, taken: bool) -> None:
    step = SoftmaxStep("x", "y", 1 << 30, shift, least)
    if taken:
        assert step.result(VECTOR) == VECTOR
    else:
        with pytest.raises(StepError, match=f"a difference of {least} shifted by {shift} is beyond int32"):
            step.result(VECTOR)


@pytest.mark.parametrize("form", [Form((1, 4), "uint8"), Form((), "int8"), Form((1, 0), "int8")])
def test_a_softmax_is_of_an_int8_vector(form: Form) -> None:
    for step in (SoftmaxStep("x", "y", 1 << 30, 20, -9), TableSoftmaxStep("x", "y", (1.0,) * 256, 256.0, 0)):
        with pytest.raises(StepError, match="is no int8 vector"):
            step.result(form)


@pytest.mark.parametrize(
    ("last", "factor", "elements", "taken"),
    [(1e36, 256.0, 4, True), (1e36, 400.0, 4, False), (1e36, 1.0, 300, True), (1e36, 1.0, 400, False)],
)
def test_sums_and_products_of_a_table_stay_within_float32(
    last: float, factor: float, elements: int, taken: bool
) -> None:
    step, form = TableSoftmaxStep("x", "y", (0.0,) * 255 + (last,), factor, 0), Form((2, elements), "int8")
    if taken:
        assert step.result(form) == form
    else:
        with pytest.raises(StepError, match="sums leave float32"):
            step.result(form)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16", *INTEGERS])
def test_integers_of_at_most_32_bits_are_cast_and_dequantised(dtype: str) -> None:
    for zero_point, wide in ((0, True), (1, False), (-5, False)):
        step, form = DequantizeStep("x", "y", 0.5, zero_point), Form((3,), dtype)
        if dtype in INTEGERS and (wide or dtype != "int32"):
            assert step.result(form) == Form((3,), "float32")
        else:
            with pytest.raises(StepError, match=f"less {zero_point} does not stay within int32"):
                step.result(form)
    if dtype in INTEGERS:
        assert CastStep("x", "y", 3, "int16").result(Form((3,), dtype)) == Form((3,), "int16")
    else:
        with pytest.raises(StepError, match="are no integers of at most 32 bits"):
            CastStep("x", "y", 3, "int16").result(Form((3,), dtype))
    if dtype == "float32":
        assert QuantizeStep("x", "y", 0.5, 3).result(Form((3,), dtype)) == Form((3,), "int8")
    else:
        with pytest.raises(StepError, match="is not float32"):
            QuantizeStep("x", "y", 0.5, 3).result(Form((3,), dtype))


def test_parts_are_of_one_type() -> None:
    join = JoinStep(("a", "b"), "y", ((0, 0), (0, 2)), (1, 4))
    parts = [Form((1, 2), "int8")] * 2
    assert join.result(parts) == Form((1, 4), "int8")
    for other in ("uint8", "int16"):
        with pytest.raises(StepError, match="are no parts of"):
            join.result([parts[0], Form((1, 2), other)])


def test_what_is_packed_fits_its_units() -> None:
    rows, patches = PackStep("x", 0, (1, 3, 3, 4), 4, 1), PackStep("x", 0, (1, 3, 3, 4), 4, 9, "patches", kernel=(3, 3))
    form = Form((1, 3, 3, 4), "int8")
    for step in (rows, patches):
        step.check(form)
    for wrong, said in (
        (replace(rows, shape=(1, 3, 3, 5)), "does not hold"),
        (replace(rows, lanes=3), "4 values do not fit 1 units of 3"),
        (replace(patches, units=8), "36 values do not fit 8 units of 4"),
        (replace(rows, shape=(3, 1, 3, 4)), r"the batch of \(3, 1, 3, 4\) is not 1"),
        (replace(rows, permutation=(0, 1, 2, 2)), "no order"),
        (replace(patches, dilation=(2, 1)), "does not fit the image"),
        (replace(patches, kernel=(3, 4)), "does not fit the image"),
    ):  # fmt: skip
        with pytest.raises(StepError, match=said):
            wrong.check(form)
    with pytest.raises(StepError, match="are no 8-bit integers"):
        rows.check(Form((1, 3, 3, 4), "int16"))
    assert replace(patches, shape=(1, 6, 5, 4), strides=(3, 2)).positions == (2, 2)
    assert replace(patches, shape=(1, 5, 5, 4), dilation=(2, 2)).positions == (1, 1)


@pytest.mark.parametrize(
    ("dtype", "offset", "taken"),
    [("int8", 0, True), ("int8", 1, False), ("int8", -1, False), ("uint8", 128, True), ("uint8", 127, False),
     ("uint8", 129, False), ("int16", 255, True), ("int16", -255, True), ("uint16", 127, False), ("uint16", 128, True)],
)  # fmt: skip
def test_every_int8_value_fits_what_it_is_unpacked_as(dtype: str, offset: int, taken: bool) -> None:
    step = UnpackStep("y", 0, (1, 1, 2, 3), (1, 6), 4, 1, value_offset=offset, dtype=dtype)
    if not taken:
        with pytest.raises(StepError, match=f"values from {offset - 128} to {offset + 127} do not fit {dtype}"):
            step.check()
        return
    step.check()
    data = np.array([[-128, 127, 0, 9, 1, 2, 3, 9]], np.int8).view(np.uint8)
    assert step.apply(data).tolist() == [[[v + offset for v in (-128, 127, 0, 1, 2, 3)]]]
    for wrong, said in (
        (replace(step, lanes=2), "3 channels do not fit 1 units of 2"),
        (replace(step, tensor_shape=(1, 5)), "does not fill"),
        (replace(step, shape=(2, 1, 1, 3)), "is not 1"),
    ):
        with pytest.raises(StepError, match=said):
            wrong.check()


# -- what steps hand to each other ----------------------------------------------------------------------------


def with_steps(*changes: tuple[type, dict[str, Any]]) -> Artifact:
    """The tiny network with fields of its steps of some types changed."""
    made = make_artifact()
    steps = list(made.steps)
    for kind, change in changes:
        steps = [replace(step, **change) if isinstance(step, kind) else step for step in steps]
    return replace(made, steps=tuple(steps))


def test_bytes_lie_within_a_segment_of_the_right_kind() -> None:
    artifact = make_artifact()
    check_flow(artifact)
    segments = artifact.programs[0].segments
    for kind in (PackStep, UnpackStep):
        (step,) = (step for step in artifact.steps if isinstance(step, kind))
        room = segments[step.segment].size - step.size
        check_flow(with_steps((kind, {"offset": room})))
        with pytest.raises(StepError, match=f"bytes {room + 1}..{room + 1 + step.size} lie outside"):
            check_flow(with_steps((kind, {"offset": room + 1})))
        for number, segment in enumerate(segments):
            if segment.kind != segments[step.segment].kind:
                with pytest.raises(StepError, match=rf"step \d: {step.kind}.* is of kind {segment.kind}, not"):
                    check_flow(with_steps((kind, {"segment": number, "offset": 0})))
        with pytest.raises(StepError, match=f"program 0 has no segment {len(segments)}"):
            check_flow(with_steps((kind, {"segment": len(segments)})))


def test_a_program_is_packed_for_before_and_unpacked_from_after_its_launch() -> None:
    artifact = make_artifact()
    pack, launch, unpack, *rest = artifact.steps
    assert isinstance(launch, LaunchStep)
    for steps, said in (
        ((launch, pack, unpack), "step 1: .*program 0 has already been launched"),
        ((pack, unpack, launch), "step 1: .*program 0 has not yet been launched"),
        ((pack, launch, launch, unpack), "step 2: .*program 0 has already been launched"),
    ):
        with pytest.raises(StepError, match=said):
            check_flow(replace(artifact, steps=(*steps, *rest)))


def test_states_are_int8_tensors_of_names_of_their_own() -> None:
    state = TensorSpec("s", (1, 2, 4, 4), zero_point=127)
    made = with_steps((UnpackStep, {"tensor": "s"}))
    with_state = replace(made, states=(state,))
    assert with_state.states[0].dtype == "int8"
    check_flow(with_state)
    for wrong, said in (
        (replace(state, name="x"), "state x: the name of another tensor"),
        (replace(state, zero_point=128), "of zero point 128, not int8"),
        (replace(state, zero_point=-129), "of zero point -129, not int8"),
        (replace(state, dtype="uint8"), "not int8"),
    ):
        with pytest.raises(StepError, match=said):
            check_flow(replace(made, states=(wrong,)))


def test_tensors_of_a_batch_are_those_of_one_image() -> None:
    artifact = make_artifact()
    check_flow(replace(artifact, batch=2))
    wide = replace(artifact, inputs=(TensorSpec("x", (2, 1, 4, 4)),))
    check_flow(wide)
    with pytest.raises(StepError, match=r"tensor x of shape \(2, 1, 4, 4\) is not that of one image"):
        check_flow(replace(wide, batch=2))


def test_a_tensor_has_no_more_elements_than_any_model() -> None:
    artifact = make_artifact()
    for more in (0, 1):
        spare = TensorSpec("spare", (MOST_ELEMENTS + more,))
        large = replace(artifact, inputs=(*artifact.inputs, spare))
        if more:
            with pytest.raises(StepError, match=f"tensor spare is .*, of more than {MOST_ELEMENTS} elements"):
                check_flow(large)
        else:
            check_flow(large)


def test_an_executable_looks_at_its_steps_first() -> None:
    wrong = with_steps((PackStep, {"segment": 99}))
    with pytest.raises(StepError, match="has no segment 99"):
        Executable(wrong)
    assert Executable(wrong, verified=True).artifact is wrong


# -- what is given, and what it is told by --------------------------------------------------------------------


def test_inputs_hold_as_many_inferences_as_each_other() -> None:
    artifact = make_artifact()
    made = Executable(replace(artifact, inputs=(*artifact.inputs, TensorSpec("z", (1, 3)))))
    x = images(2)
    made.run([x, np.zeros((2, 3), np.int8)])
    for count in (1, 3):
        with pytest.raises(InputError, match=rf"different numbers of inferences: \[{min(2, count)}, {max(2, count)}\]"):
            made.run([x, np.zeros((count, 3), np.int8)])


def test_a_digest_tells_types_and_shapes_apart() -> None:
    x = np.arange(6, dtype=np.int8)
    alike: list[list[np.ndarray]] = [
        [x],
        [x.reshape(2, 3)],
        [x.reshape(3, 2)],
        [x.view(np.uint8)],
        [x[:3], x[3:]],
        [x[::-1].copy()],
    ]
    assert len({digest(arrays) for arrays in alike}) == len(alike)
    assert digest([x]) == digest([np.arange(12, dtype=np.int8)[:6]]) == digest([np.repeat(x, 2)[::2]])


class Twice:
    """An interpreter of one input and so many outputs."""

    def __init__(self, outputs: int = 1) -> None:
        self.outputs = outputs

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [2 * inputs[0]] * self.outputs


def test_interpreters_of_other_kernels_are_not_taken_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []

    def load(runtime: str, model: bytes, what: str, *, fast: bool = False) -> Twice:
        loaded.append(fast)
        return Twice()

    monkeypatch.setattr("tilewright.runtime.interpreters.load", load)
    monkeypatch.setattr(interpreter_step, "_IDLE", [])
    step = InterpreterStep(("x",), ("y",), "m", "litert")
    for fast in (False, True, True, False):
        environment = {"x": np.arange(6).reshape(3, 2)}
        run_interpreter_step(replace(step, fast=fast), environment, {"m": b"model"})
        assert environment["y"].tolist() == [[0, 2], [4, 6], [8, 10]]
    assert loaded == [False, True]
    run_interpreter_step(step, {"x": np.arange(2)[None]}, {"m": b"another"})
    run_interpreter_step(replace(step, runtime="onnxruntime"), {"x": np.arange(2)[None]}, {"m": b"model"})
    assert loaded == [False, True, False, False]


@pytest.mark.parametrize("outputs", [0, 1, 3])
def test_an_interpreter_gives_as_many_tensors_as_declared(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.interpreters.load", lambda *_, **__: Twice(outputs))
    monkeypatch.setattr(interpreter_step, "_IDLE", [])
    step = InterpreterStep(("x",), ("y", "z"), "m", "litert", operators=("A", "B"))
    with pytest.raises(InterpreterError, match=f"A, B: {outputs} outputs, 2 declared"):
        run_interpreter_step(step, {"x": np.arange(2)[None]}, {"m": b"model"})


# -- how many inferences a launch takes -----------------------------------------------------------------------


def test_launches_under_way_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Executable(make_artifact())
    stride = sum(s.repeat_stride for s in made.artifact.programs[0].segments)
    monkeypatch.setattr(executable, "LAUNCH_BYTES", 12 * stride)
    assert [made._group_size(count, 1) for count in (1, 11, 12, 13, 1000)] == [1, 11, 12, 12, 12]
    assert [made._group_size(1000, flights) for flights in (2, 3, 5, 100)] == [6, 4, 2, 1]
    monkeypatch.setattr(executable, "LAUNCH_BYTES", 1 << 40)
    assert made._group_size(1000, 1) == executable.LAUNCH_INFERENCES
    assert made._group_size(80, 4) == 80 // (executable.GROUPS * 4)
    assert made._group_size(3, 4) == 1


@pytest.mark.parametrize("kind", ["input", "output", "shared", "scratch", "constant"])
def test_what_cannot_repeat_is_launched_once_at_a_time(kind: str) -> None:
    program = make_program()
    more = dataclasses.replace(program, segments=(*program.segments, Segment("more", kind, 64)))  # type: ignore[arg-type]
    made = Executable(make_artifact(programs=(more,)), verified=True)
    assert made._group_size(8, 1) == (1 if kind in ("input", "output", "shared") else 8)


@pytest.mark.parametrize("jobs", [None, 2])
def test_an_inference_is_done_with_its_last_launch(jobs: int | None) -> None:
    artifact = make_artifact()
    steps: tuple[Any, ...] = artifact.steps
    pack, launch, unpack, reshape = steps
    again = (
        replace(pack, program=1, tensor="s"), replace(launch, program=1), replace(unpack, program=1, tensor="s2"),
        replace(reshape, input="s2"),
    )  # fmt: skip
    made = Executable(
        replace(artifact, programs=artifact.programs * 2, steps=(pack, launch, unpack, *again)), verified=False
    )
    x, finished = images(5), list[int]()
    y, report = made.run(x, jobs=jobs, progress=finished.append)
    assert sum(finished) == 5
    assert len(report.runs) == 2
    assert np.array_equal(y.reshape(5, 2, 4, 4), reference(reference(x)[1])[1])
