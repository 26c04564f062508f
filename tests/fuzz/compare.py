"""Comparing outputs with the reference's: all bits, but for values that are computed in float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.agreement import unequal_elements

Array = NDArray[Any]


def first_difference(outputs: list[Array], expected: list[Array], loose: Sequence[bool] = ()) -> str | None:
    """What differs, in words; None where all is equal. NaN equals NaN.

    ``loose`` says of each output whether it is computed in float, and so equal but for the order of additions.
    """
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, the reference gives {len(expected)}"
    for number, (y, reference) in enumerate(zip(outputs, expected, strict=True)):
        if y.shape != reference.shape or y.dtype != reference.dtype:
            return f"output {number}: {y.dtype}{y.shape}, the reference gives {reference.dtype}{reference.shape}"
        unequal = unequal_elements(y, reference, bool(loose) and loose[number])
        if unequal.any():
            k = int(np.flatnonzero(unequal)[0])
            distance = np.nanmax(np.abs(y.astype(np.float64) - reference.astype(np.float64)))
            return (
                f"output {number}: {int(unequal.sum())} of {y.size} elements differ, by at most {distance:g}; the "
                f"first at {k}: {y.ravel()[k]}, the reference gives {reference.ravel()[k]}"
            )
    return None
