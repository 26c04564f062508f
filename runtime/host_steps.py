"""Running host steps: each takes tensors out of the environment and puts its result back.

Environment arrays have the shape ``(N, *shape)`` (see :mod:`tilewright.runtime.steps`). Only
:class:`InterpreterStep` needs more than NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.runtime import host, interpreters
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.interpreter_step import describe, run_interpreter_step
from tilewright.runtime.steps import (
    CastStep,
    DequantizeStep,
    InterpreterStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    Step,
    TransposeStep,
)

Environment = dict[str, NDArray[Any]]


class HostStepError(TilewrightError):
    """A host step cannot run: its interpreter is missing, or the data is not what the step was made for."""


def check_host(artifact: Artifact) -> None:
    """Raise :class:`HostStepError`, naming the operators, if the artifact needs an interpreter that is not here."""
    for step in artifact.steps:
        if isinstance(step, InterpreterStep) and not interpreters.is_installed(step.runtime):
            package = interpreters.PACKAGES[step.runtime][1]
            raise HostStepError(
                f"{artifact.name}: {describe(step)} run on the host in {package}, which is not installed here: "
                f"pip install {package}"
            )


def run_host_step(step: Step, environment: Environment, blobs: dict[str, bytes]) -> None:
    """Run one host step. Raises :class:`HostStepError` for a step that is none."""
    if isinstance(step, InterpreterStep):
        run_interpreter_step(step, environment, blobs)
        return
    function = _FUNCTIONS.get(type(step))
    if function is None:
        raise HostStepError(f"{step.kind}: not a host step")
    function(step, environment)


def _softmax(step: SoftmaxStep, environment: Environment) -> None:
    x = environment[step.input]
    environment[step.output] = host.softmax_int8(x, step.multiplier, step.left_shift, step.diff_min)


def _cast(step: CastStep, environment: Environment) -> None:
    environment[step.output] = host.cast(environment[step.input], step.offset, step.dtype)


def _quantize(step: QuantizeStep, environment: Environment) -> None:
    x = environment[step.input]
    environment[step.output] = host.quantize(x, step.scale, step.zero_point, step.dtype, step.rounding)


def _dequantize(step: DequantizeStep, environment: Environment) -> None:
    environment[step.output] = host.dequantize(environment[step.input], step.scale, step.zero_point)


def _reshape(step: ReshapeStep, environment: Environment) -> None:
    x = environment[step.input]
    environment[step.output] = host.reshape(x, (x.shape[0], *step.shape))


def _transpose(step: TransposeStep, environment: Environment) -> None:
    axes = (0, *(axis + 1 for axis in step.permutation))
    environment[step.output] = np.ascontiguousarray(environment[step.input].transpose(axes))


_FUNCTIONS: dict[type[Step], Callable[[Any, Environment], None]] = {
    SoftmaxStep: _softmax,
    CastStep: _cast,
    QuantizeStep: _quantize,
    DequantizeStep: _dequantize,
    ReshapeStep: _reshape,
    TransposeStep: _transpose,
}
