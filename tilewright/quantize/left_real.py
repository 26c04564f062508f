"""Layers of a float model that stay in float32: the quantisers would take them, and lose what they do.

Eight bits reach from a tensor's least value to its greatest. Beside the -1e9 of a mask, which a softmax makes zero of,
they leave nothing of the scores, and infinities have no scale at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.jit.source.operators import any_row
from tilewright.quantize.base import Array, Tensors
from tilewright.quantize.operators import Operator, Seen
from tilewright.quantize.output_ends import faint_ends

LOOKED_AT = 16  #: inputs that are looked at
MASKED = -100.0  #: of what a softmax reads: so far below others it gives zero, and 8 bits have steps of 0.4 or more
_APART = 0.25  #: scores are smaller than their mask by this at the least
_NAMED = 4  #: operators that a sentence names


@dataclass(frozen=True)
class LeftReal:
    """``operators``: those that stay. ``stay``: sentences that say which, and why. ``wild``: tensors that are not
    finite in all inferences."""

    operators: list[Operator]
    stay: list[str]
    wild: set[str]


def left_real(
    operators: Sequence[Operator],
    outputs: Sequence[str],
    constants: Mapping[str, Array],
    tensors: Tensors,
    inputs: Iterable[Sequence[Array]],
) -> LeftReal:
    """What stays of a float model.

    ``constants``: of float32. ``tensors`` computes those of the model; ``inputs``: of some inferences.
    """
    seen = Seen()
    for values in (constants, *(tensors(x) for x in inputs)):
        for name, value in values.items():
            seen.add(name, value)
    masked = _masked(operators, seen)
    lowest = min((seen.least[name] for name in masked), default=0.0)
    ends = faint_ends(operators, outputs, seen)
    found: dict[str, list[Operator]] = {}
    for operator in operators:
        touched = {*operator.reads, *operator.makes}
        reason = operator.beyond
        if not reason and touched & seen.wild:
            reason = "values that are not finite have no scale"
        elif not reason and touched & masked:
            reason = f"of values down to {lowest:g} ahead of a softmax, 8 bits leave nothing of the others"
        elif not reason:
            reason = ends.get(operator.name, "")
        if reason:
            found.setdefault(reason, []).append(operator)
    stay = [f"{_listed(those)} in float32 on the CPU: {reason}" for reason, those in found.items()]
    return LeftReal([operator for those in found.values() for operator in those], stay, seen.wild)


def _listed(operators: Sequence[Operator]) -> str:
    first = ", ".join(f"{operator.kind} {operator.name!r}" for operator in operators[:_NAMED])
    more = f" and {len(operators) - _NAMED} more" if len(operators) > _NAMED else ""
    return f"{first}{more} {'stays' if len(operators) == 1 else 'stay'}"


def _masked(operators: Sequence[Operator], seen: Seen) -> set[str]:
    """The tensors from where a mask meets scores to the softmax that reads them."""
    makers = {name: operator for operator in operators for name in operator.makes}
    masked: set[str] = set()

    def look(name: str) -> bool:
        maker = makers.get(name)
        if name in masked or maker is None or seen.least.get(name, 0.0) > MASKED:
            return name in masked
        there, row = False, any_row(maker.kind)
        if row.masks == "meets":
            room = _APART * -seen.least[name]
            sizes = [seen.size(read) for read in maker.reads if read in seen.least]
            there = seen.most[name] <= room and min(sizes, default=np.inf) <= room
        elif row.is_moving or row.masks == "passes":
            there = look(maker.reads[row.operands.index("x")])
        if there:
            masked.add(name)
        return there

    for operator in operators:
        if any_row(operator.kind).family == "softmax":
            look(operator.reads[0])
    return masked
