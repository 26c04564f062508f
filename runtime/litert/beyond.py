"""Operators that LiteRT has one kernel of, which its set of reference kernels leaves out.

A model with one of them does not load with the reference kernels, nor are the other kernels of its neighbours the
reference. So it is cut where one begins or ends, and each part runs with the kernels that it has.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

from numpy.typing import NDArray

from tilewright.runtime.litert.schema import (
    UNREADABLE,
    Codes,
    keep_used_codes,
    kinds,
    read_model,
    schema,
    vector,
    written,
)
from tilewright.runtime.litert.unwritten import unwritten

#: of ``tflite/core/kernels/register.cc`` what ``tflite/kernels/register_ref.cc`` has not (2.3)
BEYOND = frozenset((
    "CEIL", "ELU", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "ROUND", "SEGMENT_SUM",
    "STABLEHLO_AND", "STABLEHLO_CASE", "STABLEHLO_SHIFT_LEFT",
))  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A model of successive operators, all or none of them :data:`BEYOND`, and its tensors' indices in the whole."""

    content: bytes
    beyond: bool
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Chain:
    """The parts of a model, each with its interpreter, one after the other."""

    steps: Sequence[tuple[Part, Any]]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if len(inputs) != len(self.inputs):
            raise ValueError(f"takes {len(self.inputs)} inputs, {len(inputs)} given")
        known = dict(zip(self.inputs, inputs))
        for part, run in self.steps:
            known |= zip(part.outputs, run([known[t] for t in part.inputs]), strict=True)
        return [known[t] for t in self.outputs]


def has_beyond(content: bytes) -> bool:
    """Whether a model has operators without a reference kernel; not for bytes that are none, which loading refuses."""
    try:
        return not BEYOND.isdisjoint(kinds(Codes(content)))
    except UNREADABLE:
        return False


def parts(content: bytes) -> tuple[list[Part], tuple[int, ...], tuple[int, ...]]:
    """A sound model's parts, and the tensors that it takes and gives; one part where it keeps state or has other
    subgraphs.

    What it has none of :data:`BEYOND` of is one part, too, but for elements that are left unwritten: a part ends with
    them (:mod:`tilewright.runtime.litert.unwritten`), so that the next reads them as zeros.
    """
    model = read_model(content)
    main = model.subgraphs[0]
    names, ops = kinds(model), list(vector(main.operators))
    taken, given = (tuple(int(t) for t in vector(v)) for v in (main.inputs, main.outputs))
    last = {rows.count for rows in unwritten(content)}
    ended = list(accumulate((not last.isdisjoint(map(int, vector(op.outputs))) for op in ops), initial=0))
    keys = [(names[op.opcodeIndex] in BEYOND, number) for op, number in zip(ops, ended)]
    groups = [(key[0], [op for _, op in run]) for key, run in groupby(zip(keys, ops), lambda pair: pair[0])]
    resources = sum(_has_resources(main, run) for _, run in groups)  # which interpreters cannot hand on
    lasting = any(t.isVariable for t in main.tensors) or len(model.subgraphs) > 1 or len(groups) < 2 or resources > 1
    if lasting:
        return [Part(content, any(beyond for beyond, _ in groups), taken, given)], taken, given
    result, made = [], set(taken)
    for k, (beyond, run) in enumerate(groups):
        own = {int(t) for op in run for t in vector(op.outputs)}
        later = {int(t) for _, ahead in groups[k + 1 :] for op in ahead for t in vector(op.inputs)} | set(given)
        reads = {int(t) for op in run for t in vector(op.inputs)}
        inputs, outputs = tuple(sorted(reads & made)), tuple(sorted(own & later))
        made |= own
        result.append(Part(_cut(model, run, inputs, outputs), beyond, inputs, outputs))
    return result, taken, given


def _has_resources(main: Any, operators: list[Any]) -> bool:
    """Whether any of these operators makes or reads a handle of a variable or of a table."""
    touched = {int(t) for op in operators for t in (*vector(op.inputs), *vector(op.outputs)) if t >= 0}
    return any(main.tensors[t].type == schema().TensorType.RESOURCE for t in touched)


def _cut(model: Any, operators: list[Any], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> bytes:
    """With all tensors, and the data of those that are read."""
    main, part = copy.copy(model.subgraphs[0]), copy.copy(model)
    main.operators, main.inputs, main.outputs = operators, list(inputs), list(outputs)
    read = {int(t) for op in operators for t in vector(op.inputs) if t >= 0}
    main.tensors = [copy.copy(tensor) for tensor in main.tensors]
    for index, tensor in enumerate(main.tensors):
        if index not in read:
            tensor.buffer = 0
    kept = {tensor.buffer for tensor in main.tensors}
    part.buffers = [buffer if k in kept else schema().BufferT() for k, buffer in enumerate(model.buffers)]
    part.subgraphs, part.metadata, part.metadataBuffer, part.signatureDefs = [main], None, None, None
    keep_used_codes(part)
    return written(part)
