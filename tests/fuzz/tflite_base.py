"""What every part of :class:`TfliteNet` shares: tensors, constants and operators of the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.fuzz.tensors import (
    ACTIVATION_RANGES,
    Array,
    Builder,
    BuildError,
    Range,
    Tensor,
    choose_quantisation,
    clipped,
)

ACTIVATION_CODES = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}


class TfliteBase(Builder):
    """Tensors and operators by index. ``dtype``: int8 or uint8, that of activations.

    Every operator that computes takes ``scale`` and ``zero_point`` of its output; what is not given is chosen so that
    the values fit, times ``gain``. With ``power_of_two`` all scales chosen here are powers of two, which gives ties.
    ``weight_bits``: 8, or 4 or 2 of layers between int8 tensors, as few as LiteRT's kernel of the layer takes. With
    ``relabels`` some results of what only moves values have another scale than these, which LiteRT does not compare.
    """

    def __init__(
        self, seed: int = 0, dtype: str = "int8", power_of_two: bool = False, weight_bits: int = 8,
        relabels: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(seed, dtype, power_of_two, weight_bits)
        self.relabels = relabels
        self.tensors: list[StoredTensor] = []
        self.operators: list[StoredOperator] = []

    # -- tensors -----------------------------------------------------------------------------------

    def input(
        self,
        shape: Sequence[int],
        dtype: str | None = None,
        scale: float = 0.02,
        zero_point: int | None = None,
    ) -> Tensor:
        """An input of the network; a float one is quantised by :meth:`quantize`."""
        kind = dtype or self.dtype
        if kind == "float32":
            x = self._plain(tuple(shape), kind, Range(0.0, 1.5))
        else:
            zero, values = self._spread(kind, scale, zero_point)
            x = self._quantised(tuple(shape), kind, values, scale, zero)
        self.inputs.append(x)
        return x

    def constant(self, value: Any) -> int:
        """A constant without quantisation (axes, shapes, paddings), by index."""
        data = np.asarray(value)
        return self._store(StoredTensor(self._name(), data.shape, str(data.dtype), data=data))

    def constant_tensor(
        self, shape: Sequence[int], scale: float = 0.02, zero_point: int = 0, dtype: str | None = None
    ) -> Tensor:
        """A quantised constant of random values, for element-wise operators."""
        kind = dtype or self.dtype
        data, values = self._random_constant(shape, scale, zero_point, kind)
        index = self._store(
            StoredTensor(
                self._name(), tuple(shape), kind, np.array([scale], np.float32), np.array([zero_point]), data=data
            )
        )
        return Tensor(index, tuple(shape), kind, scale, zero_point, values.mean, values.std)

    def _name(self) -> str:
        return f"t{len(self.tensors)}"

    def _store(self, stored: StoredTensor) -> int:
        self.tensors.append(stored)
        return len(self.tensors) - 1

    def _plain(self, shape: tuple[int, ...], dtype: str, values: Range | None = None) -> Tensor:
        """A tensor without quantisation."""
        index = self._store(StoredTensor(self._name(), shape, dtype))
        found = values or Range(0.0, 1.0)
        return Tensor(index, shape, dtype, None, 0, found.mean, found.std)

    def _quantised(self, shape: tuple[int, ...], dtype: str, values: Range, scale: float, zero_point: int) -> Tensor:
        if any(d < 1 for d in shape):
            raise BuildError(f"shape {shape}: has no elements")
        scale = float(np.float32(scale))
        stored = StoredTensor(
            self._name(), shape, dtype, np.array([scale], np.float32), np.array([zero_point], np.int64)
        )
        mean, std = clipped(values, scale, zero_point, dtype)
        return Tensor(self._store(stored), shape, dtype, scale, zero_point, mean, std)

    def _output(
        self,
        shape: tuple[int, ...],
        values: Range,
        dtype: str,
        scale: float | None = None,
        zero_point: int | None = None,
        gain: float = 1.0,
    ) -> Tensor:
        """A quantised tensor whose numbers are chosen where they are not given."""
        chosen, zero = choose_quantisation(values, dtype, gain, zero_point, self.power_of_two)
        return self._quantised(shape, dtype, values, chosen if scale is None else scale, zero)

    def _like(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A tensor of another shape with the numbers of ``x``."""
        values = Range(x.mean, x.std)
        if x.scale is None:
            return self._plain(shape, x.dtype, values)
        return self._quantised(shape, x.dtype, values, x.scale, x.zero_point)

    # -- operators ---------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        inputs: Sequence[Tensor | int],
        outputs: Sequence[Tensor],
        options: str = "",
        intermediates: Sequence[int] = (),
        **fields: Any,
    ) -> None:
        """Add an operator as the file has it; -1 stands for an input left out."""
        self.operators.append(
            StoredOperator(
                name,
                [x if isinstance(x, int) else int(x.key) for x in inputs],
                [int(y.key) for y in outputs],
                options,
                fields,
                list(intermediates),
            )
        )

    def save(self, path: str | Path, outputs: Sequence[Tensor]) -> Path:
        """Write the network; ``outputs`` are its outputs, in this order."""
        inputs = [int(x.key) for x in self.inputs]
        return write_tflite(Path(path), self.tensors, self.operators, inputs, [int(y.key) for y in outputs])

    @staticmethod
    def _fused(activation: str) -> tuple[int, tuple[float, float]]:
        """Code and range of a fused activation."""
        return ACTIVATION_CODES[activation], ACTIVATION_RANGES[activation]

    @staticmethod
    def _need_quantised(name: str, *tensors: Tensor) -> None:
        for x in tensors:
            if x.scale is None:
                raise BuildError(f"{name}: {x.dtype} tensor of shape {x.shape} is not quantised")

    def _bias(self, values: Array, scales: Array) -> int:
        return self._store(StoredTensor(self._name(), values.shape, "int32", scales, np.zeros(1), 0, values))
