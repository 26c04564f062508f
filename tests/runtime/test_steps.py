"""Packing and unpacking against a plain loop; steps survive JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.naive_steps import pack as naive_pack
from tests.runtime.network import make_artifact
from tilewright.runtime.flow import check_flow
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    CutStep,
    DequantizeStep,
    Form,
    InterpreterStep,
    JoinStep,
    LaunchStep,
    PackStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    Step,
    StepError,
    TableSoftmaxStep,
    TransposeStep,
    UnpackStep,
    step_from_dict,
    step_to_dict,
)


def int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, dtype=np.int8)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels,units", [(3, 1), (4, 1), (10, 3)])
def test_rows_place_each_channel_in_its_unit_and_lane(batch: int, channels: int, units: int) -> None:
    x = int8(np.random.default_rng(1), 2, 1, 3, 5, channels)
    step = PackStep("x", 1, (1, 3, 5, channels), lanes=4, units=units, batch=batch, channel_pad=-7)
    out = step.apply(x).view(np.int8).reshape(2, 3, 5, units, batch, 4)
    assert step.size == out[0].size
    for c in range(units * 4):
        expected = x[:, 0, :, :, c] if c < channels else np.full((2, 3, 5), -7)
        assert np.array_equal(out[:, :, :, c // 4, 0, c % 4], expected)
    assert not out[:, :, :, :, 1:].any()


@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
@pytest.mark.parametrize("batch", [1, 2])
def test_patches_equal_a_plain_loop(strides: tuple[int, int], dilation: tuple[int, int], batch: int) -> None:
    x = int8(np.random.default_rng(2), 2, 1, 8, 9, 3)
    padding, kernel = (1, 0, 2, 1), (3, 2)
    step = PackStep(
        "x", 0, (1, 8, 9, 3), lanes=4, units=5, layout="patches", batch=batch, kernel=kernel, strides=strides,
        dilation=dilation, padding=padding, pad_value=-5,
    )  # fmt: skip
    rows, columns = step.positions
    out = step.apply(x).view(np.int8).reshape(2, rows, columns, 5, batch, 4)[..., 0, :].reshape(2, rows, columns, 20)
    padded = np.full((2, 11, 10, 3), -5, np.int8)
    padded[:, 1:9, 0:9] = x[:, 0]
    for oy in range(rows):
        for ox in range(columns):
            values = [
                padded[:, oy * strides[0] + ky * dilation[0], ox * strides[1] + kx * dilation[1]]
                for ky in range(3)
                for kx in range(2)
            ]
            assert np.array_equal(out[:, oy, ox, :18], np.concatenate(values, axis=1))
    assert not out[..., 18:].any()


def test_uint8_and_nchw_go_in_and_come_back() -> None:
    x = np.random.default_rng(3).integers(0, 256, (2, 1, 5, 3, 4), dtype=np.uint8)  # NCHW, C = 5
    pack = PackStep("x", 0, (1, 3, 4, 5), lanes=4, units=2, permutation=(0, 2, 3, 1), value_offset=-128)
    unpack = UnpackStep(
        "y", 0, (1, 3, 4, 5), (1, 5, 3, 4), lanes=4, units=2, permutation=(0, 3, 1, 2), value_offset=128, dtype="uint8"
    )
    data = pack.apply(x)
    assert data.shape == (2, pack.size)
    assert data.view(np.int8)[0, 0] == int(x[0, 0, 0, 0, 0]) - 128
    assert np.array_equal(unpack.apply(data), x)


def test_unpack_crops_channels_and_takes_batch_row_0() -> None:
    x = int8(np.random.default_rng(4), 3, 1, 2, 2, 6)
    pack = PackStep("x", 0, (1, 2, 2, 6), lanes=4, units=2, batch=4, channel_pad=9)
    unpack = UnpackStep("y", 0, (1, 2, 2, 6), (1, 24), lanes=4, units=2, batch=4)
    assert np.array_equal(unpack.apply(pack.apply(x)), x.reshape(3, 1, 24))


def test_values_that_do_not_fit_are_refused() -> None:
    step = PackStep("x", 0, (1, 1, 1, 4), lanes=4, units=1)
    with pytest.raises(StepError, match="pack x: values from 0 to 200 do not fit int8"):
        step.apply(np.array([[[0, 1, 2, 200]]], np.int32))
    with pytest.raises(StepError, match="does not hold"):
        step.apply(np.zeros((1, 1, 5), np.int8))
    with pytest.raises(StepError, match="do not fit 1 units of 4"):
        PackStep("x", 0, (1, 1, 1, 5), lanes=4, units=1).apply(np.zeros((1, 1, 5), np.int8))


def test_blocks_of_channels_lie_one_behind_the_other() -> None:
    """Rows of two blocks of two units, and zeros up to four pixels and eight channels."""
    step = PackStep("x", 0, (1, 2, 3, 6), lanes=2, units=4, layout="blocks", block=2, padding=(0, 0, 0, 1))
    x = np.arange(1, 37).astype(np.int8).reshape(1, 1, 2, 3, 6)
    packed = step.apply(x).view(np.int8).reshape(2, 2, 4, 4)
    for row, block, pixel, channel in np.ndindex(2, 2, 4, 4):
        inside = pixel < 3 and block * 4 + channel < 6
        assert packed[row, block, pixel, channel] == (x[0, 0, row, pixel, block * 4 + channel] if inside else 0)
    memory = np.zeros(step.size, np.int64)
    naive_pack(step, x[0], memory)
    assert np.array_equal(memory.astype(np.int8), packed.ravel())
    with pytest.raises(StepError, match="are no whole blocks of 3"):
        replace(step, block=3).check(Form((1, 2, 3, 6), "int8"))


@pytest.mark.parametrize("table", [(1.0, 0.5) * 128, (0.0,) * 256, (1.0,) * 10, (3e38,) * 256])
def test_tables_that_softmax_cannot_use_are_refused(table: tuple[float, ...]) -> None:
    with pytest.raises(StepError):
        TableSoftmaxStep("x", "y", table, 256.0, 0).result(Form((1, 4), "int8"))


STEPS: list[Step] = [
    PackStep("x", 1, (1, 2, 3, 4), 4, 1, permutation=(0, 2, 3, 1)),
    LaunchStep(),
    LaunchStep(0, (1, 2)),
    CutStep("y", "u", (0, 1, 0, 0), (1, 2, 3, 4)),
    ConstantStep.of("y", "z", np.arange(-12, 12).reshape(1, 2, 3, 4)),
    JoinStep(("u", "v"), "y", ((0, 1, 0, 0), (0, 3, 0, 0)), (1, 5, 3, 4)),
    UnpackStep("y", 2, (1, 1, 1, 4), (1, 4), 4, 1),
    SoftmaxStep("y", "p", 1073741824, 22, -100),
    TableSoftmaxStep("p", "p2", (0.0, 0.5) * 128, 256.0, 3),
    CastStep("p", "q", 128, "uint8"),
    QuantizeStep("a", "b", 0.1, -3),
    DequantizeStep("b", "c", 0.1, -3),
    ReshapeStep("c", "d", (1, 2, 2)),
    TransposeStep("d", "e", (0, 2, 1)),
    InterpreterStep(("e",), ("f", "g"), "host0.tflite", "litert", operators=("LSTM",), stateful=True),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_steps_survive_json(step: Step) -> None:
    assert step_from_dict(json.loads(json.dumps(step_to_dict(step)))) == step


def test_unknown_steps_are_refused() -> None:
    with pytest.raises(StepError, match="dance: no such step; the steps are pack"):
        step_from_dict({"kind": "dance"})
    with pytest.raises(StepError, match=r"launch step: .*speed"):
        step_from_dict({"kind": "launch", "speed": 3})


def test_constants_are_there_for_every_inference() -> None:
    values, image = np.arange(-3, 3, dtype=np.int8).reshape(1, 2, 3), Form((1, 7), "float32")
    step = ConstantStep.of("x", "y", values)
    assert step.result(image) == Form((1, 2, 3), "int8")
    assert step.apply(np.zeros((4, 1, 7), np.float32)).tolist() == [values.tolist()] * 4
    for shape, data, said in ((((1, 2, 4)), step.data, "6 bytes for int8"), ((1, 2, 3), "!", "constant y: ")):
        with pytest.raises(StepError, match=said):
            ConstantStep("x", "y", shape, data).result(image)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32"])
def test_constants_of_every_type(dtype: str) -> None:
    values = np.array([[0, 1, 7], [100, 2, 1]]).astype(dtype)
    step = ConstantStep.of("x", "y", values)
    assert step.result(Form((1, 7), "float32")) == Form((2, 3), dtype)
    made = step.apply(np.zeros((4, 1, 7), np.float32))
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, np.stack([values] * 4))
    with pytest.raises(StepError, match=rf"for {dtype}\[2, 3\]"):
        ConstantStep("x", "y", (2, 3), step.data[:-4], dtype).result(Form((1, 7), "float32"))


def test_parts_of_tensors_lie_within_them() -> None:
    cut, image = CutStep("x", "y", (0, 1), (1, 2)), Form((1, 3), "int8")
    assert cut.result(image) == Form((1, 2), "int8")
    assert cut.apply(np.arange(6).reshape(2, 1, 3)).tolist() == [[[1, 2]], [[4, 5]]]
    for wrong in (Form((1, 2), "int8"), Form((1, 1, 3), "int8")):
        with pytest.raises(StepError, match="is no part of"):
            cut.result(wrong)
    join, parts = JoinStep(("a", "b"), "y", ((0, 0), (0, 1)), (1, 4)), [Form((1, 2), "int8")] * 2
    assert join.result(parts) == Form((1, 4), "int8")
    assert join.apply([np.array([[[1, 2]]]), np.array([[[2, 3]]])]).tolist() == [[[1, 2, 3, 0]]]
    wrong_parts: tuple[list[Form], ...] = (
        [],
        parts[:1],
        [parts[0], Form((1, 4), "int8")],
        [parts[0], Form((1, 2), "uint8")],
    )
    for forms in wrong_parts:
        with pytest.raises(StepError, match="are no parts of"):
            join.result(forms)


def test_a_program_is_launched_once_alone_or_beside_others() -> None:
    artifact = make_artifact()
    again = replace(artifact, steps=tuple(
        LaunchStep(0, (0,)) if isinstance(step, LaunchStep) else step for step in artifact.steps
    ))  # fmt: skip
    with pytest.raises(StepError, match="program 0 has already been launched"):
        check_flow(again)
    missing = replace(artifact, steps=tuple(
        LaunchStep(0, (1,)) if isinstance(step, LaunchStep) else step for step in artifact.steps
    ))  # fmt: skip
    with pytest.raises(StepError, match="there is no program 1"):
        check_flow(missing)


def test_a_padded_image_has_a_limit() -> None:
    """Padding asks for memory that the tensor's own elements do not; here 16 columns of 16 channels."""
    most = PackStep("x", 0, (1, 1, 1, 16), lanes=16, units=1, padding=((1 << 20) - 2, 7, 1, 8))
    most.check(Form((1, 16), "int8"))
    for padding in (((1 << 20) - 1, 7, 1, 8), ((1 << 20) - 2, 8, 1, 8), ((1 << 20) - 2, 7, 1, 9)):
        with pytest.raises(StepError, match=rf"the padded image has \d+ values, more than {1 << 28}"):
            replace(most, padding=padding).check(Form((1, 16), "int8"))
    window = replace(most, padding=(0, 0, 0, 0), layout="patches", kernel=(2, 1), units=2)
    with pytest.raises(StepError, match=r"a \(2, 1\) window does not fit the image \(1, 1, 1, 16\)"):
        window.check(Form((1, 16), "int8"))
    replace(window, padding=(0, 0, 1, 0)).check(Form((1, 16), "int8"))
