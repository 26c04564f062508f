"""Artifacts with a correct checksum and hostile contents: a named error, or what the steps plainly mean."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from tests.fuzz.hostile import open_artifact, open_program, seal_artifact, seal_program
from tests.isa.build import INPUT, OUTPUT
from tests.runtime import naive_steps
from tests.runtime.mutants import mutants
from tests.runtime.network import SHAPE, TINY, make_artifact
from tilewright.cli.compile import print_artifact
from tilewright.errors import TilewrightError
from tilewright.isa.container import dump
from tilewright.runtime.artifact import Artifact, ArtifactError
from tilewright.runtime.executable import Executable
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.report.console import print_report
from tilewright.runtime.report.html import render_html
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    CutStep,
    DequantizeStep,
    JoinStep,
    LaunchStep,
    PackStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    Step,
    StepError,
    TensorSpec,
    TransposeStep,
    UnpackStep,
)
from tilewright.terminal import output_console

OPTIONS: dict[str, Any] = {
    "keep_intermediates": False, "fast_host": True, "exact": "default", "moved": [["pool", "because"]],
    "rejected": ["too large"],
    "operators": [
        {"name": "conv", "op": "CONV_2D", "macs": 128, "place": "accelerator", "reason": "fits", "exact": "proven"},
        {"name": "flatten", "op": "RESHAPE", "macs": 0, "place": "host", "reason": "no", "exact": "3 of 4 channels"},
    ],
}  # fmt: skip


def whole(pack: PackStep, shape: tuple[int, ...]) -> Artifact:
    """The toy network with every kind of NumPy step around it."""
    steps: list[Step] = [
        TransposeStep("u", "t", (0, 2, 1)),
        CastStep("t", "s8", -128, "int8"),
        DequantizeStep("s8", "f", 0.5, 3),
        QuantizeStep("f", "q", 0.25, -1),
        CutStep("q", "top", (0, 0, 0), (1, 5, 4)),
        CutStep("q", "bottom", (0, 4, 0), (1, 4, 4)),
        ConstantStep.of("u", "fixed", np.arange(8, dtype=np.int8).reshape(1, 2, 4)),
        JoinStep(("top", "bottom", "fixed"), "j", ((0, 0, 0), (0, 4, 0), (0, 6, 0)), (1, 8, 4)),
        ReshapeStep("j", "x", shape),
        pack,
        LaunchStep(),
        UnpackStep("v", OUTPUT, SHAPE, (1, 4, 2, 4), TINY.lanes, 1, permutation=(0, 3, 1, 2), value_offset=128,
                   dtype="uint8"),
        UnpackStep("w", OUTPUT, SHAPE, SHAPE, TINY.lanes, 1),
        SoftmaxStep("w", "p", 1073741824, 22, -100),
    ]  # fmt: skip
    return make_artifact(
        steps=tuple(steps),
        inputs=(TensorSpec("u", (1, 4, 8), "uint8"),),
        outputs=(TensorSpec("v", (1, 4, 2, 4), "uint8"), TensorSpec("p", SHAPE)),
        options=OPTIONS,
    )


ROWS = whole(PackStep("x", INPUT, SHAPE, TINY.lanes, 1), SHAPE)
PATCHES = whole(
    PackStep("x", INPUT, (1, 4, 8, 1), TINY.lanes, 1, layout="patches", kernel=(2, 2), strides=(2, 3),
             dilation=(2, 1), padding=(1, 2, 1, 2), pad_value=5, channel_pad=7),
    (1, 1, 4, 8),
)  # fmt: skip


#: of a tensor; a legal artifact may ask for more, over which plain loops take minutes and the machine's memory
MOST_ELEMENTS = 1 << 20


def survive(data: bytes) -> bool:
    """Load, show, run and report; False where that was refused. Whatever is accepted has the plain meaning."""
    try:
        artifact = Artifact.from_bytes(data, "a.twa")
        print_artifact(artifact, output_console(), True)
        executable = Executable(artifact)
        x = random_inputs(executable.inputs, 3, 2)
        y, report = executable.run(x)
    except TilewrightError:
        return False
    json.dumps(report.to_dict(), allow_nan=False)
    render_html(report.to_dict(), report.runs)
    print_report(report, output_console())
    found = y if isinstance(y, list) else [y]
    if max(each.size for each in (*x, *found)) > MOST_ELEMENTS:
        return True
    images = 2 * artifact.batch
    for k in {0, 1, images - 1}:
        inputs = {t.name: value.reshape(images, *t.shape)[k] for t, value in zip(artifact.inputs, x)}
        for got, wanted in zip(found, naive_steps.run(artifact, inputs), strict=True):
            image = got.reshape(images, -1)[k]
            assert np.array_equal(image, wanted.reshape(-1), equal_nan=got.dtype.kind == "f")
    return True


def campaign(part: list[tuple[str, bytes]]) -> int:
    """How many of the mutants are accepted; names the one that is not survived."""
    accepted = 0
    for what, data in part:
        try:
            accepted += survive(data)
        except Exception as error:
            raise AssertionError(what) from error
    return accepted


def artifact_mutants(made: Artifact) -> list[tuple[str, bytes]]:
    header, blobs = open_artifact(made.to_bytes())
    return [(what, seal_artifact(changed, blobs)) for what, changed in mutants(header)]


def program_mutants(made: Artifact) -> list[tuple[str, bytes]]:
    header, _ = open_artifact(made.to_bytes())
    inner, inner_blobs = open_program(dump(made.programs[0]))
    found = []
    for what, changed in mutants(inner):
        program = seal_program(changed, inner_blobs)
        found.append((what, seal_artifact({**header, "programs": [len(program)]}, program)))
    return found


def test_the_networks_that_are_attacked_run() -> None:
    assert all(survive(made.to_bytes()) for made in (ROWS, PATCHES))


@pytest.mark.parametrize("made", [ROWS, PATCHES], ids=["rows", "patches"])
def test_every_field_of_the_steps_survives_hostile_values(made: Artifact) -> None:
    header, blobs = open_artifact(made.to_bytes())
    part = []
    for what, steps in mutants(header["steps"]):
        part.append((what, seal_artifact({**header, "steps": steps}, blobs)))
    assert len(part) > 3000
    assert 0 < campaign(part[:: 7 if made is ROWS else 3]) < len(part) // 4


def test_some_of_all_fields_survive_hostile_values(request: pytest.FixtureRequest) -> None:
    part = artifact_mutants(ROWS) + program_mutants(ROWS)
    assert 0 < campaign(part[5::37]) < len(part) // 4


@pytest.mark.slow
@pytest.mark.parametrize("made", [ROWS, PATCHES], ids=["rows", "patches"])
def test_all_fields_survive_all_hostile_values(made: Artifact) -> None:
    assert campaign(artifact_mutants(made) + program_mutants(made)) > 0


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"dilation": (-100_000_000, 1)}, "dilation: -100000000 is not from 1 to"),
        ({"dilation": (-3, 1)}, "dilation: -3 is not from 1 to"),
        ({"kernel": (4, 1), "dilation": (3, 1)}, "window does not fit the image"),
        ({"offset": 1 << 20}, "lie outside"),
        ({"padding": (30000, 0, 0, 1 << 20)}, "more than 268435456"),
        ({"segment": 2}, "is of kind output, not input"),
        ({"program": 1}, "there is no program 1"),
        ({"tensor": "nothing"}, "there is no tensor nothing"),
    ],
)
def test_a_hostile_pack_step_is_named(changes: dict[str, Any], message: str) -> None:
    steps = tuple(dataclasses.replace(s, **changes) if isinstance(s, PackStep) else s for s in PATCHES.steps)
    data = dataclasses.replace(PATCHES, steps=steps).to_bytes()
    with pytest.raises((ArtifactError, StepError), match=message):
        Executable(Artifact.from_bytes(data))


def test_a_tensor_larger_than_any_that_is_read_is_named() -> None:
    large = dataclasses.replace(ROWS.inputs[0], shape=(1 << 24, 4, 8))
    with pytest.raises(StepError, match="tensor u is .*, of more than 268435456 elements"):
        Executable(Artifact.from_bytes(dataclasses.replace(ROWS, inputs=(large,)).to_bytes()))
    whole = ROWS.outputs[0].shape
    join = JoinStep((ROWS.outputs[0].name,), "j", ((0,) * len(whole),), (1 << 20,) * len(whole))
    with pytest.raises(StepError, match="tensor j is .*, of more than 268435456 elements"):
        Executable(Artifact.from_bytes(dataclasses.replace(ROWS, steps=(*ROWS.steps, join)).to_bytes()))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (0, 1, 1, 2), (0, 2)])
def test_packing_launching_and_unpacking_come_in_that_order(order: tuple[int, ...]) -> None:
    made = make_artifact()
    steps = tuple(made.steps[k] for k in order) + made.steps[3:]
    with pytest.raises(StepError, match="has (not yet|already) been launched"):
        Executable(dataclasses.replace(made, steps=steps))


def test_a_batch_is_that_of_tensors_of_one_image() -> None:
    made = make_artifact()
    y, _ = Executable(made).run(random_inputs(made.inputs, 0, 2))
    batched = Executable(dataclasses.replace(made, batch=2))
    pair = random_inputs(batched.inputs, 0, 1)
    np.testing.assert_array_equal(batched(pair).reshape(y.shape), y)
    flat = dataclasses.replace(made.inputs[0], shape=made.inputs[0].shape[1:])
    with pytest.raises(StepError, match=r"of shape .* is not that of one image"):
        Executable(dataclasses.replace(made, batch=2, inputs=(flat,)))
    with pytest.raises(ArtifactError, match=r"batch: 0 is not from 1 to"):
        Artifact.from_bytes(dataclasses.replace(made, batch=0).to_bytes())
