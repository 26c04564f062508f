"""How the outputs of a network's operators are named when they are kept as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.runtime.artifact import Intermediate


def intermediate_index(intermediates: Sequence[Intermediate]) -> list[dict[str, Any]]:
    """One entry per kept tensor, as written to ``index.json``: file, operator, tensor, shape, dtype, quantisation.

    Files are numbered in execution order: ``003_conv2d_relu.npy``.
    """
    entries = []
    for number, item in enumerate(intermediates):
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", item.operator).strip("._")[:80]
        entries.append(
            {
                "file": f"{number:03d}_{stem}.npy",
                "operator": item.operator,
                "tensor": item.tensor.name,
                "shape": list(item.tensor.shape),
                "dtype": item.tensor.dtype,
                "scale": item.tensor.scale,
                "zero_point": item.tensor.zero_point,
            }
        )
    return entries
