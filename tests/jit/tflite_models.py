"""Small int8 TFLite models for tests, written as flatbuffers, and LiteRT's reference kernels as their oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from tilewright.fuzz.flatbuffer import NARROW, packed
from tilewright.runtime import interpreters
from tilewright.runtime.litert.beyond import has_beyond

SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
_FIRST_VERSION = (
    "DEPTH_TO_SPACE", "ELU", "PRELU", "RESHAPE", "SHAPE", "HARD_SWISH", "EXPAND_DIMS", "RELU_N1_TO_1", "RELU_0_TO_1",
    "NEG", "SQUEEZE",
)  # fmt: skip
_CODES = {"int8": 9, "int32": 2, "uint8": 3, "float32": 0, "int16": 7, "int64": 4, "int4": 17, "int2": 19}


@dataclass
class TfliteBuilder:
    """Tensors and operators by index; activations carry (scale, zero point)."""

    seed: int = 0
    tensors: list[dict[str, Any]] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def tensor(
        self,
        shape: list[int],
        scale: Any = None,
        zero_point: int = 0,
        dtype: str = "int8",
        data: NDArray[Any] | None = None,
        axis: int = 0,
        signature: list[int] | None = None,
    ) -> int:
        self.tensors.append(locals() | {"name": f"t{len(self.tensors)}"})
        return len(self.tensors) - 1

    def op(self, name: str, inputs: list[int], output: int, options: str = "", **fields: float) -> int:
        self.operators.append({"name": name, "inputs": inputs, "output": output, "options": options, "fields": fields})
        return output

    def ops(self, name: str, inputs: list[int], outputs: list[int], options: str = "", **fields: float) -> list[int]:
        """An operator of several results."""
        self.op(name, inputs, outputs[0], options, **fields)
        self.operators[-1]["outputs"] = outputs
        return outputs

    def custom(self, name: str, inputs: list[int], outputs: list[int], **options: Any) -> list[int]:
        """A custom operator, with its options as a flexbuffer."""
        made = self.ops(name, inputs, outputs)
        self.operators[-1]["custom"] = flexbuffers.Dumps(options)
        return made

    def constant(self, value: Any) -> int:
        value = np.asarray(value)
        return self.tensor(list(value.shape), dtype=str(value.dtype), data=value)

    def weights(
        self, shape: list[int], axis: int | None, scale: float = 0.01, dtype: str = "int8"
    ) -> tuple[int, NDArray[np.float32]]:
        """Over the whole range, but for the -128 of int8."""
        half = 1 << NARROW.get(dtype, 8) - 1
        values = self.rng.integers(-half + (dtype == "int8"), half, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scales = (scale * self.rng.uniform(0.3, 1.7, count)).astype(np.float32)
        return self.tensor(shape, scales, dtype=dtype, data=values, axis=axis or 0), scales

    def bias(self, x: int, scales: NDArray[np.float32], channels: int) -> int:
        values = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        return self.tensor([channels], np.float32(self.tensors[x]["scale"]) * scales, dtype="int32", data=values)

    def save(self, path: Path, inputs: list[int], outputs: list[int]) -> Path:
        b = flatbuffers.Builder(1024)
        buffers = [self._buffer(b, None)]
        tensors = []
        for entry in self.tensors:
            index = 0
            if entry["data"] is not None:
                narrow = NARROW.get(entry["dtype"])
                buffers.append(self._buffer(b, packed(entry["data"], narrow) if narrow else entry["data"]))
                index = len(buffers) - 1
            tensors.append(self._tensor(b, entry, index))
        names = sorted({entry["name"] for entry in self.operators})
        operators = [self._operator(b, entry, names) for entry in self.operators]
        codes = []
        for name in names:
            code = getattr(tflite.BuiltinOperator, name, tflite.BuiltinOperator.CUSTOM)
            custom = b.CreateString(name) if code == tflite.BuiltinOperator.CUSTOM else None
            tflite.OperatorCodeStart(b)
            if custom is not None:
                tflite.OperatorCodeAddCustomCode(b, custom)
            tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
            tflite.OperatorCodeAddBuiltinCode(b, code)
            tflite.OperatorCodeAddVersion(
                b,
                {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3}.get(
                    name, 1 if name in _FIRST_VERSION or custom is not None else 2
                ),
            )
            codes.append(tflite.OperatorCodeEnd(b))
        parts = [self._offsets(b, items) for items in (tensors, operators)]
        ends = [b.CreateNumpyVector(np.asarray(items, np.int32)) for items in (inputs, outputs)]
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, parts[0])
        tflite.SubGraphAddInputs(b, ends[0])
        tflite.SubGraphAddOutputs(b, ends[1])
        tflite.SubGraphAddOperators(b, parts[1])
        subgraph = tflite.SubGraphEnd(b)
        vectors = [self._offsets(b, items) for items in (codes, [subgraph], buffers)]
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, vectors[0])
        tflite.ModelAddSubgraphs(b, vectors[1])
        tflite.ModelAddBuffers(b, vectors[2])
        b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
        path.write_bytes(bytes(b.Output()))
        return path

    @staticmethod
    def _offsets(b: Any, items: list[int]) -> int:
        b.StartVector(4, len(items), 4)
        for item in reversed(items):
            b.PrependUOffsetTRelative(item)
        return b.EndVector()

    @staticmethod
    def _buffer(b: Any, data: NDArray[Any] | None) -> int:
        stored = None if data is None else b.CreateByteVector(np.ascontiguousarray(data).tobytes())
        tflite.BufferStart(b)
        if stored is not None:
            tflite.BufferAddData(b, stored)
        return tflite.BufferEnd(b)

    @staticmethod
    def _tensor(b: Any, entry: dict[str, Any], buffer: int) -> int:
        name = b.CreateString(entry["name"])
        shape = b.CreateNumpyVector(np.asarray(entry["shape"], np.int32))
        signature = entry["signature"] and b.CreateNumpyVector(np.asarray(entry["signature"], np.int32))
        quantisation = None
        if entry["scale"] is not None:
            scales = np.atleast_1d(np.asarray(entry["scale"], np.float32))
            scale = b.CreateNumpyVector(scales)
            zero = b.CreateNumpyVector(np.full(scales.size, entry["zero_point"], np.int64))
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, scale)
            tflite.QuantizationParametersAddZeroPoint(b, zero)
            tflite.QuantizationParametersAddQuantizedDimension(b, entry["axis"])
            quantisation = tflite.QuantizationParametersEnd(b)
        tflite.TensorStart(b)
        tflite.TensorAddName(b, name)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, _CODES[entry["dtype"]])
        tflite.TensorAddBuffer(b, buffer)
        if signature:
            tflite.TensorAddShapeSignature(b, signature)
        if quantisation is not None:
            tflite.TensorAddQuantization(b, quantisation)
        return tflite.TensorEnd(b)

    @staticmethod
    def _operator(b: Any, entry: dict[str, Any], names: list[str]) -> int:
        inputs = b.CreateNumpyVector(np.asarray(entry["inputs"], np.int32))
        outputs = b.CreateNumpyVector(np.asarray(entry.get("outputs", [entry["output"]]), np.int32))
        options, custom = entry["options"], entry.get("custom")
        held = custom and b.CreateByteVector(bytes(custom))
        if options:
            getattr(tflite, f"{options}Start")(b)
            for name, value in entry["fields"].items():
                getattr(tflite, f"{options}Add{name}")(b, value)
            stored = getattr(tflite, f"{options}End")(b)
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, names.index(entry["name"]))
        tflite.OperatorAddInputs(b, inputs)
        tflite.OperatorAddOutputs(b, outputs)
        if options:
            tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options))
            tflite.OperatorAddBuiltinOptions(b, stored)
        if custom:
            tflite.OperatorAddCustomOptions(b, held)
        return tflite.OperatorEnd(b)


def litert(path: Path, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of LiteRT's reference kernels."""
    content = path.read_bytes()
    if has_beyond(content):
        return interpreters.load("litert", content, str(path))(inputs)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
