"""Tensors that depend on constants and shapes alone, such as the shape operands that converters compute in the file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.source.tflite.cut import cut, is_initial
from tilewright.jit.source.tflite.file import File
from tilewright.runtime import interpreters

_LARGEST = 1 << 16  #: elements of a folded tensor; larger ones are computed where they are used
_NEVER = ("WHILE", "IF", "CALL", "CUSTOM", "READ_VARIABLE", "ASSIGN_VARIABLE")
_RANDOM = ("RANDOM", "MULTINOMIAL")  #: what the names of operators begin with whose results are never the same


@dataclass
class Folded:
    """``values`` by tensor index, and the ``operators`` that nothing else needs any more."""

    values: dict[int, NDArray[np.generic]] = field(default_factory=dict)
    operators: set[int] = field(default_factory=set)


def fold(file: File) -> Folded:
    """Runs the operators whose operands are constants or static shapes in the interpreter, once."""
    known = {t.index for t in file.tensors if t.data is not None}
    shaped: list[int] = []  # tensors whose shape alone is read
    chosen: list[int] = []
    for op in file.operators:
        if op.kind in _NEVER or op.kind.startswith(_RANDOM) or is_initial(op.kind) or not op.inputs or not op.outputs:
            continue
        if any(file.tensors[t].variable for t in op.inputs if t >= 0):
            continue
        if op.kind == "SHAPE" and _is_static(file, op.inputs[0]):
            shaped.append(op.inputs[0])
        elif not all(t in known for t in op.inputs if t >= 0):
            continue
        made = [file.tensors[t] for t in op.outputs]
        if not all(t.dtype and int(np.prod(t.shape, dtype=np.int64)) <= _LARGEST for t in made):
            continue
        chosen.append(op.index)
        known |= set(op.outputs)
    if not chosen:
        return Folded()
    inputs = list(dict.fromkeys(t for t in shaped if file.tensors[t].data is None))
    outputs = [t for i in chosen for t in file.operators[i].outputs]
    model = cut(file, chosen, inputs, outputs, {}, {})
    run = interpreters.load("litert", model, "operators on constants")
    values = run([np.zeros(file.tensors[t].shape, file.tensors[t].dtype) for t in inputs])
    return Folded(dict(zip(outputs, values, strict=True)), set(chosen))


def _is_static(file: File, index: int) -> bool:
    tensor = file.tensors[index]
    signature = file.model.subgraphs[0].tensors[index].shapeSignature
    fixed = signature is None or all(int(d) >= 0 for d in list(signature)[1:])
    return bool(tensor.shape) and bool(tensor.dtype) and all(d > 0 for d in tensor.shape) and fixed
