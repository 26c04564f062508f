"""A ``.tflite`` file as plain data: tensors and operators of its main subgraph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.files import read_bytes
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.layers.builder import Quantisation
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.composites import inline_composites
from tilewright.jit.source.tflite.validate import validate
from tilewright.runtime.litert.options import options_of
from tilewright.runtime.litert.schema import DTYPES, PACKED, kinds, read_model, scales_and_zero_points, text, vector

_RECURRENT = ("recurrent", "svdf")  #: families of operators that change some of their inputs


@dataclass(frozen=True)
class Tensor:
    """A tensor of the main subgraph; ``dtype`` is "" where NumPy has none; ``data`` for constants.

    Constants of the types ``int4`` and ``int2`` have int8 ``data``; nothing else is of these types. ``variable``: a
    state, which nothing but the operators that read it sets. ``sparse``: a constant that is so, without ``data``.
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
    sparse: bool = False

    @property
    def held(self) -> bool:
        """Whether the file holds it: a constant."""
        return self.sparse or self.data is not None

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

    def wider_quantisation(self) -> Quantisation | None:
        """Of an activation of 16 or 32 bits, where the file gives one scale."""
        if self.dtype not in ("int16", "int32") or self.scales.size != 1 or self.zero_points.size > 1:
            return None
        return Quantisation(float(self.scales[0]), int(self.zero_points[0]) if self.zero_points.size else 0)


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
        data = read_bytes(path)
        validate(path, data, quantised=quantised)
        self.path = path
        try:
            self.model = read_model(data)
            inline_composites(self.model)
            main = self.model.subgraphs[0]
            self.kinds = kinds(self.model)
            self.inputs = [int(i) for i in vector(main.inputs)]
            self.outputs = [int(i) for i in vector(main.outputs)]
            #: what comes from outside or is computed: no state, whatever the file says
            self._given = {*self.inputs, *(int(t) for op in vector(main.operators) for t in vector(op.outputs))}
            self.tensors = [self._tensor(index, tensor) for index, tensor in enumerate(main.tensors)]
            self.operators = [self._operator(index, op) for index, op in enumerate(vector(main.operators))]
            read = {t for op in self.operators if tflite_row(op.kind).family in _RECURRENT for t in op.inputs if t >= 0}
            #: what is given to an operator that goes on with it as its state
            self.changed = {t for t in read & self._given if main.tensors[t].isVariable}
        except ModelError:
            raise
        except Exception as error:  # the flatbuffer reader raises whatever struct, NumPy and codecs do
            raise ModelError(
                f"{path}: corrupt .tflite file: {type(error).__name__} while reading it; download or export it again"
            ) from error
        self._refuse_random()
        self._refuse_overwriting()
        self._refuse_changing()

    def take_shapes(self, shapes: Mapping[int, tuple[int, ...]]) -> None:
        """Shapes of what operators compute, as the interpreter finds them."""
        made = {t for op in self.operators for t in op.outputs}
        for index in made & shapes.keys():
            self.tensors[index] = replace(self.tensors[index], shape=shapes[index])

    def _refuse_random(self) -> None:
        """Raise ModelError for operators that give other numbers each time; no two runs of such a model are equal."""
        for op in (op for subgraph in self.model.subgraphs for op in vector(subgraph.operators)):
            if tflite_row(kind := self.kinds[op.opcodeIndex]).family == "random":
                raise ModelError(f"{self.path}: {kind} gives random numbers; make them an input of the model")

    def _refuse_overwriting(self) -> None:
        """Raise ModelError where an operator writes what is an input, a constant, or written by another one."""
        taken = {*self.inputs, *(t.index for t in self.tensors if t.held)}
        for op in self.operators:
            for index in op.outputs:
                if index >= 0 and index in taken:
                    raise ModelError(
                        f"{self.path}: corrupt .tflite file: operator {op.index} ({op.kind}) writes tensor {index} "
                        f"({self.tensors[index].name}), which is an input, a constant or another operator's result; "
                        "export it again"
                    )
                taken.add(index)

    def _refuse_changing(self) -> None:
        """Raise ModelError where a recurrent operator changes, as its state, what is given and read elsewhere too."""
        read = Counter([*(t for op in self.operators for t in op.inputs), *self.outputs])
        for op in self.operators:
            for index in self.changed.intersection(op.inputs):
                if tflite_row(op.kind).family in _RECURRENT and read[index] > 1:
                    raise ModelError(
                        f"{self.path}: operator {op.index} ({op.kind}) changes tensor {index} "
                        f"({self.tensors[index].name}), its state, which is given to it and read elsewhere, too; give "
                        "it a state of its own"
                    )

    def _tensor(self, index: int, tensor: Any) -> Tensor:
        shape = tuple(int(d) for d in vector(tensor.shape))
        dtype = DTYPES.get(tensor.type, "")
        stored = self.model.buffers[tensor.buffer].data if tensor.buffer < len(self.model.buffers) else None
        data = None
        packed, bits = PACKED.get(tensor.type, ("", 0))
        held = stored is not None and len(stored) > 0 and bool(dtype or packed) and not tensor.isVariable
        sparse = held and bool(tensor.sparsity)
        if held and not sparse:
            content = np.asarray(stored, np.uint8)
            data = unpacked(content, bits, shape) if packed else content.view(dtype).reshape(shape)
            dtype = dtype or packed
        quantisation = tensor.quantization
        scales, zero_points = scales_and_zero_points(tensor)
        return Tensor(
            index,
            text(tensor.name),
            shape,
            dtype,
            np.asarray(scales, np.float32),
            np.asarray(zero_points, np.int64),
            int(quantisation.quantizedDimension) if quantisation is not None else 0,
            data,
            bool(tensor.isVariable) and index not in self._given,
            sparse,
        )

    def _operator(self, index: int, op: Any) -> Operator:
        return Operator(
            index,
            self.kinds[op.opcodeIndex],
            tuple(int(i) for i in vector(op.inputs)),
            tuple(int(i) for i in vector(op.outputs)),
            options_of(self.kinds[op.opcodeIndex], op),
            text(self.model.operatorCodes[op.opcodeIndex].customCode),
        )


def unpacked(content: NDArray[np.uint8], bits: int, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Signed integers of ``bits`` bits, of which several share a byte, the first in its lowest bits.

    Raises ValueError where there are too few of them.
    """
    fields = (content[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) << np.uint8(8 - bits)
    signed = fields.astype(np.uint8).view(np.int8) >> (8 - bits)
    return signed.reshape(-1)[: math.prod(shape)].reshape(shape)
