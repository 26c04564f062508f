"""The largest tensor of a model that is read at all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from tilewright.jit.errors import ModelError

#: Elements; 1 GiB of float32. A few changed bytes of a file ask for more, and a system that lends memory ends a process
#: that uses it instead of refusing it.
MOST_ELEMENTS = 1 << 28


def refuse_huge(path: Path, tensors: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Raises ModelError for a tensor, of its name and shape, with more than ``MOST_ELEMENTS`` elements."""
    for name, shape in tensors:
        if (elements := math.prod(shape)) > MOST_ELEMENTS:
            raise ModelError(
                f"{path}: tensor {name!r} of shape {'x'.join(map(str, shape))} has {elements:,} elements; at most "
                f"{MOST_ELEMENTS:,} are read; export the model for smaller inputs"
            )
