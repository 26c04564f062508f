"""Layers of a float model that stay in float32: the quantisers would take them, and lose what they do.

Eight bits reach from a tensor's least value to its greatest. Beside the -1e9 of a mask, which a softmax makes zero of,
they leave nothing of the scores, and infinities have no scale at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.quantize.base import Array, Tensors

LOOKED_AT = 16  #: inputs that are looked at
MASKED = -100.0  #: of what a softmax reads: so far below others it gives zero, and 8 bits have steps of 0.4 or more
_APART = 0.25  #: scores are smaller than their mask by this at the least
_NAMED = 4  #: operators that a sentence names
#: by both formats' names: softmaxes, where a mask meets scores, and what may stand behind that
_SOFTMAX = {"Softmax", "LogSoftmax", "SOFTMAX", "LOG_SOFTMAX"}
_MEETING = {"Add", "Sub", "Where", "Min", "ADD", "SUB", "SELECT", "SELECT_V2", "MINIMUM"}
_MOVES = {
    "Reshape", "Transpose", "Expand", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Clip", "Max", "Cast",
    "RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "SQUEEZE", "SLICE", "STRIDED_SLICE", "MAXIMUM",
}  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """Of a float model: the tensors that it reads, constants among them, and makes. ``beyond``: why the quantiser
    cannot have it, if it cannot."""

    name: str
    kind: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    beyond: str = ""


@dataclass(frozen=True)
class LeftReal:
    """``operators``: those that stay. ``stay``: sentences that say which, and why. ``wild``: tensors that are not
    finite in all inferences."""

    operators: list[Operator]
    stay: list[str]
    wild: set[str]


def left_real(
    operators: Sequence[Operator], constants: Mapping[str, Array], tensors: Tensors, inputs: Iterable[Sequence[Array]]
) -> LeftReal:
    """What stays of a float model.

    ``constants``: of float32. ``tensors`` computes those of the model; ``inputs``: of some inferences.
    """
    seen = _Seen()
    for values in (constants, *(tensors(x) for x in inputs)):
        for name, value in values.items():
            seen.add(name, value)
    masked = _masked(operators, seen)
    lowest = min((seen.least[name] for name in masked), default=0.0)
    found: dict[str, list[Operator]] = {}
    for operator in operators:
        touched = {*operator.reads, *operator.makes}
        reason = operator.beyond
        if not reason and touched & seen.wild:
            reason = "values that are not finite have no scale"
        elif not reason and touched & masked:
            reason = f"of values down to {lowest:g} ahead of a softmax, 8 bits leave nothing of the others"
        if reason:
            found.setdefault(reason, []).append(operator)
    stay = [f"{_listed(those)} in float32 on the CPU: {reason}" for reason, those in found.items()]
    return LeftReal([operator for those in found.values() for operator in those], stay, seen.wild)


def _listed(operators: Sequence[Operator]) -> str:
    first = ", ".join(f"{operator.kind} {operator.name!r}" for operator in operators[:_NAMED])
    more = f" and {len(operators) - _NAMED} more" if len(operators) > _NAMED else ""
    return f"{first}{more} {'stays' if len(operators) == 1 else 'stay'}"


@dataclass
class _Seen:
    """Of each float32 tensor and constant: the least and the greatest finite value, zero among them; and the tensors
    that are not finite throughout."""

    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    wild: set[str] = field(default_factory=set)

    def add(self, name: str, value: Array) -> None:
        finite = np.isfinite(value)
        if not finite.all():
            self.wild.add(name)
        self.least[name] = min(self.least.get(name, 0.0), float(np.min(value, where=finite, initial=0.0)))
        self.most[name] = max(self.most.get(name, 0.0), float(np.max(value, where=finite, initial=0.0)))

    def size(self, name: str) -> float:
        """The greatest magnitude."""
        return max(-self.least[name], self.most[name])


def _masked(operators: Sequence[Operator], seen: _Seen) -> set[str]:
    """The tensors from where a mask meets scores to the softmax that reads them."""
    makers = {name: operator for operator in operators for name in operator.makes}
    masked: set[str] = set()

    def look(name: str) -> bool:
        maker = makers.get(name)
        if name in masked or maker is None or seen.least.get(name, 0.0) > MASKED:
            return name in masked
        there = False
        if maker.kind in _MEETING:
            room = _APART * -seen.least[name]
            sizes = [seen.size(read) for read in maker.reads if read in seen.least]
            there = seen.most[name] <= room and min(sizes, default=np.inf) <= room
        elif maker.kind in _MOVES:
            there = look(maker.reads[0])
        if there:
            masked.add(name)
        return there

    for operator in operators:
        if operator.kind in _SOFTMAX:
            look(operator.reads[0])
    return masked
