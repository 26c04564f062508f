"""Damage to ``.tflite`` files that stays a sound flatbuffer: types, operands, options, constants, scales, operators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.hostile import VALUES
from tests.fuzz.readers.mutate import damage
from tilewright.runtime.litert.schema import read_model, schema, written

_NUMBERS = tuple(v for v in VALUES if isinstance(v, int) and -(1 << 31) <= v < 1 << 31)
_SCALES = (0.0, 1.0, 1e-9, 1e-30, 1e30, 0.5)


def damaged_tflite(data: bytes, rng: random.Random) -> bytes:
    """One to three changes of operators and of what they read and make; of bytes where those do not fit the schema."""
    s, model = schema(), read_model(data)
    graph = model.subgraphs[0]
    for _ in range(rng.choice([1, 1, 2, 3])):
        op = rng.choice(graph.operators)
        rng.choice(_CHANGES)(s, model, op, rng)
    try:
        return written(model)
    except (TypeError, ValueError):  # a number that its field does not hold
        return damage(data, rng)


def _tensors(model: Any, op: Any) -> list[Any]:
    used = [int(t) for part in (op.inputs, op.outputs) if part is not None for t in part]
    return [model.subgraphs[0].tensors[t] for t in used if t >= 0]


def _type(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """One operand, or all of the operator, are of another type; a constant gives up as many elements."""
    kinds = sorted(v for v in vars(s.TensorType).values() if isinstance(v, int))
    found, kind = _tensors(model, op), rng.choice([0, 2, 3, 4, 6, 7, 9, rng.choice(kinds)])
    for tensor in found if rng.random() < 0.4 else [rng.choice(found)]:
        tensor.type = kind


def _option(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """A number among the options, or no options at all."""
    options = op.builtinOptions
    fields = [] if options is None else [k for k, v in vars(options).items() if isinstance(v, (bool, int, float))]
    if not fields or rng.random() < 0.1:
        op.builtinOptions, op.builtinOptionsType = None, 0
        return
    name = rng.choice(fields)
    own = getattr(options, name)
    small = isinstance(own, bool) or "ctivation" in name or "adding" in name  # a byte of the schema
    change = [not own, 1] if small else [own + 1, own - 1, -own, 0, rng.choice(_NUMBERS)]
    setattr(options, name, type(own)(rng.choice(change)))


def _constant(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """A number of a constant of whole numbers: an index, an axis, a size."""
    widths = {s.TensorType.INT32: np.int32, s.TensorType.INT64: np.int64}
    held = [t for t in _tensors(model, op) if t.type in widths and model.buffers[t.buffer].data is not None]
    if held:
        tensor = rng.choice(held)
        stored = np.array(model.buffers[tensor.buffer].data, np.uint8)
        width = np.dtype(widths[tensor.type])
        if stored.size and stored.size % width.itemsize == 0:
            values = stored.view(width)
            place = rng.randrange(values.size)
            near = int(values[place])
            values[place] = max(
                -(1 << 31), min(rng.choice([near + 1, near - 1, -near, rng.choice(_NUMBERS)]), (1 << 31) - 1)
            )
            model.buffers[tensor.buffer].data = values.view(np.uint8)


def _operand(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """Another tensor, none, one more or one fewer."""
    given = [int(t) for t in op.inputs]
    other = rng.choice([-1, rng.randrange(len(model.subgraphs[0].tensors))])
    place = rng.randrange(len(given) + 1)
    if place == len(given):
        given.append(other)
    elif rng.random() < 0.2:
        del given[place]
    else:
        given[place] = other
    op.inputs = given


def _kind(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """Another operator on the same operands."""
    kinds = sorted(v for v in vars(s.BuiltinOperator).values() if isinstance(v, int))
    code = s.OperatorCodeT()
    code.builtinCode, code.version = rng.choice(kinds), rng.choice([1, 2, 3])
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    model.operatorCodes.append(code)
    op.opcodeIndex = len(model.operatorCodes) - 1


def _scale(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """Another scale, or none."""
    held = [t for t in _tensors(model, op) if t.quantization is not None and t.quantization.scale is not None]
    if held:
        tensor = rng.choice(held)
        if rng.random() < 0.3:
            tensor.quantization = None
        else:
            tensor.quantization.scale = [float(v) for v in tensor.quantization.scale]
            tensor.quantization.scale[rng.randrange(len(tensor.quantization.scale))] = rng.choice(_SCALES)


def _shape(s: Any, model: Any, op: Any, rng: random.Random) -> None:
    """A size of an operand, or one dimension more or fewer."""
    tensor = rng.choice(_tensors(model, op))
    shape = [] if tensor.shape is None else [int(d) for d in tensor.shape]
    place = rng.randrange(len(shape) + 1)
    if place == len(shape):
        shape.append(rng.choice([0, 1, 2]))
    elif rng.random() < 0.3:
        del shape[place]
    else:
        shape[place] = rng.choice([0, 1, shape[place] + 1, shape[place] * 2])
    tensor.shape = shape


_CHANGES = (_type, _type, _option, _option, _constant, _constant, _operand, _kind, _scale, _shape)
