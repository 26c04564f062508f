"""The largest tensor of a model that is read at all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from tilewright.jit.errors import ModelError
from tilewright.runtime.step_base import MOST_ELEMENTS


def refuse_huge(path: Path, tensors: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Raises ModelError for a tensor, of its name and shape, with more than ``MOST_ELEMENTS`` elements."""
    for name, shape in tensors:
        if (elements := math.prod(shape)) > MOST_ELEMENTS:
            raise ModelError(
                f"{path}: tensor {name!r} of shape {'x'.join(map(str, shape))} has {elements:,} elements; at most "
                f"{MOST_ELEMENTS:,} are read; export the model for smaller inputs"
            )
