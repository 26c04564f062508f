"""Running host steps: each takes tensors out of the environment and puts its result back.

Environment arrays have the shape ``(N, *shape)`` (see :mod:`tilewright.runtime.steps`). Only
:class:`InterpreterStep` needs more than NumPy.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.runtime import interpreters
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.interpreter_step import describe, run_interpreter_step
from tilewright.runtime.interpreters import Interpreter
from tilewright.runtime.steps import HostStep, InterpreterStep, JoinStep, Step, form_of

Environment = dict[str, NDArray[Any]]


class HostStepError(TilewrightError):
    """A host step cannot run: its interpreter is missing, or the data is not what the step was made for."""


def check_host(artifact: Artifact) -> None:
    """Raise :class:`HostStepError`, naming the operators, if the artifact needs an interpreter that is not here."""
    for step in artifact.steps:
        if not isinstance(step, InterpreterStep):
            continue
        if not interpreters.is_installed(step.runtime):
            package = interpreters.PACKAGES[step.runtime][1]
            raise HostStepError(
                f"{artifact.name}: {describe(step)} run on the host in {package}, which is not installed here: "
                f"pip install {package}"
            )


def run_host_step(
    step: Step, environment: Environment, blobs: dict[str, bytes], going_on: Interpreter | None = None
) -> None:
    """Run one host step, that of an interpreter in ``going_on`` if it is given.

    Raises :class:`HostStepError` for a step that is none, or that cannot take its data.
    """
    if isinstance(step, InterpreterStep):
        run_interpreter_step(step, environment, blobs, going_on)
    elif isinstance(step, JoinStep):
        parts = [environment[name] for name in step.inputs]
        step.result([form_of(part) for part in parts])
        environment[step.output] = step.apply(parts)
    elif isinstance(step, HostStep):
        step.result(form_of(environment[step.input]))
        environment[step.output] = applied(step, environment[step.input])
    else:
        raise HostStepError(f"{step.kind}: not a host step")


def applied(step: HostStep, x: NDArray[Any]) -> NDArray[Any]:
    """What a step makes of a tensor of a form that it takes. Raises :class:`HostStepError` for values that it does
    not."""
    try:
        return step.apply(x)
    except (OverflowError, ValueError) as error:
        raise HostStepError(f"{step.kind} {step.input}: {error}") from error
