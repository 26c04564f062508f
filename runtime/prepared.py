"""A network made ready to run again and again: a call does what its inferences take, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import Allocation, Device
from tilewright.runtime.device_base import has_shared
from tilewright.runtime.flow import check_flow, check_form
from tilewright.runtime.host_steps import Environment, applied, run_host_step
from tilewright.runtime.one_process import refuse_copy
from tilewright.runtime.steps import Form, HostStep, LaunchStep, PackStep, Step, UnpackStep, form_of
from tilewright.runtime.stream import reset_states

Array = NDArray[Any]
Action = Callable[[Environment], None]


class PreparedError(TilewrightError):
    """A prepared network is used after it was closed, or carried to another process; says what to do."""


class Prepared:
    """A network with its memory on the device taken and its steps bound (:meth:`Executable.prepare`).

    A call takes the inputs of exactly ``inferences`` inferences, as :meth:`Executable.run` does, and returns the
    outputs alone: there is no report, nothing is counted, hashed or verified. The memory is held until :meth:`close`,
    or the end of a ``with`` statement. Threads take turns. States are reset for each inference.
    """

    def __init__(
        self, artifact: Artifact, device: Device, inferences: int, check: Callable[[Any], Environment]
    ) -> None:
        self.artifact, self.device, self.inferences = artifact, device, inferences
        self._check = check
        images = inferences * artifact.batch
        self._states = reset_states(artifact, images)
        #: what is asked of an input, and its shape in the steps; of a float one more is asked than this
        self._wanted = [
            (t.name, np.dtype(t.dtype), (inferences, *_user_shape(t.shape, artifact.batch)), (images, *t.shape))
            for t in artifact.inputs
        ]
        self._held = ExitStack()
        forms = check_flow(artifact)
        #: an interpreter decides of some what they are
        self._given = [
            (t, (inferences, *_user_shape(t.shape, artifact.batch)), forms[t.name] is not None)
            for t in artifact.outputs
        ]
        with device.turn.taken(artifact.name), ExitStack() as taken:
            allocations = [device.allocate(program, images) for program in artifact.programs]
            for allocation in allocations:
                taken.callback(device.release, allocation)
            for step in artifact.steps:
                if isinstance(step, LaunchStep) and any(has_shared(artifact.programs[k]) for k in step.programs):
                    device.share([allocations[k] for k in step.programs])
            self._actions: list[Action] | None = [
                _action(step, artifact, device, allocations, forms) for step in artifact.steps
            ]
            self._held = taken.pop_all()

    def __call__(self, x: Any) -> Any:
        """The outputs for ``x``: an array, or a list where the model has several. Raises
        :class:`~tilewright.runtime.executable.InputError` and DeviceFault, as run does."""
        environment = {**self._inputs(x), **self._states}
        with self.device.turn.taken(self.artifact.name):
            if self._actions is None:
                raise PreparedError(f"{self.artifact.name}: closed; prepare it anew")
            for act in self._actions:
                act(environment)
        outputs = []
        for tensor, shape, known in self._given:
            found = environment[tensor.name]
            if not known:
                check_form(self.artifact.name, tensor, form_of(found))
            outputs.append(found.reshape(shape).copy())  # it may be an input, a state or a constant
        return outputs[0] if len(outputs) == 1 else outputs

    def _inputs(self, x: Any) -> Environment:
        if len(self._wanted) == 1 and type(x) is np.ndarray:
            name, dtype, given, shape = self._wanted[0]
            if x.shape == given and x.dtype == dtype and dtype.kind != "f":
                return {name: x.reshape(shape)}
        checked = self._check(x)  # says what is wrong
        return {name: checked[name].reshape(shape) for name, _, _, shape in self._wanted}

    def close(self) -> None:
        """Give the memory back. Doing it again does nothing."""
        with self.device.turn.taken(self.artifact.name):
            self._actions = None
            self._held.close()

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_copy(f"a prepared {self.artifact.name}", "prepare it there", PreparedError)


def _user_shape(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """The shape of one inference's tensor as the user sees it: without a leading batch of 1."""
    if batch > 1:
        return (batch, *shape[1:])
    return shape[1:] if shape[:1] == (1,) else shape


def _action(
    step: Step, artifact: Artifact, device: Device, allocations: list[Allocation], forms: dict[str, Form | None]
) -> Action:
    """What a step does to the tensors of an inference. A form that is known was checked; one that an interpreter
    decides is checked each time."""
    if isinstance(step, PackStep):
        return _pack(step, device, allocations[step.program], forms[step.tensor] is not None)
    if isinstance(step, UnpackStep):
        return _unpack(step, device, allocations[step.program])
    if isinstance(step, LaunchStep):
        run = device.runner([allocations[k] for k in step.programs], allocations[step.program].inferences)
        return lambda environment: run()
    if isinstance(step, HostStep) and forms[step.input] is not None:
        return _host(step)
    return lambda environment: run_host_step(step, environment, artifact.blobs)


def _pack(step: PackStep, device: Device, allocation: Allocation, known: bool) -> Action:
    tensor, segment, offset = step.tensor, step.segment, step.offset

    def act(environment: Environment) -> None:
        if not known:
            step.check(form_of(environment[tensor]))
        device.write_stack(allocation, segment, offset, step.apply(environment[tensor]))

    return act


def _unpack(step: UnpackStep, device: Device, allocation: Allocation) -> Action:
    place = allocation, step.segment, allocation.inferences, step.offset, step.size

    def act(environment: Environment) -> None:
        environment[step.tensor] = step.apply(device.read_stack(*place))

    return act


def _host(step: HostStep) -> Action:
    given, output = step.input, step.output

    def act(environment: Environment) -> None:
        environment[output] = applied(step, environment[given])

    return act
