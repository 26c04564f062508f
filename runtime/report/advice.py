"""Why multiply-accumulates of a model stay on the CPU, and what its maker can do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

#: what is said of reasons like these: quantising the float model in another way takes them away
_WAYS_OUT = (
    (re.compile(r"\btypes? (\w+, )*float32\b"), "they are of float32, of which `tilewright quantize` makes int8"),
    (
        re.compile(r"\bu?int16\b"),
        "activations of 16 bits stay on the CPU: quantise the float model to int8 (`tilewright quantize`)",
    ),
    (
        re.compile(r"\bdynamic quantisation\b"),
        "quantise the float model with fixed scales instead (`tilewright quantize`, or quantize_static)",
    ),
    (
        re.compile(r"\bin blocks\b|\bblocked quantisation\b"),
        "quantise the float model with a scale for each channel (`tilewright quantize`)",
    ),
)


def advice(operators: Sequence[dict[str, Any]]) -> str:
    """The reason that keeps the most multiply-accumulates off the accelerator, its share of theirs and a way out.

    ``operators``: entries of an artifact's ``operators``. Empty where none stays off it.
    """
    macs: dict[str, int] = {}
    for entry in operators:
        if entry["macs"] and entry["place"] not in ("accelerator", "none"):
            macs[entry["reason"]] = macs.get(entry["reason"], 0) + entry["macs"]
    if not macs:
        return ""
    reason = max(macs, key=macs.__getitem__)
    share = macs[reason] / sum(macs.values())
    way_out = next((f"; {words}" for pattern, words in _WAYS_OUT if pattern.search(reason)), "")
    return f"; {'the others' if share == 1 else f'{share:.1%} of the others'} do not: {reason}{way_out}"
