"""``tilewright.run``, the packed function that Relax modules call for their accelerator parts. Needs TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

RUN = "tilewright.run"  #: the packed function's name

RegionRunner = Callable[[bytes, list[NDArray[Any]]], list[NDArray[Any]]]


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
