"""Running an :class:`InterpreterStep`: operators of the model file in the interpreter that the file came from."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import Interpreter, InterpreterError
from tilewright.runtime.steps import InterpreterStep

_REMEMBERED = 32
_LOADED: dict[tuple[str, bool, str], Interpreter] = {}  #: stateless interpreters by runtime, kernels and content


def run_interpreter_step(step: InterpreterStep, environment: dict[str, Any], blobs: dict[str, bytes]) -> None:
    """Run the step's model once per inference; a stateful one starts each inference afresh.

    Raises InterpreterError where the model is missing, or gives something else than the step declares.
    """
    if step.model not in blobs:
        raise InterpreterError(f"model {step.model}: not in the artifact; compile the model again")
    content = blobs[step.model]
    inputs = [environment[name] for name in step.inputs]
    count = inputs[0].shape[0] if inputs else environment_count(environment)
    collected: list[list[NDArray[Any]]] = [[] for _ in step.outputs]
    for k in range(count):
        interpreter = _fresh(step, content) if step.stateful else _remembered(step, content)
        with interpreters.named_failures(describe(step)):
            values = interpreter([x[k] for x in inputs])
        if len(values) != len(step.outputs):
            raise InterpreterError(f"{describe(step)}: {len(values)} outputs, {len(step.outputs)} declared")
        for store, value in zip(collected, values):
            store.append(value)
    for name, arrays in zip(step.outputs, collected):
        with interpreters.named_failures(f"{describe(step)}: outputs of different inferences"):
            environment[name] = np.stack(arrays)


def environment_count(environment: dict[str, Any]) -> int:
    """The number of inferences that an environment holds."""
    return int(next(iter(environment.values())).shape[0])


def describe(step: InterpreterStep) -> str:
    """The operators of a step, shortened."""
    shown = ", ".join(step.operators[:3])
    return shown + (f" and {len(step.operators) - 3} more" if len(step.operators) > 3 else "")


def _fresh(step: InterpreterStep, content: bytes) -> Interpreter:
    return interpreters.load(step.runtime, content, describe(step), fast=step.fast)


def _remembered(step: InterpreterStep, content: bytes) -> Interpreter:
    key = (step.runtime, step.fast, hashlib.sha256(content).hexdigest())
    if key not in _LOADED:
        while len(_LOADED) >= _REMEMBERED:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = _fresh(step, content)
    return _LOADED[key]
