"""8-bit -> 8-bit functions of single elements, as tables of what ONNX Runtime gives for all 256 values.

A unit of the prepared graph (float32 nodes between two 8-bit tensors, or a kernel of 8-bit tensors) is one if each of
its nodes works element by element and reads nothing else than what comes from the unit's only input, and numbers,
which may be another one in each channel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.prepared import Prepared
from tilewright.jit.source.onnx.units import Unit
from tilewright.jit.source.operators import onnx_row
from tilewright.runtime import interpreters

_TURNS = 4  #: positions at which each value is tried


def takes(prepared: Prepared, unit: Unit, axis: int) -> bool:
    """Whether a unit is a function of single elements, or another one at each place along ``axis``."""
    rows = [onnx_row(node.kind) for node in unit.nodes]
    if not all(row.elementwise for row in rows) or not any(row.is_function for row in rows):
        return False
    if len(unit.inputs) != 1 or len(unit.outputs) != 1:
        return False
    shape = prepared.types[unit.inputs[0]][1]
    made: dict[str, bool] = {unit.inputs[0]: False}  #: by tensor, whether it depends on constants alone
    for node in unit.nodes:
        fixed = all(made.get(t, True) for t in node.reads)
        made |= dict.fromkeys(node.makes, fixed)
        if len(node.makes) != 1 or (not fixed and prepared.types[node.makes[0]][1] != shape):
            return False
        numbers = [] if fixed else [_shape(prepared, t) for t in node.reads if made.get(t, True)]
        if not all(_along(size, shape, axis, node.kind) for size in numbers):
            return False
    return not made[unit.outputs[0]]


def _along(size: tuple[int, ...], shape: tuple[int, ...], axis: int, kind: str) -> bool:
    """Whether an operand of this size has a single number, or broadcasts one to each place along ``axis``."""
    whole = (1,) * (len(shape) - len(size)) + size
    if kind == "BatchNormalization":
        whole = (1, *size, *(1 for _ in shape[2:]))
    alike = all(n == 1 or (a == axis and onnx_row(kind).is_function) for a, n in enumerate(whole))
    return int(np.prod(size)) == 1 or (alike and len(whole) == len(shape))


def _shape(prepared: Prepared, name: str) -> tuple[int, ...]:
    return prepared.array(name).shape if name in prepared.constants else prepared.types[name][1]


def tables(prepared: Prepared, unit: Unit, name: str, axis: int) -> NDArray[np.int8]:
    """(256, places along ``axis``): the results for all int8 values, at the values modulo 256; a single column where
    they are alike. Raises Unsupported where other places matter, too."""
    (x,), (y,) = unit.inputs, unit.outputs
    dtype, shape = prepared.types[x]
    apart = any(np.prod(_shape(prepared, t)) != 1 for node in unit.nodes for t in node.reads if t in prepared.constants)
    channels = shape[axis] if apart else 1
    run = interpreters.load("onnxruntime", cut(prepared, unit.nodes, [x], [y], {}), name)
    values = np.arange(256, dtype=np.uint8)  # of int8, in two's complement
    given = values.view(np.int8) if dtype == "int8" else values ^ 128
    moved = 0 if prepared.types[y][0] == "int8" else 128
    found, count = np.full((channels, 256), -1, np.int64), int(np.prod(shape)) // channels
    step = min(count, 256)
    front = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    for first in sorted({(start + turn * 61) % 256 for start in range(0, 256, step) for turn in range(_TURNS)}):
        places = np.resize(np.roll(values, -first), count)
        image = np.moveaxis(np.broadcast_to(given[places], (channels, count)).reshape(front), 0, axis)
        (made,) = run([np.ascontiguousarray(image)])
        result = np.moveaxis(made, axis, 0).reshape(channels, count).view(np.uint8) ^ moved
        if ((found[:, places] >= 0) & (found[:, places] != result)).any():
            raise Unsupported("results that depend on more than the element")
        found[:, places] = result
        if (found[:, places] != result).any():
            raise Unsupported("results that depend on more than the element")
    return found.T.astype(np.uint8).view(np.int8)[:, : 1 if (found == found[:1]).all() else channels]
