"""Tensors that depend on constants and shapes alone, such as the shape operands that converters compute in the file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.file import File, Operator
from tilewright.runtime import interpreters
from tilewright.runtime.litert.schema import read_model

Shapes = dict[int, tuple[int, ...]]

_LARGEST = 1 << 16  #: elements of a folded tensor; larger ones are computed where they are used
#: families of operators whose results follow from more than their operands
_NEVER = ("control", "variable", "handle", "initial", "random", "custom")


@dataclass
class Folded:
    """``values`` by tensor index, and the ``operators`` that nothing else needs any more."""

    values: dict[int, NDArray[np.generic]] = field(default_factory=dict)
    operators: set[int] = field(default_factory=set)


def fold(file: File) -> Folded:
    """Runs the operators whose operands are constants or static shapes in the interpreter, once.

    A tensor whose shape was computed in the file has a static one as soon as that computation is folded. The shapes
    that are read, and those of the values, become those of ``file``.
    """
    found = Folded()
    while _fold_more(file, found):
        pass
    return found


def _fold_more(file: File, found: Folded) -> bool:
    """Adds what can be folded by now; whether there was any."""
    known = {t.index for t in file.tensors if t.held} | found.values.keys()
    shapes = _static_shapes(file, found)
    file.take_shapes(shapes)
    shaped: list[int] = []  # tensors whose shape alone is read
    chosen: list[int] = []
    for op in _left(file, found):
        if tflite_row(op.kind).family in _NEVER or not op.inputs or not op.outputs:
            continue
        if any(file.tensors[t].variable for t in op.inputs if t >= 0) or not file.changed.isdisjoint(op.outputs):
            continue
        if not all(t in known for t in op.inputs if t >= 0):
            if op.kind != "SHAPE" or op.inputs[0] not in shapes:
                continue
            shaped.append(op.inputs[0])
        made = [file.tensors[t] for t in op.outputs]
        if not all(t.dtype and int(np.prod(t.shape, dtype=np.int64)) <= _LARGEST for t in made):
            continue
        chosen.append(op.index)
        known |= set(op.outputs)
    if not chosen:
        return False
    inputs = list(dict.fromkeys(shaped))
    outputs = [t for i in chosen for t in file.operators[i].outputs]
    model = cut(file, chosen, inputs, outputs, found.values, {})
    run = interpreters.load("litert", model, "operators on constants")
    values = run([np.zeros(file.tensors[t].shape, file.tensors[t].dtype) for t in inputs])
    found.values.update(zip(outputs, values, strict=True))
    file.take_shapes({index: value.shape for index, value in found.values.items()})
    found.operators.update(chosen)
    return True


def _left(file: File, found: Folded) -> list[Operator]:
    return [op for op in file.operators if op.index not in found.operators]


def _static_shapes(file: File, found: Folded) -> Shapes:
    """Of tensors that operators read the shape of, those that have one before the network runs."""
    asked = [op for op in _left(file, found) if op.kind == "SHAPE" and op.inputs and op.outputs]
    asked = [op for op in asked if file.tensors[op.inputs[0]].dtype]
    # one that has none ends the preparation of all behind it
    return next(filter(None, (_prepared(file, found, ops) for ops in (asked, *([op] for op in asked)))), {})


def _prepared(file: File, found: Folded, asked: Sequence[Operator]) -> Shapes:
    """As LiteRT finds them ahead of ``asked``, operators SHAPE: of those that it prepares.

    Of all other tensors it tells the shape in the file, which is a guess of its converter.
    """
    if not asked:
        return {}
    wanted, ahead = {t for op in asked for t in op.outputs}, []
    for op in reversed(_left(file, found)):
        if wanted & set(op.outputs):
            ahead.append(op.index)
            wanted |= set(op.inputs)
    guessed = copy.copy(file)
    guessed.tensors = list(file.tensors)
    guessed.take_shapes({op.outputs[0]: (0,) for op in asked})  # which those that LiteRT prepares do not keep
    told = [t for op in asked for t in (op.inputs[0], op.outputs[0])]
    model = cut(guessed, sorted(ahead), [t for t in file.inputs if t in wanted], told, found.values, {})
    try:
        shapes = interpreters.litert_shapes(model, str(file.path))
    except interpreters.InterpreterError:
        return {}
    places = [int(t) for t in read_model(model).subgraphs[0].outputs]
    return {
        op.inputs[0]: shapes[read]
        for op, read, made in zip(asked, places[::2], places[1::2], strict=True)
        if shapes[made] == (len(shapes[read]),) != (0,)
    }
