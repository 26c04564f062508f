"""Running an :class:`InterpreterStep`: operators of the model file in the interpreter that the file came from."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import Interpreter, InterpreterError
from tilewright.runtime.steps import InterpreterStep

_Key = tuple[str, bool, str]  #: runtime, kernels and content
_REMEMBERED = 32
_IDLE: list[tuple[_Key, Interpreter]] = []  #: stateless interpreters that nobody uses now, the latest used last
os.register_at_fork(after_in_child=_IDLE.clear)  # their processes answer this one
_LOCK = threading.Lock()


def run_interpreter_step(
    step: InterpreterStep, environment: dict[str, Any], blobs: dict[str, bytes], going_on: Interpreter | None = None
) -> None:
    """Run the step's model once per inference; a stateful one starts each inference afresh.

    ``going_on``: in this interpreter instead, whose state goes on from inference to inference. Raises InterpreterError
    where the model is missing, or gives something else than the step declares.
    """
    content = _content(step, blobs)
    inputs = [environment[name] for name in step.inputs]
    count = inputs[0].shape[0] if inputs else environment_count(environment)
    collected: list[list[NDArray[Any]]] = [[] for _ in step.outputs]
    key, interpreter = _taken(step, content) if going_on is None else (None, going_on)
    for k in range(count):
        if step.stateful and k and going_on is None:
            interpreter = _fresh(step, content)
        values = interpreter([np.asarray(x[k]) for x in inputs])  # tensors without axes, too
        if len(values) != len(step.outputs):
            raise InterpreterError(f"{describe(step)}: {len(values)} outputs, {len(step.outputs)} declared")
        for name, value, shape in zip(step.outputs, values, step.shapes):
            if np.shape(value) != shape:  # the values decide it
                raise InterpreterError(
                    f"{describe(step)}: {name} has the shape {np.shape(value)} for this input, and the network is "
                    f"compiled for {shape}; export the model with a fixed shape there"
                )
        for store, value in zip(collected, values):
            store.append(value)
    if key is not None and not step.stateful:  # and whole: one that has raised is not used again
        _given_back(key, interpreter)
    for name, arrays in zip(step.outputs, collected):
        with interpreters.named_failures(f"{describe(step)}: outputs of different inferences"):
            environment[name] = np.stack(arrays)


def reset_interpreter(step: InterpreterStep, blobs: dict[str, bytes]) -> Interpreter:
    """One of the step's own, in its initial state. Raises InterpreterError."""
    return _fresh(step, _content(step, blobs))


def environment_count(environment: dict[str, Any]) -> int:
    """The number of inferences that an environment holds."""
    return int(next(iter(environment.values())).shape[0])


def describe(step: InterpreterStep) -> str:
    """The operators of a step, shortened."""
    shown = ", ".join(step.operators[:3])
    return shown + (f" and {len(step.operators) - 3} more" if len(step.operators) > 3 else "")


def _content(step: InterpreterStep, blobs: dict[str, bytes]) -> bytes:
    if step.model not in blobs:
        raise InterpreterError(f"model {step.model}: not in the artifact; compile the model again")
    return blobs[step.model]


def _fresh(step: InterpreterStep, content: bytes) -> Interpreter:
    return interpreters.load(step.runtime, content, describe(step), fast=step.fast)


def _taken(step: InterpreterStep, content: bytes) -> tuple[_Key, Interpreter]:
    """An interpreter that nobody else uses, until :func:`_given_back`: one that is kept, or a new one."""
    key = (step.runtime, step.fast, hashlib.sha256(content).hexdigest())
    with _LOCK:
        found = next((k for k, (known, _) in enumerate(_IDLE) if known == key), None)
        if found is not None:
            return _IDLE.pop(found)
    return key, _fresh(step, content)


def _given_back(key: _Key, interpreter: Interpreter) -> None:
    with _LOCK:
        _IDLE.append((key, interpreter))
        del _IDLE[:-_REMEMBERED]
