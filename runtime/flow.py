"""What the steps of an artifact hand to each other, checked before the first of them runs.

The verifier says that a program is legal; this says that every step finds its tensors in the form that it takes, and
its bytes within a segment of the right kind. What an interpreter gives has a form only once it has run: steps check
what they are given then, too.
"""

from __future__ import annotations

from tilewright.isa.program import Program, Segment
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.step_base import MOST_ELEMENTS
from tilewright.runtime.steps import (
    Form,
    HostStep,
    InterpreterStep,
    JoinStep,
    LaunchStep,
    PackStep,
    Step,
    StepError,
    TensorSpec,
    UnpackStep,
)


def check_flow(artifact: Artifact) -> dict[str, Form | None]:
    """The forms of all tensors by name, None where an interpreter decides. Raises :class:`StepError`, naming step and
    tensor, unless the steps can run and give the outputs."""
    forms: dict[str, Form | None] = {tensor.name: tensor.form for tensor in artifact.inputs}
    if not artifact.inputs or len(forms) != len(artifact.inputs):
        raise StepError(f"{artifact.name}: needs inputs, each of a name of its own")
    for state in artifact.states:
        _check_state(state, forms, artifact.name)
    launched: set[int] = set()
    for number, step in enumerate(artifact.steps):
        try:
            _check_step(step, artifact, forms, launched)
        except StepError as error:
            raise StepError(f"{artifact.name}: step {number}: {error}") from error
    _check_sizes(artifact.name, forms)
    for tensor in (*artifact.outputs, *artifact.states, *(kept.tensor for kept in artifact.intermediates)):
        check_form(artifact.name, tensor, _known(forms, tensor.name, artifact.name))
    for tensor in (*artifact.inputs, *artifact.outputs, *(kept.tensor for kept in artifact.intermediates)):
        if artifact.batch > 1 and tensor.shape[:1] != (1,):
            raise StepError(f"{artifact.name}: tensor {tensor.name} of shape {tensor.shape} is not that of one image")
    return forms


def _check_sizes(owner: str, forms: dict[str, Form | None]) -> None:
    """Raise :class:`StepError` for a tensor that no model that is read has."""
    for name, form in forms.items():
        if form is not None and form.elements > MOST_ELEMENTS:
            raise StepError(f"{owner}: tensor {name} is {form}, of more than {MOST_ELEMENTS} elements")


def _check_state(state: TensorSpec, forms: dict[str, Form | None], owner: str) -> None:
    """Note the form of a state, which is there from the start. Raises :class:`StepError`."""
    if state.name in forms:
        raise StepError(f"{owner}: state {state.name}: the name of another tensor")
    if state.dtype != "int8" or not -128 <= state.zero_point <= 127:
        raise StepError(f"{owner}: state {state.name}: {state.form} of zero point {state.zero_point}, not int8")
    forms[state.name] = state.form


def check_form(owner: str, tensor: TensorSpec, form: Form | None) -> None:
    """Raise :class:`StepError` unless the values of ``form`` (None: not known yet) are those of ``tensor``."""
    if form is not None and (form.dtype, form.elements) != (tensor.dtype, tensor.form.elements):
        raise StepError(f"{owner}: tensor {tensor.name} is {form}, not {tensor.form}")


def _check_step(step: Step, artifact: Artifact, forms: dict[str, Form | None], launched: set[int]) -> None:
    """Check one step and note the forms of what it gives."""
    if isinstance(step, PackStep | LaunchStep | UnpackStep):
        before = isinstance(step, UnpackStep)
        when = "not yet" if before else "already"
        for program in step.programs if isinstance(step, LaunchStep) else (step.program,):
            step.refuse(program < len(artifact.programs), f"there is no program {program}")
            step.refuse((program in launched) == before, f"program {program} has {when} been launched")
            launched |= {program} if isinstance(step, LaunchStep) else set()
    if isinstance(step, PackStep):
        form = _known(forms, step.tensor, step.kind)
        if form is not None:
            step.check(form)
        _check_bytes(step, _segment(step, artifact.programs), ("input",))
    elif isinstance(step, UnpackStep):
        step.check()
        _check_bytes(step, _segment(step, artifact.programs), ("output", "shared"))
        forms[step.tensor] = step.result
    elif isinstance(step, HostStep):
        form = _known(forms, step.input, step.kind)
        forms[step.output] = None if form is None else step.result(form)
    elif isinstance(step, JoinStep):
        found = [_known(forms, name, step.kind) for name in step.inputs]
        known = [form for form in found if form is not None]
        forms[step.output] = step.result(known) if len(known) == len(found) else None
    elif isinstance(step, InterpreterStep):
        for name in step.inputs:
            _known(forms, name, step.kind)
        step.refuse(step.model in artifact.blobs, f"there is no model {step.model}")
        forms |= dict.fromkeys(step.outputs)


def _known(forms: dict[str, Form | None], name: str, reader: str) -> Form | None:
    if name not in forms:
        raise StepError(f"{reader}: there is no tensor {name}")
    return forms[name]


def _segment(step: PackStep | UnpackStep, programs: tuple[Program, ...]) -> Segment:
    segments = programs[step.program].segments
    step.refuse(step.segment < len(segments), f"program {step.program} has no segment {step.segment}")
    return segments[step.segment]


def _check_bytes(step: PackStep | UnpackStep, segment: Segment, kinds: tuple[str, ...]) -> None:
    step.refuse(segment.kind in kinds, f"segment {segment.name} is of kind {segment.kind}, not {kinds[0]}")
    inside = step.offset + step.size <= segment.size
    step.refuse(inside, f"bytes {step.offset}..{step.offset + step.size} lie outside {segment.name} of {segment.size}")
