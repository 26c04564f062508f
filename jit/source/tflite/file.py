"""A ``.tflite`` file as plain data: tensors and operators of its main subgraph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.frontend.builder import Quantisation
from tilewright.jit.source.tflite.validate import validated

#: TensorType of the schema -> NumPy type; types that NumPy lacks (strings, resources) have none
DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 8: "complex64", 9: "int8",
    10: "float64", 12: "uint64", 15: "uint32", 16: "uint16",
}  # fmt: skip
#: TensorType of the schema -> signed integers of which several share a byte, and their bits
PACKED = {17: ("int4", 4), 19: ("int2", 2)}


@dataclass(frozen=True)
class Tensor:
    """A tensor of the main subgraph; ``dtype`` is "" where NumPy has none; ``data`` for constants.

    Constants of the types ``int4`` and ``int2`` have int8 ``data``; nothing else is of these types.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int
    data: NDArray[Any] | None
    variable: bool

    def quantisation(self) -> Quantisation:
        """Per tensor, as of int8 (uint8 less 128). Raises Unsupported where it is not an 8-bit activation."""
        if self.dtype not in ("int8", "uint8"):
            raise Unsupported(f"a tensor of type {self.dtype or 'unknown'} where 8 bits are needed")
        if self.scales.size != 1 or self.zero_points.size > 1:
            raise Unsupported("an activation without one scale" if self.scales.size == 0 else "scales per channel")
        scale = float(self.scales[0])
        if not (np.isfinite(scale) and scale > 0):
            raise Unsupported(f"the scale {scale} of an activation")
        zero_point = int(self.zero_points[0]) if self.zero_points.size else 0
        moved = zero_point - (128 if self.dtype == "uint8" else 0)
        if not -128 <= moved <= 127:
            raise Unsupported(f"the zero point {zero_point} of a {self.dtype} tensor")
        return Quantisation(scale, moved)


@dataclass(frozen=True)
class Operator:
    """An operator: ``inputs`` and ``outputs`` are tensor indices (-1: left out); ``options`` the schema's object."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    custom: str = ""


class File:
    """The main subgraph, and the schema's own objects of the whole file (``model``)."""

    def __init__(self, path: Path, *, quantised: bool = True) -> None:
        from ai_edge_litert import schema_py_generated as schema

        data = path.read_bytes()
        validated(path, data, quantised=quantised)
        self.path = path
        try:
            self.model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
            self._inline(data)
            main = self.model.subgraphs[0]
            self.kinds = _kinds(schema, self.model)
            self.tensors = [self._tensor(index, tensor) for index, tensor in enumerate(main.tensors)]
            self.operators = [self._operator(index, op) for index, op in enumerate(_list(main.operators))]
        except ModelError:
            raise
        except Exception as error:  # the flatbuffer reader raises whatever struct, NumPy and codecs do
            raise ModelError(
                f"{path}: corrupt .tflite file: {type(error).__name__} while reading it; download or export it again"
            ) from error
        self.inputs = [int(i) for i in _list(main.inputs)]
        self.outputs = [int(i) for i in _list(main.outputs)]
        self._refuse_overwriting()

    def take_shapes(self, shapes: Mapping[int, tuple[int, ...]]) -> None:
        """Shapes of what operators compute, as the interpreter finds them; what it does not know keeps the file's."""
        made = {t for op in self.operators for t in op.outputs}
        for index in made & shapes.keys():
            if shapes[index] and all(d > 0 for d in shapes[index]):
                self.tensors[index] = replace(self.tensors[index], shape=shapes[index])

    def _refuse_overwriting(self) -> None:
        """Raise ModelError where an operator writes what is an input, a constant, or written by another one."""
        taken = {*self.inputs, *(t.index for t in self.tensors if t.data is not None)}
        for op in self.operators:
            for index in op.outputs:
                if index >= 0 and index in taken:
                    raise ModelError(
                        f"{self.path}: corrupt .tflite file: operator {op.index} ({op.kind}) writes tensor {index} "
                        f"({self.tensors[index].name}), which is an input, a constant or another operator's result; "
                        "export it again"
                    )
                taken.add(index)

    def _inline(self, data: bytes) -> None:
        """Bytes that large files keep behind the flatbuffer, brought into it."""
        for buffer in _list(self.model.buffers):
            if buffer.offset and buffer.offset > 1:
                buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
                buffer.offset = buffer.size = 0
        for subgraph in self.model.subgraphs:
            for op in _list(subgraph.operators):
                if op.largeCustomOptionsOffset and op.largeCustomOptionsOffset > 1:
                    size, offset = op.largeCustomOptionsSize, op.largeCustomOptionsOffset
                    op.customOptions = np.frombuffer(data, np.uint8, size, offset)
                    op.largeCustomOptionsOffset = op.largeCustomOptionsSize = 0

    def _tensor(self, index: int, tensor: Any) -> Tensor:
        shape = tuple(int(d) for d in _list(tensor.shape))
        dtype = DTYPES.get(tensor.type, "")
        stored = self.model.buffers[tensor.buffer].data if tensor.buffer < len(self.model.buffers) else None
        data = None
        packed, bits = PACKED.get(tensor.type, ("", 0))
        if stored is not None and len(stored) and (dtype or packed) and not tensor.sparsity and not tensor.isVariable:
            content = np.asarray(stored, np.uint8)
            data = unpacked(content, bits, shape) if packed else content.view(dtype).reshape(shape)
            dtype = dtype or packed
        quantisation = tensor.quantization
        scales = _list(quantisation.scale) if quantisation is not None else []
        zero_points = _list(quantisation.zeroPoint) if quantisation is not None else []
        return Tensor(
            index,
            (tensor.name or b"").decode("utf-8", "replace"),
            shape,
            dtype,
            np.asarray(scales, np.float32),
            np.asarray(zero_points, np.int64),
            int(quantisation.quantizedDimension) if quantisation is not None else 0,
            data,
            bool(tensor.isVariable),
        )

    def _operator(self, index: int, op: Any) -> Operator:
        code = self.model.operatorCodes[op.opcodeIndex]
        return Operator(
            index,
            self.kinds[op.opcodeIndex],
            tuple(int(i) for i in _list(op.inputs)),
            tuple(int(i) for i in _list(op.outputs)),
            op.builtinOptions,
            (code.customCode or b"").decode("utf-8", "replace"),
        )


def unpacked(content: NDArray[np.uint8], bits: int, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Signed integers of ``bits`` bits, of which several share a byte, the first in its lowest bits.

    Raises ValueError where there are too few of them.
    """
    fields = (content[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) << np.uint8(8 - bits)
    signed = fields.astype(np.uint8).view(np.int8) >> (8 - bits)
    return signed.reshape(-1)[: math.prod(shape)].reshape(shape)


def _kinds(schema: Any, model: Any) -> list[str]:
    """The name of each operator code."""
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in _list(model.operatorCodes)]
    return [names.get(code, f"BUILTIN_{code}") for code in codes]


def _list(values: Any) -> Sequence[Any]:
    """A vector of the schema, which is None where it is empty."""
    return [] if values is None else values
