"""What the compiler measured end to end: outputs against those of the file's interpreter, on sample inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.records import Measured
from tilewright.runtime.steps import TensorSpec

Array = NDArray[Any]


def measured(outputs: Sequence[Array], expected: Sequence[Array], tensors: Sequence[TensorSpec]) -> list[Measured]:
    """How stacks of outputs differ from the ``expected`` ones, for each output of the model; NaN equals NaN.

    Distances are in steps of the output's scale (LSB), or of a float output that nothing dequantised as they are.
    """
    return [_measured(*each) for each in zip(outputs, expected, tensors, strict=True)]


def _measured(y: Array, reference: Array, tensor: TensorSpec) -> Measured:
    unequal = y != reference
    numbers = y.dtype.kind != "O"  # no texts
    if y.dtype.kind == "f":
        unequal &= ~(np.isnan(y) & np.isnan(reference))
    found = Measured(
        output=tensor.name, elements=y.size, differ=int(unequal.sum()), largest=0.0, mean=0.0, unit="LSB", snr_db=None
    )
    if not numbers or not found["differ"]:
        return found
    real = y.dtype.kind == "f"
    exact, got = (np.asarray(v, np.float64).reshape(-1) for v in (reference, y))
    finite = np.isfinite(exact) & np.isfinite(got)
    signal, noise = exact[finite] - (0 if real else tensor.zero_point), got[finite] - exact[finite]
    step = tensor.scale if real else 1.0
    distances = np.abs(noise) / step
    found["largest"], found["mean"] = float(distances.max(initial=0.0)), float(distances.sum() / max(1, noise.size))
    if real and step == 1.0:
        found["unit"] = ""
    if (power := float(noise @ noise)) and signal.any():
        found["snr_db"] = float(10 * np.log10(float(signal @ signal) / power))
    return found


def measured_lines(options: Mapping[str, Any]) -> list[str]:
    """The same in words, from the options of an artifact; empty where it was not asked for."""
    if reason := options.get("uncompared"):
        return [f"not compared with the file's interpreter when it was compiled: {reason}"]
    return [*filter(None, [options.get("compared")]), *(_line(entry) for entry in options.get("measured", ()))]


def _line(entry: Measured) -> str:
    name = f"output {entry['output']}:"
    if not entry["differ"]:
        return f"{name} all {entry['elements']:,} elements equal"
    snr = "" if entry["snr_db"] is None else f", signal-to-noise ratio {entry['snr_db']:.1f} dB"
    unit = f" {entry['unit']}".rstrip()
    return (
        f"{name} {entry['differ']:,} of {entry['elements']:,} elements differ, by at most {entry['largest']:.6g}{unit} "
        f"and on average {entry['mean']:.3g}{unit}{snr}"
    )
