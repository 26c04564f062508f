"""Models of one operator for LiteRT: a sound one that runs for each operator, and damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tilewright.runtime.litert.schema import read_model, schema, written

Edit = Callable[[Any, Any], None]  #: of the schema's objects: model and operator


def tensor(
    shape: list[int], dtype: str = "float32", scale: Any = None, data: Any = None, *, axis: int = 0,
    variable: bool = False, zero: int = 0,
) -> StoredTensor:  # fmt: skip
    """A tensor; ``data`` makes it a constant."""
    value = None if data is None else np.asarray(data, dtype if dtype != "int4" else np.int8)
    scales = None if scale is None else np.atleast_1d(np.float32(scale))
    return StoredTensor("t", tuple(shape), dtype, scales, np.array([zero]), axis, value, variable)


def numbers(*values: int, dtype: str = "int32") -> StoredTensor:
    """A constant vector."""
    return tensor([len(values)], dtype, data=values)


def scalar(value: int, dtype: str = "int32") -> StoredTensor:
    """A constant number."""
    return tensor([], dtype, data=value)


@dataclass
class Net:
    """One operator; inputs that are no constants are the graph's. ``fields`` of the table ``options``."""

    kind: str
    inputs: list[StoredTensor]
    outputs: list[StoredTensor]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()
    edit: Edit | None = None

    def change(self, **given: Any) -> Net:
        """Another input, output, field: ``in0=tensor(...)``, ``out0=tensor(...)``, ``beta=0.0``, ``left_out=(1,)``."""
        inputs, outputs, fields, rest = list(self.inputs), list(self.outputs), dict(self.fields), {}
        for name, value in given.items():
            if name in ("left_out", "edit", "options"):
                rest[name] = value
            elif name[:-1] == "in":
                inputs[int(name[-1])] = value
            elif name[:-1] == "out":
                outputs[int(name[-1])] = value
            else:
                fields[name] = value
        return replace(self, inputs=inputs, outputs=outputs, fields=fields, **rest)

    def save(self, path: Path) -> bytes:
        """The model's bytes."""
        tensors = [replace(t, name=f"t{k}") for k, t in enumerate([*self.inputs, *self.outputs])]
        count = len(self.inputs)
        made = list(range(count, len(tensors)))
        given = [k for k in range(count) if tensors[k].data is None and not tensors[k].variable]
        read = [-1 if k in self.left_out else k for k in range(count)]
        op = StoredOperator(self.kind, read, made, self.options, self.fields)
        content = write_tflite(path, tensors, [op], [k for k in given if k not in self.left_out], made).read_bytes()
        return content if self.edit is None else edited(content, self.edit)


def edited(content: bytes, edit: Edit) -> bytes:
    """The model with its first operator changed."""
    model = read_model(content)
    edit(model, model.subgraphs[0].operators[0])
    return written(model)


def _second_options(name: str, **fields: Any) -> Edit:
    def edit(_: Any, op: Any) -> None:
        s = schema()
        op.builtinOptions2 = getattr(s, f"{name}T")()
        op.builtinOptions2Type = getattr(s.BuiltinOptions2, name)
        for field_name, value in fields.items():
            setattr(op.builtinOptions2, field_name, value)

    return edit


def _pair(kind: str, dtype: str = "float32", made: str = "", options: str = "", scale: Any = None) -> Net:
    x = tensor([2, 3], dtype, scale)
    return Net(kind, [x, x], [tensor([2, 3], made or dtype, None if made else scale)], options)


def _high(net: Net) -> Net:
    """Two inputs of nine dimensions that are broadcast."""
    x, y, made = net.inputs[0], net.inputs[1], net.outputs[0]
    return net.change(
        in0=replace(x, shape=(2, *[1] * 8)),
        in1=replace(y, shape=(*[1] * 8, 3)),
        out0=replace(made, shape=(2, *[1] * 7, 3)),
    )


_POINTWISE = {
    **{kind: _pair(kind, options=f"{kind.title()}Options") for kind in ("ADD", "SUB", "MUL", "DIV")},
    **{kind: _pair(kind) for kind in ("MAXIMUM", "MINIMUM", "POW", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")},
    **{kind: _pair(kind, "bool") for kind in ("LOGICAL_AND", "LOGICAL_OR")},
    **{kind: _pair(kind, "int32") for kind in ("BITWISE_XOR", "RIGHT_SHIFT")},
    **{
        kind: _pair(kind, made="bool")
        for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
    },
    "PRELU": _pair("PRELU"),
}
_SUMS = {kind: _pair(kind, "int8", options=f"{kind.title()}Options", scale=0.5) for kind in ("ADD", "SUB")}
_SUMS["SQUARED_DIFFERENCE"] = _pair("SQUARED_DIFFERENCE", "int8", scale=0.5)
_COMPARED = {
    kind: replace(
        _pair(kind, "int8", made="bool"), inputs=[tensor([4], "int8", 0.5)] * 2, outputs=[tensor([4], "bool")]
    )
    for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
}
_TABLES16 = {
    kind: Net(kind, [tensor([4], "int16", 0.5)], [tensor([4], "int16", 0.5)]) for kind in ("LOG", "RSQRT", "SQRT")
}
_ROWS = {
    "FAKE_QUANT": Net("FAKE_QUANT", [tensor([4])], [tensor([4])], "FakeQuantOptions", {"max": 1.0, "numBits": 8}),
    "RESHAPE": Net("RESHAPE", [tensor([2, 2]), numbers(4)], [tensor([4])], "ReshapeOptions"),
    "SUM": Net("SUM", [tensor([2, 3]), numbers(1)], [tensor([2])], "ReducerOptions"),
    "MATRIX_DIAG": Net("MATRIX_DIAG", [tensor([2])], [tensor([2, 2])]),
    "SIGN": Net("SIGN", [tensor([2])], [tensor([2])]),
    "CUMSUM": Net("CUMSUM", [tensor([2, 2]), scalar(1)], [tensor([2, 2])], "CumsumOptions"),
    "CONCATENATION": Net("CONCATENATION", [tensor([2]), tensor([2])], [tensor([4])], "ConcatenationOptions"),
    "SPLIT": Net("SPLIT", [scalar(0), tensor([4])], [tensor([2]), tensor([2])], "SplitOptions", {"numSplits": 2}),
    "ONE_HOT": Net(
        "ONE_HOT", [tensor([2], "int32"), scalar(3), scalar(1), scalar(0)], [tensor([2, 3], "int32")], "OneHotOptions",
        {"axis": -1},
    ),
    "LSH_PROJECTION": Net(
        "LSH_PROJECTION", [tensor([2, 3], data=np.ones((2, 3))), tensor([4])], [tensor([6], "int32")],
        "LSHProjectionOptions", {"type": 2},
    ),
    "EMBEDDING_LOOKUP": Net("EMBEDDING_LOOKUP", [numbers(1, 0), tensor([3, 4])], [tensor([2, 4])]),
    "BATCH_MATMUL": Net("BATCH_MATMUL", [tensor([2, 3]), tensor([3, 2])], [tensor([2, 2])], "BatchMatMulOptions"),
    "ARG_MAX": Net(
        "ARG_MAX", [tensor([2, 3]), scalar(1)], [tensor([2], "int32")], "ArgMaxOptions", {"outputType": 2}
    ),
    "ARG_MIN": Net(
        "ARG_MIN", [tensor([2, 3]), scalar(1)], [tensor([2], "int32")], "ArgMinOptions", {"outputType": 2}
    ),
    "SHAPE": Net("SHAPE", [tensor([2, 3])], [tensor([2], "int32")], "ShapeOptions", {"outType": 2}),
    "ATAN2": _pair("ATAN2"),
    "BITCAST": Net("BITCAST", [tensor([4], "int32")], [tensor([4])]),
    "BROADCAST_ARGS": Net("BROADCAST_ARGS", [numbers(2, 1), numbers(3)], [tensor([2], "int32")]),
    "CONV_2D": Net(
        "CONV_2D", [tensor([1, 2, 2, 2]), tensor([2, 1, 1, 2], data=np.ones((2, 1, 1, 2))), tensor([2], data=[0, 0])],
        [tensor([1, 2, 2, 2])], "Conv2DOptions",
        {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1},
    ),
    "DEPTHWISE_CONV_2D": Net(
        "DEPTHWISE_CONV_2D",
        [tensor([1, 2, 2, 2]), tensor([1, 1, 1, 2], "int8", [0.5, 0.25], [[[[1, 2]]]], axis=3), tensor([2], data=[0,
            0])],
        [tensor([1, 2, 2, 2])], "DepthwiseConv2DOptions",
        {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "depthMultiplier": 1},
    ),
    "TRANSPOSE_CONV": Net(
        "TRANSPOSE_CONV", [numbers(1, 2, 2, 2), tensor([2, 1, 1, 3], "int8", [1, 2], np.ones((2, 1, 1, 3))),
            tensor([1, 2, 2, 3])],
        [tensor([1, 2, 2, 2])], "TransposeConvOptions", {"strideH": 1, "strideW": 1},
    ),
    "FULLY_CONNECTED": Net(
        "FULLY_CONNECTED", [tensor([1, 3]), tensor([2, 3], "int8", [0.5, 0.25], np.ones((2, 3)))], [tensor([1, 2])],
        "FullyConnectedOptions",
    ),
    "DEQUANTIZE": Net("DEQUANTIZE", [tensor([2, 3], "int8", [1, 2])], [tensor([2, 3])]),
    "QUANTIZE": Net("QUANTIZE", [tensor([2, 3])], [tensor([2, 3], "int8", [1, 2])]),
    "DILATE": Net("DILATE", [tensor([2]), numbers(2), scalar(0, "float32")], [tensor([3])],
        edit=_second_options("DilateOptions")),
    "EMBEDDING_LOOKUP_SPARSE": Net(
        "EMBEDDING_LOOKUP_SPARSE",
        [numbers(1, 0), tensor([2, 2], "int32", data=[[0, 0], [1, 0]]), numbers(2, 1), tensor([2], data=[1, 1]),
            tensor([3, 4])],
        [tensor([2, 4])], "EmbeddingLookupSparseOptions", {"combiner": 1},
    ),
    "LOCAL_RESPONSE_NORMALIZATION": Net(
        "LOCAL_RESPONSE_NORMALIZATION", [tensor([1, 1, 1, 4])], [tensor([1, 1, 1, 4])],
            "LocalResponseNormalizationOptions",
        {"radius": 1, "bias": 1.0, "alpha": 1.0, "beta": 0.5},
    ),
    "LOG_SOFTMAX": Net("LOG_SOFTMAX", [tensor([1, 4], "int8", 0.5)], [tensor([1, 4], "int8", 0.0625, zero=127)]),
    "SOFTMAX": Net(
        "SOFTMAX", [tensor([1, 4], "int8", 0.5)], [tensor([1, 4], "int8", 1 / 256, zero=-128)], "SoftmaxOptions",
            {"beta": 1.0}
    ),
    **{
        kind: Net(
            kind, [tensor([1, 2, 2, 1], "int8", 0.5)], [tensor([1, 1, 1, 1], "int8", 0.5)], "Pool2DOptions",
            {
                "filterWidth": 2, "filterHeight": 2, "strideW": 1, "strideH": 1, "padding": 1,
                "fusedActivationFunction": 3,
            },
        )
        for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    },
    "MATRIX_SET_DIAG": Net("MATRIX_SET_DIAG", [tensor([2, 2]), tensor([2])], [tensor([2, 2])]),
    "RANDOM_STANDARD_NORMAL": Net("RANDOM_STANDARD_NORMAL", [numbers(2)], [tensor([2])], "RandomOptions"),
    "RANDOM_UNIFORM": Net("RANDOM_UNIFORM", [numbers(2)], [tensor([2])], "RandomOptions"),
    "RESIZE_BILINEAR": Net("RESIZE_BILINEAR", [tensor([1, 2, 2, 1]), numbers(3, 3)], [tensor([1, 3, 3, 1])],
        "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": Net(
        "RESIZE_NEAREST_NEIGHBOR", [tensor([1, 2, 2, 1]), numbers(3, 3)], [tensor([1, 3, 3, 1])],
            "ResizeNearestNeighborOptions"
    ),
    "REVERSE_SEQUENCE": Net(
        "REVERSE_SEQUENCE", [tensor([2, 3]), numbers(3, 1)], [tensor([2, 3])], "ReverseSequenceOptions", {"seqDim": 1}
    ),
    "STRIDED_SLICE": Net(
        "STRIDED_SLICE", [tensor([4, 4]), numbers(0, 1), numbers(4, 3), numbers(2, 1)], [tensor([2, 2])],
            "StridedSliceOptions"
    ),
    "TRANSPOSE": Net("TRANSPOSE", [tensor([2, 3]), numbers(1, 0)], [tensor([3, 2])], "TransposeOptions"),
    "SVDF": Net(
        "SVDF",
        [tensor([1, 3]), tensor([2, 3], data=np.ones((2, 3))), tensor([2, 4], data=np.ones((2, 4))), tensor([2],
            data=[0, 0]),
         tensor([1, 8], variable=True)],
        [tensor([1, 2])], "SVDFOptions", {"rank": 1},
    ),
    "RNN": Net(
        "RNN",
        [tensor([1, 3]), tensor([2, 3], data=np.ones((2, 3))), tensor([2, 2], data=np.ones((2, 2))), tensor([2],
            data=[0, 0]),
         tensor([1, 2], variable=True)],
        [tensor([1, 2])], "RNNOptions",
    ),
}  # fmt: skip

_BIAS = tensor([2], "int32", 0.25, [5, 7])
_WEIGHTS = tensor([2, 1, 1, 3], "int8", [0.5, 0.5], np.ones((2, 1, 1, 3)))
_PIXELS, _SUMS16 = tensor([1, 2, 2, 3], "int16", 0.5), tensor([1, 2, 2, 2], "int16", 0.5)
#: a bias of int32 beside int16, which the options state
_BIASED16 = [
    _ROWS["CONV_2D"].change(in0=_PIXELS, in1=_WEIGHTS, in2=_BIAS, out0=_SUMS16, quantizedBiasType=2),
    replace(
        _ROWS["TRANSPOSE_CONV"].change(out0=_SUMS16, quantizedBiasType=2),
        inputs=[numbers(1, 2, 2, 2), _WEIGHTS, _PIXELS, _BIAS],
    ),
    Net(
        "FULLY_CONNECTED",
        [tensor([1, 3], "int16", 0.5), tensor([2, 3], "int8", 0.5, np.ones((2, 3))), _BIAS],
        [tensor([1, 2], "int16", 0.5)], "FullyConnectedOptions", {"quantizedBiasType": 2},
    ),
]  # fmt: skip

_SLICED = _ROWS["STRIDED_SLICE"].change(in2=numbers(4, 2), in3=numbers(2, 1))

#: what runs, and is never refused
SOUND: list[Net] = [
    *_POINTWISE.values(), *_SUMS.values(), *_COMPARED.values(), *_TABLES16.values(), *_ROWS.values(), *_BIASED16,
    _SUMS["SUB"].change(out0=tensor([2, 3], "int8", 1e-9)),
    _pair("MUL", "int16", scale=0.5, options="MulOptions").change(out0=tensor([2, 3], "int8", 0.5)),
    _ROWS["RESHAPE"].change(in1=tensor([1, 1], "int8", data=[[3]]), newShape=[4]),
    _ROWS["MATRIX_DIAG"].change(in0=tensor([2], "int8"), out0=tensor([2, 2], "int8")),
    _SLICED.change(offset=True, in0=tensor([4, 4]), in1=numbers(0, -3)),
    _SLICED.change(shrinkAxisMask=2, in1=numbers(0, 3), out0=tensor([2])),
    _SLICED.change(ellipsisMask=1, newAxisMask=2, in0=tensor([4]), out0=tensor([4, 1])),
    replace(_ROWS["DEPTHWISE_CONV_2D"], inputs=_ROWS["DEPTHWISE_CONV_2D"].inputs[:2]),
]  # fmt: skip

#: damaged ones, at which LiteRT's reference kernels end their process or refuse to run
DAMAGED: list[Net] = [
    _ROWS["RESHAPE"].change(left_out=(1,)),
    Net("REAL", [tensor([2], "complex64")], [tensor([2])], left_out=(0,)),
    _ROWS["BROADCAST_ARGS"].change(in1=numbers(3, 2), in0=numbers(2, 2)),
    _pair("FLOOR_MOD", "int32").change(in0=numbers(-(2**31)), in1=numbers(-1), out0=tensor([1], "int32")),
    _ROWS["LOG_SOFTMAX"].change(in0=tensor([1, 4], "int8", 1e-9)),
    _ROWS["SOFTMAX"].change(beta=0.0),
    _pair("MUL", "int16", scale=0.5, options="MulOptions").change(
        in1=tensor([3], "int16", 0.5), out0=tensor([2, 3], "int8", 0.5)
    ),
    _high(_POINTWISE["MAXIMUM"]),
    _SUMS["ADD"].change(out0=tensor([2, 3], "int8", 1e-9)),
    _COMPARED["EQUAL"].change(in1=tensor([4], "int8", 1.0)),
    _TABLES16["LOG"].change(in0=tensor([4], "int16")),
]  # fmt: skip
