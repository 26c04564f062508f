"""Changes of form made part of packing and unpacking, which carry every value to another place anyway."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilewright.runtime.steps import (
    CastStep,
    Form,
    HostStep,
    InterpreterStep,
    JoinStep,
    PackStep,
    ReshapeStep,
    Step,
    StepError,
    TensorSpec,
    TransposeStep,
    UnpackStep,
)


def folded(
    steps: Sequence[Step], inputs: Iterable[TensorSpec], states: Iterable[TensorSpec], kept: Iterable[str]
) -> tuple[Step, ...]:
    """The steps with fewer casts, reshapes and transposes, and equal results.

    Tensors of the names ``kept``, and ``states``, which steps find and leave anew, stay.
    """
    found, again = list(steps), {tensor.name for tensor in states}
    named = {*kept, *again}
    while True:
        forms = _forms(found, [*inputs, *states])
        for number, step in enumerate(found):
            readers = [k for k, other in enumerate(found) if _output(step) in _inputs(other)]
            if not readers or _output(step) in named or again & {*_inputs(step), *_outputs(found, readers)}:
                continue
            made = _joined(step, [found[k] for k in readers], forms)
            if made is None:
                continue
            if isinstance(step, UnpackStep):
                found[number : number + 1], found[readers[0] : readers[0] + 1] = made, []
            else:
                for k, pack in zip(readers, made):
                    found[k] = pack
                del found[number]
            break
        else:
            return tuple(found)


def _joined(step: Step, readers: list[Step], forms: dict[str, Form]) -> list[Step] | None:
    """The readers with what a change of form does in front of them, or the one reader as part of an unpack step; None
    where they cannot do that."""
    if isinstance(step, UnpackStep):
        made = _unpacked(step, readers[0]) if len(readers) == 1 else None
        return None if made is None else [made]
    found: list[Step] = []
    for reader in readers:
        form = forms.get(getattr(step, "input", ""))
        packed = _packed(step, reader, form) if form is not None and isinstance(reader, PackStep) else None
        if packed is None:
            return None
        found.append(packed)
    return found


def _packed(step: Step, pack: PackStep, form: Form) -> PackStep | None:
    """A pack step of the input of ``step``, which has a ``form``, instead of its output."""
    if isinstance(step, CastStep) and (form.dtype, step.offset, step.dtype, pack.value_offset) == (
        "uint8",
        -128,
        "int8",
        0,
    ):
        return replace(pack, tensor=step.input, value_offset=-128)
    if isinstance(step, ReshapeStep) and pack.permutation is None:
        return replace(pack, tensor=step.input)
    if isinstance(step, TransposeStep) and pack.permutation is None:
        extents = [form.shape[axis] for axis in step.permutation if form.shape[axis] > 1]
        if extents == [extent for extent in pack.shape if extent > 1]:  # so that strides say where values are
            return replace(pack, tensor=step.input, permutation=step.permutation)
    return None


def _unpacked(unpack: UnpackStep, step: Step) -> UnpackStep | None:
    """An unpack step of the output of ``step``, which reads what it gives."""
    made = None
    if isinstance(step, ReshapeStep):
        made = replace(unpack, tensor=step.output, tensor_shape=step.shape)
    elif isinstance(step, CastStep) and unpack.value_offset == 0 and abs(step.offset) < 256:
        made = replace(unpack, tensor=step.output, value_offset=step.offset, dtype=step.dtype)
    elif isinstance(step, TransposeStep) and unpack.permutation is None and unpack.tensor_shape == unpack.shape:
        shape = tuple(unpack.shape[axis] for axis in step.permutation)
        made = replace(unpack, tensor=step.output, tensor_shape=shape, permutation=step.permutation)
    try:
        if made is not None:
            made.check()
    except StepError:
        return None
    return made


def _forms(steps: Sequence[Step], given: Iterable[TensorSpec]) -> dict[str, Form]:
    """Of each tensor that is known before an interpreter has run."""
    forms = {tensor.name: tensor.form for tensor in given}
    for step in steps:
        if isinstance(step, UnpackStep):
            forms[step.tensor] = step.result
        elif isinstance(step, HostStep) and step.input in forms:
            forms[step.output] = step.result(forms[step.input])
        elif isinstance(step, JoinStep) and all(name in forms for name in step.inputs):
            forms[step.output] = step.result([forms[name] for name in step.inputs])
    return forms


def _inputs(step: Step) -> tuple[str, ...]:
    if isinstance(step, PackStep):
        return (step.tensor,)
    if isinstance(step, (JoinStep, InterpreterStep)):
        return step.inputs
    return (step.input,) if isinstance(step, HostStep) else ()


def _output(step: Step) -> str | None:
    """Of a step that may be folded."""
    if isinstance(step, UnpackStep):
        return step.tensor
    return step.output if isinstance(step, (CastStep, ReshapeStep, TransposeStep)) else None


def _outputs(steps: Sequence[Step], chosen: Iterable[int]) -> set[str]:
    return {getattr(steps[k], "output", "") for k in chosen}
