"""Changes of form that packing and unpacking do on the way: fewer steps, equal results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.isa.build import INPUT, OUTPUT
from tests.runtime.network import SHAPE, TINY, images, make_artifact
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.folding import folded
from tilewright.runtime.steps import (
    CastStep,
    LaunchStep,
    PackStep,
    ReshapeStep,
    Step,
    TensorSpec,
    TransposeStep,
    UnpackStep,
)

PACK = PackStep("nhwc", INPUT, SHAPE, TINY.lanes, 1)
UNPACK = UnpackStep("raw", OUTPUT, SHAPE, SHAPE, TINY.lanes, 1)
AROUND: list[Step] = [
    CastStep("x", "signed", -128, "int8"),
    ReshapeStep("signed", "nchw", (1, 4, 2, 4)),
    TransposeStep("nchw", "nhwc", (0, 2, 3, 1)),
    PACK,
    LaunchStep(),
    UNPACK,
    TransposeStep("raw", "back", (0, 3, 1, 2)),
    ReshapeStep("back", "flat", (1, 32)),
    CastStep("flat", "y", 128, "uint8"),
]
INPUTS, OUTPUTS = (TensorSpec("x", (1, 4, 8), "uint8"),), (TensorSpec("y", (1, 32), "uint8"),)


def network(steps: list[Step], outputs: tuple[TensorSpec, ...] = OUTPUTS) -> Artifact:
    return make_artifact(steps=tuple(steps), inputs=INPUTS, outputs=outputs)


def fold(artifact: Artifact, *kept: str) -> Artifact:
    names = [*(tensor.name for tensor in artifact.outputs), *kept]
    return dataclasses.replace(artifact, steps=folded(artifact.steps, artifact.inputs, artifact.states, names))


def test_a_chain_on_either_side_is_gone_and_the_result_is_equal() -> None:
    whole = network(AROUND)
    made = fold(whole)
    kinds = [step.kind for step in made.steps]
    assert kinds == ["cast", "reshape", "pack", "launch", "unpack"], "no pack step reshapes before it transposes"
    x = images(3).view(np.uint8).reshape(3, 4, 8)
    assert np.array_equal(Executable(made)(x), Executable(whole)(x))
    assert made.steps[2] == dataclasses.replace(PACK, tensor="nchw", permutation=(0, 2, 3, 1))


def test_a_cast_goes_into_every_pack_that_reads_it() -> None:
    steps: list[Step] = [
        CastStep("x", "a", -128, "int8"), ReshapeStep("a", "b", SHAPE), dataclasses.replace(PACK, tensor="b"),
        LaunchStep(), dataclasses.replace(UNPACK, tensor="y", tensor_shape=(1, 32)),
    ]  # fmt: skip
    made = fold(network(steps, (TensorSpec("y", (1, 32)),)))
    assert [step.kind for step in made.steps] == ["pack", "launch", "unpack"]
    assert made.steps[0] == dataclasses.replace(PACK, tensor="x", value_offset=-128)


@pytest.mark.parametrize("kept", ["signed", "nhwc", "raw", "flat"])
def test_what_is_kept_stays(kept: str) -> None:
    made = fold(network(AROUND), kept)
    names = {getattr(step, "output", getattr(step, "tensor", "")) for step in made.steps}
    assert kept in names
    x = images(2).view(np.uint8).reshape(2, 4, 8)
    assert np.array_equal(Executable(made)(x), Executable(network(AROUND))(x))


def test_what_others_read_or_cannot_fit_stays() -> None:
    wide = CastStep("raw", "y", 300, "int32")
    assert fold(network([*AROUND[:6], wide], (TensorSpec("y", SHAPE, "int32"),))).steps[-1] == wide
    twice = [*AROUND, CastStep("raw", "z", 0, "int16")]
    assert sum(isinstance(step, TransposeStep) for step in fold(network(twice), "z").steps) == 1
    other = [CastStep("x", "a", -127, "int8"), *AROUND[1:]]
    other[1] = ReshapeStep("a", "nchw", (1, 4, 2, 4))
    assert other[0] in fold(network(other)).steps


def test_states_are_left_alone() -> None:
    """A tensor that a step reads as the last inference left it must not be written earlier than before."""
    state = TensorSpec("s", (1, 32))
    steps: list[Step] = [
        ReshapeStep("s", "flat", SHAPE), dataclasses.replace(PACK, tensor="flat"), LaunchStep(), UNPACK,
        ReshapeStep("raw", "s", (1, 32)), CastStep("x", "y", 0, "int16"),
    ]  # fmt: skip
    assert folded(steps, INPUTS, (state,), ["y"]) == tuple(steps)
