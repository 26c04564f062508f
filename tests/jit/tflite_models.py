"""Small int8 TFLite models for tests, written as flatbuffers, and LiteRT's reference kernels as their oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tests.fuzz.flatbuffer import NARROW, StoredOperator, StoredTensor, write_tflite
from tilewright.runtime import interpreters
from tilewright.runtime.litert.beyond import has_beyond

SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3


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
        tensors = [
            StoredTensor(
                e["name"], tuple(e["shape"]), e["dtype"], e["scale"], np.array([e["zero_point"]]), e["axis"], e["data"],
                signature=e["signature"],
            )
            for e in self.tensors
        ]  # fmt: skip
        operators = [
            StoredOperator(
                e["name"], e["inputs"], e.get("outputs", [e["output"]]), e["options"],
                {name[0].lower() + name[1:]: value for name, value in e["fields"].items()}, custom=e.get("custom"),
            )
            for e in self.operators
        ]  # fmt: skip
        return write_tflite(path, tensors, operators, inputs, outputs)


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
