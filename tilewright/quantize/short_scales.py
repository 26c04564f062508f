"""Scales of few significant bits for what Resize ``linear`` reads, so that float32 rounds none of its sums.

Resize keeps the scale of its input, and by even factors one of its sums in four to sixteen is a tie, which goes to
where the last bits of ONNX Runtime's float32 products put it. Products with a scale of few bits have no last bits: then
ties go to the even neighbour, on the accelerator as there. A scale grows by less than a hundredth for a factor of two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.onnx.resize import free_bits, weights_of

_LEAST = 6  #: significant bits that a scale keeps; larger factors leave fewer


def shorten(model: Any) -> None:
    """Round up the scales of a QDQ model's tensors that are resized, and restate the biases of what else reads them."""
    import onnx

    graph = model.graph
    initial = {tensor.name: tensor for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    wanted: dict[str, int] = {}
    for node in graph.node:
        ahead = _dequantised(node, 0, producers, initial)
        bits = _bits(node, shapes) if ahead is not None else None
        if ahead is not None and bits is not None:
            wanted[ahead.input[1]] = min(bits, wanted.get(ahead.input[1], bits))
    for name, bits in wanted.items():
        _set(initial[name], _rounded_up(_values(initial[name]), bits))
    for node in graph.node:
        x, weight, bias = (_dequantised(node, position, producers, initial) for position in range(3))
        if x is not None and weight is not None and bias is not None and x.input[1] in wanted:
            unit = _values(initial[x.input[1]]) * _values(initial[weight.input[1]])
            _restate(initial[bias.input[0]], initial[bias.input[1]], unit.astype(np.float32))


def _dequantised(node: Any, position: int, producers: dict[str, Any], initial: dict[str, Any]) -> Any:
    """The DequantizeLinear, with a constant scale, that gives an operand; None where there is none."""
    found = producers.get(node.input[position]) if len(node.input) > position else None
    if found is None or found.op_type != "DequantizeLinear" or found.input[1] not in initial:
        return None
    return found


def _bits(node: Any, shapes: dict[str, tuple[int, ...]]) -> int | None:
    """How many bits a scale may have that is resized so; None where their number does not matter."""
    from onnx import helper

    if node.op_type != "Resize":
        return None
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    before, after = shapes.get(node.input[0], ()), shapes.get(node.output[0], ())
    if given.get("mode", b"nearest") != b"linear" or len(before) != 4 or len(after) != 4:
        return None
    mode = given.get("coordinate_transformation_mode", b"half_pixel").decode()
    try:
        bits = free_bits(weights_of(before, after, mode))
    except Unsupported:
        return None
    return bits if bits is not None and bits >= _LEAST else None


def _rounded_up(scale: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """The next number of so many significant bits."""
    mantissa, exponent = math.frexp(float(scale.reshape(())))
    return np.full(scale.shape, math.ldexp(math.ceil(mantissa * 2**bits), exponent - bits), np.float32)


def _restate(values: Any, scale: Any, unit: NDArray[np.float32]) -> None:
    """A bias of int32 in another unit."""
    before, old = _values(values).astype(np.float64), _values(scale).astype(np.float64)
    _set(scale, unit.reshape(old.shape))
    _set(values, np.rint(before * old / unit.reshape(old.shape)).astype(np.int32))


def _values(tensor: Any) -> NDArray[Any]:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def _set(tensor: Any, values: NDArray[Any]) -> None:
    from onnx import numpy_helper

    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
