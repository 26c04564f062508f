"""A ``.tflite`` model as the check sees it: operators with their operands, in every subgraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.litert.options import options_of
from tilewright.runtime.litert.schema import (
    DTYPES,
    blocks_of,
    kinds,
    read_model,
    scales_and_zero_points,
    schema,
    text,
    vector,
)

Shape = tuple[int, ...]
#: by subgraph and tensor, as LiteRT has prepared them
Shapes = Mapping[int, Mapping[int, Shape]]


RECURRENT = ("LSTM", "RNN", "SVDF")  #: what the names of operators end with that change some of their inputs


class Malformed(ValueError):
    """The bytes are no model, or one that contradicts itself."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor that an operator reads or makes.

    ``shape`` is None where only LiteRT's own preparation tells it, ``value`` None where the file does not hold it.
    ``scales`` lie along ``axis``; ``blocks`` is the schema's object of scales for blocks, or None. ``stored``: bytes
    of the constant, which are ``strings`` if it has some. ``variable``: the file calls it a state.
    """

    index: int
    name: str
    type: str
    shape: Shape | None
    value: NDArray[Any] | None
    scales: NDArray[np.float32]
    axis: int
    sparsity: Any
    blocks: Any
    stored: int
    strings: bytes
    variable: bool = False

    @property
    def scale(self) -> float:
        """What LiteRT takes for the scale: 0 without one."""
        return float(self.scales[0]) if self.scales.size == 1 else 0.0


@dataclass(frozen=True)
class Operator:
    """``inputs`` and ``outputs`` are None where they are left out; ``options`` the schema's object, or None."""

    index: int
    kind: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand | None, ...]
    intermediates: tuple[int, ...]
    options: Any
    custom: bytes

    def option(self, name: str) -> Any:
        """A field of the options: 0 where there are none, as LiteRT has it."""
        return getattr(self.options, name, 0) or 0

    def dims(self, name: str) -> list[int]:
        """A list among the options."""
        found = getattr(self.options, name, None)
        return [] if found is None else [int(d) for d in found]

    def shape(self, position: int) -> Shape | None:
        """An input's."""
        found = self.inputs[position] if position < len(self.inputs) else None
        return None if found is None else found.shape

    def value(self, position: int) -> NDArray[Any] | None:
        """An input's."""
        found = self.inputs[position] if position < len(self.inputs) else None
        return None if found is None else found.value

    def type(self, position: int) -> str:
        """An input's; empty where it is left out."""
        found = self.inputs[position] if position < len(self.inputs) else None
        return "" if found is None else found.type


@dataclass(frozen=True)
class Watched(Operator):
    """An operator that remembers which numbers were asked of it that are only computed while the model runs."""

    unseen: list[str] = field(default_factory=list)

    def value(self, position: int) -> NDArray[Any] | None:
        found = super().value(position)
        if found is None and position < len(self.inputs) and self.inputs[position] is not None:
            self.unseen.append(f"input {position} is computed")
        return found


@dataclass(frozen=True)
class Subgraph:
    """``inputs`` and ``outputs`` are indices of tensors."""

    operators: tuple[Operator, ...]
    operands: tuple[Operand, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def makers(self) -> dict[int, int]:
        """Tensors that operators make -> the operator."""
        return {t.index: op.index for op in self.operators for t in op.outputs if t is not None}

    @cached_property
    def states(self) -> set[int]:
        """Tensors that a recurrent operator reads, and may change."""
        return {t.index for op in self.operators if op.kind.endswith(RECURRENT) for t in op.inputs if t is not None}


def read(content: bytes, prepared: Shapes | None = None) -> tuple[Subgraph, ...]:
    """The subgraphs, with the shapes that LiteRT has ``prepared`` or else those that no operator makes.

    Raises Malformed.
    """
    types = {value: name.lower() for name, value in vars(schema().TensorType).items() if isinstance(value, int)}
    try:
        model = read_model(content)
        named = [
            text(code.customCode) if kind == "CUSTOM" else kind
            for kind, code in zip(kinds(model), vector(model.operatorCodes))
        ]
        return tuple(
            _subgraph(model, subgraph, named, types, None if prepared is None else prepared.get(k, {}))
            for k, subgraph in enumerate(vector(model.subgraphs))
        )
    except Exception as error:  # the flatbuffer reader raises whatever struct, NumPy and codecs do
        raise Malformed(f"no sound .tflite model: {type(error).__name__} while reading it") from error


def _subgraph(
    model: Any, subgraph: Any, named: Sequence[str], types: Mapping[int, str], prepared: Mapping[int, Shape] | None
) -> Subgraph:
    made = {int(t) for op in vector(subgraph.operators) for t in vector(op.outputs)}
    operands = tuple(
        _operand(model, t, index, types, prepared, index in made) for index, t in enumerate(vector(subgraph.tensors))
    )
    if any(not -1 <= int(t) < len(operands) for op in vector(subgraph.operators) for t in _tensors(op)):
        raise IndexError
    operators = tuple(
        Operator(
            index, named[op.opcodeIndex], _chosen(operands, op.inputs), _chosen(operands, op.outputs),
            tuple(int(t) for t in vector(op.intermediates)),
            options_of(named[op.opcodeIndex], op),
            bytes(np.asarray(vector(op.customOptions), np.uint8)),
        )
        for index, op in enumerate(vector(subgraph.operators))
    )  # fmt: skip
    ends = [tuple(int(t) for t in vector(part)) for part in (subgraph.inputs, subgraph.outputs)]
    return Subgraph(operators, operands, *ends)


def _operand(
    model: Any, tensor: Any, index: int, types: Mapping[int, str], prepared: Mapping[int, Shape] | None, made: bool
) -> Operand:
    shape: Shape | None = tuple(int(d) for d in vector(tensor.shape))
    stored = vector(model.buffers[tensor.buffer].data)
    kind, value = types.get(tensor.type, f"type {tensor.type}"), None
    if len(stored) and tensor.type in DTYPES and tensor.sparsity is None and not tensor.isVariable:
        value = np.asarray(stored, np.uint8).view(DTYPES[tensor.type]).reshape(shape)
    elif made:
        shape = None if prepared is None else prepared.get(index)
    elif prepared is not None:
        shape = prepared.get(index, shape)
    quantisation = tensor.quantization
    scales = np.asarray(scales_and_zero_points(tensor)[0], np.float32)
    axis = int(quantisation.quantizedDimension) if quantisation is not None else 0
    blocks = blocks_of(tensor)
    strings = bytes(np.asarray(stored, np.uint8)) if kind == "string" else b""
    return Operand(
        index, text(tensor.name), kind, shape, value, scales, axis, tensor.sparsity, blocks, len(stored), strings,
        bool(tensor.isVariable),
    )  # fmt: skip


def _chosen(operands: Sequence[Operand], indices: Any) -> tuple[Operand | None, ...]:
    return tuple(operands[int(t)] if int(t) >= 0 else None for t in vector(indices))


def _tensors(op: Any) -> list[int]:
    return [*vector(op.inputs), *vector(op.outputs), *vector(op.intermediates)]
