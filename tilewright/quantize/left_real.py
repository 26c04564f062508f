"""Layers of a float ONNX model that stay in float32: ONNX Runtime's quantiser would take them, and lose what they do.

Eight bits reach from a tensor's least value to its greatest. Beside the -1e9 of a mask, which a softmax makes zero of,
they leave nothing of the scores, and infinities have no scale at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.quantize.base import Array, Tensors

MASKED = -100.0  #: of what a softmax reads: so far below others it gives zero, and 8 bits have steps of 0.4 or more
_APART = 0.25  #: scores are smaller than their mask by this at the least
_MEETING = ("Add", "Sub", "Where", "Min")  #: where a mask meets scores
_MOVES = (
    "Reshape",
    "Transpose",
    "Expand",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Identity",
    "Slice",
    "Clip",
    "Max",
    "Cast",
)
_NAMED = 4  #: operators that a sentence names
_SOFTMAX = ("Softmax", "LogSoftmax")


@dataclass(frozen=True)
class LeftReal:
    """``names``: of the operators that stay. ``stay``: sentences that say which, and why. ``wild``: tensors that are
    not finite in all inferences."""

    names: list[str]
    stay: list[str]
    wild: set[str]


def left_real(model: Any, tensors: Tensors, inputs: Iterable[Sequence[Array]]) -> LeftReal:
    """What stays of a float model whose operators have names of their own.

    ``tensors`` computes those of the model; ``inputs``: of some inferences.
    """
    seen = _seen(model, tensors, inputs)
    masked = _masked(model, seen)
    lowest = min((seen.least[name] for name in masked), default=0.0)
    found: dict[str, list[Any]] = {}
    for node in model.graph.node:
        touched = {*node.input, *node.output}
        reason = _beyond_the_quantiser(node, model)
        if not reason and touched & seen.wild:
            reason = "values that are not finite have no scale"
        elif not reason and touched & masked:
            reason = f"of values down to {lowest:g} ahead of a softmax, 8 bits leave nothing of the others"
        if reason:
            found.setdefault(reason, []).append(node)
    stay = [f"{_listed(nodes)} in float32 on the CPU: {reason}" for reason, nodes in found.items()]
    return LeftReal([node.name for nodes in found.values() for node in nodes], stay, seen.wild)


def _listed(nodes: list[Any]) -> str:
    first = ", ".join(f"{node.op_type} {node.name!r}" for node in nodes[:_NAMED])
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return f"{first}{more} {'stays' if len(nodes) == 1 else 'stay'}"


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


def _seen(model: Any, tensors: Tensors, inputs: Iterable[Sequence[Array]]) -> _Seen:
    from onnx import TensorProto, numpy_helper

    found = _Seen()
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            found.add(tensor.name, numpy_helper.to_array(tensor))
    for x in inputs:
        for name, value in tensors(x).items():
            found.add(name, value)
    return found


def _masked(model: Any, seen: _Seen) -> set[str]:
    """The tensors from where a mask meets scores to the softmax that reads them."""
    makers = {name: node for node in model.graph.node for name in node.output}
    masked: set[str] = set()

    def look(name: str) -> bool:
        maker = makers.get(name)
        if name in masked or maker is None or seen.least.get(name, 0.0) > MASKED:
            return name in masked
        if maker.op_type in _MEETING:
            room = _APART * -seen.least[name]
            sizes = [seen.size(read) for read in maker.input if read in seen.least]
            there = seen.most[name] <= room and min(sizes, default=np.inf) <= room
        elif maker.op_type in _MOVES:
            there = look(maker.input[0])
        else:
            there = False
        if there:
            masked.add(name)
        return there

    for node in model.graph.node:
        if node.op_type in _SOFTMAX:
            look(node.input[0])
    return masked


def _beyond_the_quantiser(node: Any, model: Any) -> str:
    """What of an operator the quantiser, or what it makes of it, does not know; "" if nothing."""
    if node.op_type == "LayerNormalization" and len(node.input) > 2:
        bias = next((t for t in model.graph.initializer if t.name == node.input[2]), None)
        if bias is not None and len(bias.dims) > 1:
            return "ONNX Runtime quantises LayerNormalization over one axis only"
    return ""
