"""How the operators of Relax are written as those of ONNX beside which they stand in the table of operators.

What is written raises Unsupported where ONNX, or ONNX Runtime, has no such form. Operators that no function here names
have the same operands in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.relax import compat
from tilewright.jit.relax.model import Call, Row
from tilewright.jit.source.operators import RELAX, relax_row

_REAL = ("float32",)
_NUMBERS = ("float32", "int32", "int64")
_STORED = ("float32", "int8", "uint8", "int32", "int64", "bool")
_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}


_Write = TypeVar("_Write", bound=Callable[[Call], str | list[str]])
#: Relax operator -> (the element types that its operands may have, how it is written)
ROWS: dict[str, Row] = {}


def _writes(*names: str, types: Sequence[str] = _REAL) -> Callable[[_Write], _Write]:
    """What the function below writes."""

    def noted(write: _Write) -> _Write:
        ROWS.update(dict.fromkeys(names, (types, write)))
        return write

    return noted


@_writes("quantize", types=_STORED)
def _quantize(call: Call) -> str:
    call.require(call.arguments[:1], _REAL)
    return call.emit("QuantizeLinear", [call.name(0), *call.scale_and_zero(call.dtype)], **call.axis())


@_writes("dequantize", types=_STORED)
def _dequantize(call: Call) -> str:
    if call.dtype != "float32":
        raise Unsupported(f"real numbers of type {call.dtype}")
    source = compat.dtype(call.arguments[0])
    return call.emit("DequantizeLinear", [call.name(0), *call.scale_and_zero(source)], **call.axis())


@_writes("clip", types=("float32", "int8", "uint8"))
def _clip(call: Call) -> str:
    low, high = (compat.number(bound) for bound in call.arguments[1:3])
    if math.isnan(low) or math.isnan(high) or low > high:
        raise Unsupported(f"a clamp to {low}..{high}")
    if call.dtype != "float32":
        limits = np.iinfo(call.dtype)
        if not (math.isfinite(low) and math.isfinite(high) and low <= limits.max and high >= limits.min):
            raise Unsupported(f"a clamp of {call.dtype} to {low}..{high}")
        low, high = max(int(low), limits.min), min(int(high), limits.max)
    return call.emit("Clip", [call.name(0), *(call.constant(np.array(b, call.dtype)) for b in (low, high))])


@_writes("nn.conv1d", "nn.conv2d")
def _conv(call: Call) -> str:
    """A convolution of any layout, with the bias that its only reader adds."""
    return _weighted(call, "Conv", "OI")


@_writes("nn.conv2d_transpose")
def _conv_transpose(call: Call) -> str:
    return _weighted(call, "ConvTranspose", "IO", output_padding=list(compat.ints(call.attrs.output_padding)))


def _weighted(call: Call, kind: str, weights: str, **more: Any) -> str:
    attrs, space = call.attrs, "DHW"[5 - len(call.shape) :]
    layout, kernel = "NC" + space, weights + space
    if str(attrs.out_layout or attrs.data_layout) != str(attrs.data_layout):
        raise Unsupported(f"a convolution from layout {attrs.data_layout} to {attrs.out_layout}")
    inputs = [call.in_layout(0, str(attrs.data_layout), layout), call.in_layout(1, str(attrs.kernel_layout), kernel)]
    result = call.emit(
        kind, inputs + call.bias(), strides=list(compat.ints(attrs.strides)), pads=list(compat.ints(attrs.padding)),
        dilations=list(compat.ints(attrs.dilation)), group=int(attrs.groups), **more,
    )  # fmt: skip
    return call.from_layout(result, layout, str(attrs.data_layout))


@_writes("nn.max_pool1d", "nn.max_pool2d", "nn.avg_pool1d", "nn.avg_pool2d", types=_STORED)
def _pool(call: Call) -> str:
    attrs, average = call.attrs, "avg_pool" in call.operator
    call.require(call.arguments[:1], _REAL if average else ("float32", "int8", "uint8"))
    given = str(attrs.layout)
    if str(attrs.out_layout) != given:
        raise Unsupported(f"pooling from layout {given} to {attrs.out_layout}")
    layout = "NC" + given.replace("N", "").replace("C", "")
    window: dict[str, Any] = {
        "kernel_shape": list(compat.ints(attrs.pool_size)), "strides": list(compat.ints(attrs.strides)),
        "pads": list(compat.ints(attrs.padding)), "dilations": list(compat.ints(attrs.dilation)),
    }  # fmt: skip
    _refuse_reaching(call, window, [given.index(c) for c in layout[2:]])
    if average:
        window["count_include_pad"] = int(attrs.count_include_pad)
    x = call.in_layout(0, given, layout)
    return call.from_layout(call.emit("AveragePool" if average else "MaxPool", [x], **window), layout, given)


def _refuse_reaching(call: Call, window: dict[str, Any], axes: Sequence[int]) -> None:
    before, half = compat.shape(call.arguments[0]), len(axes)
    for n, axis in enumerate(axes):
        room = before[axis] + window["pads"][n] + window["pads"][n + half]
        reach = window["dilations"][n] * (window["kernel_shape"][n] - 1) + 1
        if (room - reach) // window["strides"][n] + 1 != call.shape[axis]:
            raise Unsupported("pooling in ceil mode with windows that reach past the padding")


@_writes("matmul")
def _matmul(call: Call) -> str:
    bias = call.bias()
    return call.emit("Gemm", [*call.names(), *bias]) if bias else call.emit("MatMul", call.names())


@_writes("mean")
@_writes("sum", types=_NUMBERS)
@_writes("max", "min", types=_STORED[:-1])
def _reduce(call: Call) -> str:
    axes = [] if call.attrs.axis is None else [call.constant(np.array(compat.ints(call.attrs.axis), np.int64))]
    return call.emit(_kind(call), [call.name(0), *axes], keepdims=int(call.attrs.keepdims))


@_writes("reshape", "squeeze", "expand_dims", "flatten", "broadcast_to", types=_STORED)
def _shaped(call: Call) -> str:
    """A reshape by whatever name, or an expansion: its result has the shape that Relax says."""
    kind = "Expand" if _kind(call) == "Expand" else "Reshape"
    return call.emit(kind, [call.name(0), call.constant(np.array(call.shape, np.int64))])


@_writes("nn.softmax", "nn.log_softmax")
def _softmax(call: Call) -> str:
    return call.emit(_kind(call), call.names(), axis=int(call.attrs.axis))


@_writes("nn.leakyrelu")
def _leaky_relu(call: Call) -> str:
    return call.emit("LeakyRelu", call.names(), alpha=float(call.attrs.alpha))


@_writes("nn.gelu_tanh")
def _gelu(call: Call) -> str:
    return call.emit("Gelu", call.names(), approximate="tanh")


@_writes("concat", types=_STORED)
def _concat(call: Call) -> str:
    if call.attrs.axis is None:
        raise Unsupported("a concatenation of flattened tensors")
    return call.emit("Concat", call.elements(0), axis=int(call.attrs.axis))


@_writes("split", types=_STORED)
def _split(call: Call) -> list[str]:
    axis, cuts = int(call.attrs.axis), call.attrs.indices_or_sections
    size = compat.shape(call.arguments[0])[axis]
    if hasattr(cuts, "value"):  # a number of parts
        parts = int(cuts)
        if size % parts:
            raise Unsupported(f"a split of {size} elements into {parts} parts")
        places = [size * n // parts for n in range(parts + 1)]
    else:
        places = [0, *compat.ints(cuts), size]
    sizes = call.constant(np.diff(np.array(places, np.int64)))
    return call.emit_several("Split", [call.name(0), sizes], len(places) - 1, axis=axis)


@_writes("strided_slice", types=_STORED)
def _slice(call: Call) -> str:
    axes, begins, ends, *strides = (np.array(compat.integers(a), np.int64) for a in call.arguments[1:])
    steps = strides[0] if strides else np.ones_like(axes)
    return call.emit("Slice", [call.name(0), *(call.constant(a) for a in (begins, ends, axes, steps))])


@_writes("take", types=_STORED)
def _take(call: Call) -> str:
    if call.attrs.axis is None or str(call.attrs.mode) == "clip":
        raise Unsupported("an index into a flattened tensor, or one that is clamped")
    return call.emit("Gather", call.names(), axis=int(call.attrs.axis))


@_writes("permute_dims", types=_STORED)
def _transpose(call: Call) -> str:
    return call.emit("Transpose", [call.name(0)], perm=list(compat.permutation(call.expr)))


@_writes("nn.pad", types=("float32", "int8", "uint8"))
def _pad(call: Call) -> str:
    attrs, width = call.attrs, compat.ints(call.attrs.pad_width)
    value, mode = float(attrs.pad_value), str(attrs.pad_mode)
    if mode not in ("constant", "reflect"):
        raise Unsupported(f"padding mode {mode}")
    if call.dtype != "float32":
        limits = np.iinfo(call.dtype)
        if not (math.isfinite(value) and limits.min <= value <= limits.max):
            raise Unsupported(f"padding of {call.dtype} with {value}")
    pads = call.constant(np.array([*width[::2], *width[1::2]], np.int64))
    return call.emit("Pad", [call.name(0), pads, call.constant(np.array(value).astype(call.dtype))], mode=mode)


@_writes("nn.layer_norm")
def _layer_norm(call: Call) -> str:
    attrs, rank = call.attrs, len(call.shape)
    axes = sorted(axis % rank for axis in compat.ints(attrs.axes))
    if axes != list(range(axes[0], rank)) or not (bool(attrs.center) and bool(attrs.scale)):
        raise Unsupported(f"a normalisation over the axes {axes}")
    return call.emit("LayerNormalization", call.names(), axis=axes[0], epsilon=float(attrs.epsilon))


@_writes("image.resize2d", types=("float32", "int8", "uint8"))
def _resize(call: Call) -> str:
    attrs, given = call.attrs, str(call.attrs.layout)
    mode, coordinates = str(attrs.method), str(attrs.coordinate_transformation_mode)
    if mode not in _METHODS or coordinates not in _COORDINATES:
        raise Unsupported(f"a resize by {mode} with coordinates {coordinates}")
    options: dict[str, Any] = {"mode": _METHODS[mode], "coordinate_transformation_mode": coordinates}
    if mode == "nearest_neighbor":
        options["nearest_mode"] = str(attrs.rounding_method) or "round_prefer_floor"
    elif mode == "cubic":
        options |= {"cubic_coeff_a": float(attrs.cubic_alpha), "exclude_outside": int(attrs.cubic_exclude)}
    sizes = call.constant(np.array([call.shape[given.index(c)] for c in "NCHW"], np.int64))
    result = call.emit("Resize", [call.in_layout(0, given, "NCHW"), "", "", sizes], **options)
    return call.from_layout(result, "NCHW", given)


@_writes("nn.silu")
def _silu(call: Call) -> str:
    return call.emit("Mul", [call.name(0), call.emit("Sigmoid", call.names())])


@_writes("rsqrt")
def _rsqrt(call: Call) -> str:
    return call.emit("Reciprocal", [call.emit("Sqrt", call.names())])


@_writes("shape_of", types=_STORED)
def _shape_of(call: Call) -> str:
    return call.constant(np.array(compat.shape(call.arguments[0]), np.int64))


@_writes("shape_to_tensor", types=_STORED)
def _shape_to_tensor(call: Call) -> str:
    return call.name(0)


def _kind(call: Call) -> str:
    """The operator of ONNX in the call's row."""
    return relax_row(call.operator).name


def _plain(call: Call) -> str:
    """An operator with the same operands."""
    return call.emit(_kind(call), call.names())


for _name, _known in RELAX.items():
    if _name not in ROWS:
        _types = (*("bool",) * (_name == "where"), *_NUMBERS) if _known.integers else _REAL
        ROWS[_name] = _types, _plain
