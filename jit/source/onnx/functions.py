"""8-bit -> 8-bit functions of single elements, as tables of what ONNX Runtime gives for all 256 values.

A unit of the prepared graph (float32 nodes between two 8-bit tensors, or a kernel of 8-bit tensors) is one if each of
its nodes works element by element and reads nothing else than what comes from the unit's only input, and numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.prepared import Prepared
from tilewright.jit.source.onnx.units import Unit
from tilewright.runtime import interpreters

#: results that have the shape of what is read, and of each element of it make one of theirs
KINDS = (
    "Abs", "Add", "Ceil", "Celu", "Cos", "Div", "Elu", "Erf", "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QLinearAdd",
    "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QuickGelu", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign",
    "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_BESIDE = ("QuantizeLinear", "DequantizeLinear", "Relu", "Clip", "Identity")
_TURNS = 4  #: positions at which each value is tried


def takes(prepared: Prepared, unit: Unit) -> bool:
    """Whether a unit is a function of single elements that no other rule knows."""
    kinds = {node.kind for node in unit.nodes}
    if not kinds & {*KINDS} or not kinds <= {*KINDS, *_BESIDE} or len(unit.inputs) != 1 or len(unit.outputs) != 1:
        return False
    shape = prepared.types[unit.inputs[0]][1]
    made: dict[str, bool] = {unit.inputs[0]: False}  #: by tensor, whether it depends on constants alone
    for node in unit.nodes:
        numbers = [t for t in node.reads if t in prepared.constants]
        if any(prepared.array(t).size != 1 for t in numbers):
            return False
        fixed = all(made.get(t, True) for t in node.reads)
        made |= dict.fromkeys(node.makes, fixed)
        if len(node.makes) != 1 or (not fixed and prepared.types[node.makes[0]][1] != shape):
            return False
    return not made[unit.outputs[0]]


def table(prepared: Prepared, unit: Unit, name: str) -> NDArray[np.int8]:
    """The results for all int8 values, at the values modulo 256. Raises Unsupported where the place matters, too."""
    (x,), (y,) = unit.inputs, unit.outputs
    dtype, shape = prepared.types[x]
    run = interpreters.load("onnxruntime", cut(prepared, unit.nodes, [x], [y], {}), name)
    values = np.arange(256, dtype=np.uint8)  # of int8, in two's complement
    given = values.view(np.int8) if dtype == "int8" else values ^ 128
    moved = 0 if prepared.types[y][0] == "int8" else 128
    count = int(np.prod(shape))
    found = np.full(256, -1, np.int64)
    step = min(count, 256)
    for first in sorted({(start + turn * 61) % 256 for start in range(0, 256, step) for turn in range(_TURNS)}):
        places = np.resize(np.roll(values, -first), count)
        result = run([given[places].reshape(shape)])[0].reshape(-1).view(np.uint8) ^ moved
        if ((found[places] >= 0) & (found[places] != result)).any():
            raise Unsupported("results that depend on more than the element")
        found[places] = result
        if (found[places] != result).any():
            raise Unsupported("results that depend on more than the element")
    return found.astype(np.uint8).view(np.int8)
