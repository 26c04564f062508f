"""Running a :class:`TvmStep`: CPU operators in a library that TVM exported. The only module here that needs TVM."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm import relax

from tilewright.errors import TilewrightError
from tilewright.runtime.steps import TvmStep

RUN = "tilewright.run"  #: the packed function behind every accelerator part of a library

RegionRunner = Callable[[bytes, list[NDArray[Any]]], list[NDArray[Any]]]

_MACHINES: dict[str, Any] = {}  #: virtual machines by the hash of their library


class TvmStepError(TilewrightError):
    """A library is missing, cannot be loaded, or gives other outputs than the step declares."""


@cache
def _library_directory() -> tempfile.TemporaryDirectory[str]:
    """Where loaded libraries lie; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="tilewright-")


def _machine(library: str, content: bytes) -> Any:
    key = hashlib.sha256(content).hexdigest()
    if key not in _MACHINES:
        if tvm_ffi.get_global_func(RUN, allow_missing=True) is None:
            register_runner()
        path = Path(_library_directory().name) / f"{key[:16]}.so"
        path.write_bytes(content)
        try:
            _MACHINES[key] = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
        except (RuntimeError, OSError, AttributeError) as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise TvmStepError(f"library {library}: TVM {tvm.__version__} cannot load it: {first}") from error
    return _MACHINES[key]


def register_runner(runner: RegionRunner | None = None) -> None:
    """Make ``tilewright.run``, which libraries call for their accelerator parts, arrive at ``runner``.

    By default that is the runtime's ``run_bytes``.
    """
    from tilewright.runtime import run_bytes

    chosen = runner or run_bytes

    def run(artifact: Any, inputs: Any, *tensors: Any) -> None:
        """Destination-passing style: artifact, number of inputs, the inputs, then the outputs to fill."""
        count = int(inputs.numpy())
        results = chosen(artifact.numpy().tobytes(), [tensor.numpy() for tensor in tensors[:count]])
        for tensor, result in zip(tensors[count:], results, strict=True):
            tensor.copyfrom(np.ascontiguousarray(result).reshape(tuple(tensor.shape)))

    tvm_ffi.register_global_func(RUN, run, override=True)


def run_tvm_step(step: TvmStep, environment: dict[str, Any], blobs: dict[str, bytes]) -> None:
    """Call the step's function once per inference and put its outputs into the environment."""
    if step.library not in blobs:
        raise TvmStepError(f"library {step.library}: not in the artifact; compile the model again")
    function = _machine(step.library, blobs[step.library])[step.function]
    inputs = [environment[name] for name in step.inputs]
    collected: list[list[Any]] = [[] for _ in step.outputs]
    for k in range(inputs[0].shape[0]):
        result = function(*(tvm.runtime.tensor(np.ascontiguousarray(x[k])) for x in inputs))
        values = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        if len(values) != len(step.outputs):
            raise TvmStepError(
                f"{step.function} of {step.library}: {len(values)} outputs, {len(step.outputs)} declared"
            )
        for store, value in zip(collected, values):
            store.append(value.numpy())
    for name, arrays in zip(step.outputs, collected):
        environment[name] = np.stack(arrays)
