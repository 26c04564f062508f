"""``tilewright.run``, the packed function that Relax modules call for their accelerator parts. Needs TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from tilewright.runtime.regions import run_bytes

RUN = "tilewright.run"  #: the packed function's name

RegionRunner = Callable[[bytes, list[NDArray[Any]]], list[NDArray[Any]]]


def register_runner(runner: RegionRunner | None = None) -> None:
    """Make ``tilewright.run``, which libraries call for their accelerator parts, arrive at ``runner``.

    By default that is the runtime's ``run_bytes``, on the device that the library was made for.
    """

    def run(artifact: Any, device: Any, inputs: Any, *tensors: Any) -> None:
        """Destination-passing style: artifact, device, number of inputs, the inputs, then the outputs to fill."""
        count = int(inputs.numpy())
        content, arrays = artifact.numpy().tobytes(), [tensor.numpy() for tensor in tensors[:count]]
        results = runner(content, arrays) if runner else run_bytes(content, arrays, device.numpy().tobytes().decode())
        for tensor, result in zip(tensors[count:], results, strict=True):
            tensor.copyfrom(np.ascontiguousarray(result).reshape(tuple(tensor.shape)))

    tvm_ffi.register_global_func(RUN, run, override=True)
