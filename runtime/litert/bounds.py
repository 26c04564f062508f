"""Bounds that an activation gives the results of a pool, which LiteRT's kernels take whether they were found or not."""

from __future__ import annotations

import numpy as np

from tilewright.runtime.litert.model import Operator

#: ActivationFunctionType of the schema -> the real numbers that are its bounds
_BOUNDS = {1: (0.0,), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def bounded(op: Operator) -> str:
    """A quantised pool whose output's scale gives the bounds of its activation as int32.

    Where it does not, LiteRT computes with what lies in memory (``pooling.cc``, ``CalculateActivationRangeQuantized``).
    """
    out = op.outputs[0] if op.outputs else None
    if out is None or out.type not in ("int8", "uint8", "int16"):
        return ""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.array(_BOUNDS.get(op.option("fusedActivationFunction"), ()), np.float32) / np.float32(out.scale)
    if (np.abs(found) < 2.0**31).all():  # NaN is not
        return ""
    return f"the scale {out.scale:g} of its output gives its activation no bounds, and LiteRT takes what lies in memory"
