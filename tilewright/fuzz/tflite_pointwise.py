"""Operators of :class:`TfliteNet` on single values: arithmetic, activations, conversions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.fuzz.flatbuffer import StoredTensor
from tilewright.fuzz.tensors import BuildError, Range, Tensor, broadcast
from tilewright.fuzz.tflite_base import TfliteBase


class Pointwise(TfliteBase):
    """Element-wise operators with one or two operands, softmax and conversions between types."""

    def add(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """ADD; shapes broadcast."""
        return self._binary("ADD", a, b, Range(a.mean + b.mean, math.hypot(a.std, b.std)), activation, **out)

    def sub(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """SUB; shapes broadcast."""
        return self._binary("SUB", a, b, Range(a.mean - b.mean, math.hypot(a.std, b.std)), activation, **out)

    def mul(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """MUL; shapes broadcast."""
        mean = a.mean * b.mean
        values = Range(mean, math.sqrt(max(a.rms**2 * b.rms**2 - mean**2, 1e-12)))
        return self._binary("MUL", a, b, values, activation, **out)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """MAXIMUM; the result has the numbers of the first operand."""
        return self._choose("MAXIMUM", a, b)

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        """MINIMUM; the result has the numbers of the first operand."""
        return self._choose("MINIMUM", a, b)

    def relu(self, x: Tensor, **out: Any) -> Tensor:
        """RELU."""
        return self._unary("RELU", x, Range(x.mean, x.std, 0.0), **out)

    def relu6(self, x: Tensor, **out: Any) -> Tensor:
        """RELU6."""
        return self._unary("RELU6", x, Range(x.mean, x.std, 0.0, 6.0), **out)

    def relu_n1_to_1(self, x: Tensor, **out: Any) -> Tensor:
        """RELU_N1_TO_1."""
        return self._unary("RELU_N1_TO_1", x, Range(x.mean, x.std, -1.0, 1.0), **out)

    def leaky_relu(self, x: Tensor, alpha: float = 0.1, **out: Any) -> Tensor:
        """LEAKY_RELU."""
        return self._unary("LEAKY_RELU", x, Range(x.mean, x.std), "LeakyReluOptions", {"alpha": alpha}, **out)

    def prelu(self, x: Tensor, **out: Any) -> Tensor:
        """PRELU with one slope per channel."""
        self._need_quantised("PRELU", x)
        shape = (*(1 for _ in x.shape[1:-1]), x.shape[-1])
        alpha = self.constant_tensor(shape, 0.004, 0 if x.dtype == "int8" else 128, x.dtype)
        y = self._output(x.shape, Range(x.mean, x.std), x.dtype, **out)
        self.op("PRELU", [x, alpha], [y])
        return y

    def hard_swish(self, x: Tensor, **out: Any) -> Tensor:
        """HARD_SWISH."""
        return self._unary("HARD_SWISH", x, Range(x.mean / 2, x.std, -0.375), "HardSwishOptions", **out)

    def exp(self, x: Tensor, **out: Any) -> Tensor:
        """EXP."""
        return self._unary("EXP", x, Range(1.0, 1.0, 0.0), "ExpOptions", **out)

    def abs(self, x: Tensor, **out: Any) -> Tensor:
        """ABS."""
        return self._unary("ABS", x, Range(x.std, x.std, 0.0), "AbsOptions", **out)

    def neg(self, x: Tensor) -> Tensor:
        """NEG (float only in the reference kernels)."""
        return self._unary("NEG", x, Range(-x.mean, x.std), "NegOptions")

    def rsqrt(self, x: Tensor, **out: Any) -> Tensor:
        """RSQRT; needs values above zero, so the input's zero point at the low end."""
        return self._unary("RSQRT", x, Range(1.0 / max(x.rms, 0.1) ** 0.5, 1.0, 0.0), **out)

    def logistic(self, x: Tensor) -> Tensor:
        """LOGISTIC; the output has the numbers that the kernels demand."""
        return self._fixed("LOGISTIC", x, 1 / 256, 0.0, 1.0, 0)

    def tanh(self, x: Tensor) -> Tensor:
        """TANH; the output has the numbers that the kernels demand."""
        return self._fixed("TANH", x, 1 / 128, -1.0, 1.0, 128)

    def softmax(self, x: Tensor, beta: float = 1.0) -> Tensor:
        """SOFTMAX over the last axis."""
        return self._fixed("SOFTMAX", x, 1 / 256, 0.0, 1.0, 0, "SoftmaxOptions", beta=beta)

    def log_softmax(self, x: Tensor) -> Tensor:
        """LOG_SOFTMAX over the last axis."""
        return self._fixed("LOG_SOFTMAX", x, 16 / 256, -16.0, 0.0, 255, "LogSoftmaxOptions")

    def l2_normalization(self, x: Tensor) -> Tensor:
        """L2_NORMALIZATION over the last axis."""
        return self._fixed("L2_NORMALIZATION", x, 1 / 128, -1.0, 1.0, 128, "L2NormOptions")

    def quantize(self, x: Tensor, dtype: str | None = None, **out: Any) -> Tensor:
        """QUANTIZE: from float, or between integer types and scales."""
        y = self._output(x.shape, Range(x.mean, x.std), dtype or self.dtype, **out)
        self.op("QUANTIZE", [x], [y], "QuantizeOptions")
        return y

    def requantize(self, x: Tensor, dtype: str | None = None, **out: Any) -> Tensor:
        """QUANTIZE of a quantised tensor."""
        self._need_quantised("QUANTIZE", x)
        return self.quantize(x, dtype, **out)

    def reinterpret(self, x: Tensor, dtype: str) -> Tensor:
        """QUANTIZE between int8 and uint8 that keeps the real values."""
        shift = {"int8": 0, "uint8": 128}
        zero = x.zero_point + shift[dtype] - shift[x.dtype]
        return self.quantize(x, dtype, scale=x.scale, zero_point=zero)

    def dequantize(self, x: Tensor) -> Tensor:
        """DEQUANTIZE to float."""
        self._need_quantised("DEQUANTIZE", x)
        y = self._plain(x.shape, "float32", Range(x.mean, x.std))
        self.op("DEQUANTIZE", [x], [y], "DequantizeOptions")
        return y

    def cast(self, x: Tensor, dtype: str = "int32") -> Tensor:
        """CAST of the stored values."""
        y = self._plain(x.shape, dtype)
        codes = {"int32": 2, "float32": 0, "int8": 9, "uint8": 3, "int64": 4}
        self.op("CAST", [x], [y], "CastOptions", inDataType=codes[x.dtype], outDataType=codes[dtype])
        return y

    # -- shared ------------------------------------------------------------------------------------

    def _binary(self, name: str, a: Tensor, b: Tensor, values: Range, activation: str, **out: Any) -> Tensor:
        code, (low, high) = self._fused(activation)
        shape = broadcast(name, a.shape, b.shape)
        found = Range(values.mean, values.std, low, high)
        if a.dtype != b.dtype:
            raise BuildError(f"{name}: {a.dtype} with {b.dtype}")
        if a.scale is None:
            y = self._plain(shape, a.dtype, found)
        else:
            y = self._output(shape, found, a.dtype, **out)
        options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[name]
        self.op(name, [a, b], [y], options, fusedActivationFunction=code)
        return y

    def _choose(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        if a.dtype != b.dtype:
            raise BuildError(f"{name}: {a.dtype} with {b.dtype}")
        y = self._like(a, broadcast(name, a.shape, b.shape))
        self.op(name, [a, b], [y], "MaximumMinimumOptions")
        return y

    def _unary(
        self, name: str, x: Tensor, values: Range, options: str = "", fields: dict[str, Any] | None = None, **out: Any
    ) -> Tensor:
        if x.scale is None:
            y = self._plain(x.shape, x.dtype, values)
        else:
            y = self._output(x.shape, values, x.dtype, **out)
        self.op(name, [x], [y], options, **(fields or {}))
        return y

    def _fixed(
        self, name: str, x: Tensor, scale: float, low: float, high: float, zero: int, options: str = "", **fields: Any
    ) -> Tensor:
        """An operator whose output has given numbers; ``zero`` is its zero point as uint8."""
        if name.endswith("SOFTMAX") and x.scale is not None and (x.shape[-1] > 2000 or x.scale < 1e-6):
            raise BuildError(f"{name}: LiteRT's kernel ends the process on {x.shape[-1]} values of scale {x.scale}")
        values = Range((low + high) / 2, (high - low) / 4, low, high)
        if x.scale is None:
            y = self._plain(x.shape, x.dtype, values)
        else:
            y = self._quantised(x.shape, x.dtype, values, scale, zero - (128 if x.dtype == "int8" else 0))
        self.op(name, [x], [y], options, **fields)
        return y

    def lstm(
        self, x: Tensor, units: int, hidden_scale: float = 1 / 128, hidden_zero_point: int = 0, cell_clip: float = 0.0,
        cell_bits: int = 11, time_major: bool = False,
    ) -> Tensor:  # fmt: skip
        """UNIDIRECTIONAL_SEQUENCE_LSTM on (batch, time, features), int8 with a 16-bit cell state of ``cell_bits`` of
        fraction; with ``time_major`` on (time, batch, features)."""
        self._rank("UNIDIRECTIONAL_SEQUENCE_LSTM", x, 3)
        if x.dtype != "int8" or x.scale is None:
            raise BuildError(f"UNIDIRECTIONAL_SEQUENCE_LSTM: takes int8, not {x.dtype}")
        features, batch = x.shape[2], x.shape[1 if time_major else 0]
        kinds = [(features, x.rms)] * 4 + [(units, 0.5)] * 4
        weights = [self._lstm_weight(units, depth, rms) for depth, rms in kinds]
        biases = [
            self._bias(
                np.rint(self.rng.normal(0, 0.5, units) / (x.scale * scale)).astype(np.int32),
                np.array([x.scale * scale], np.float32),
            )
            for _, scale in weights[:4]
        ]
        numbers = np.array([hidden_scale]), np.array([hidden_zero_point])
        state = self._store(StoredTensor(self._name(), (batch, units), "int8", *numbers, variable=True))
        cell = self._store(
            StoredTensor(self._name(), (batch, units), "int16", np.array([2.0**-cell_bits]), np.zeros(1), variable=True)
        )
        gates = [
            self._store(StoredTensor(self._name(), (), "int16", np.array([2.0**-12]), np.zeros(1))) for _ in range(4)
        ]
        hidden = self._store(StoredTensor(self._name(), (), "int8", *numbers))
        values = Range(0.0, 0.4, -1.0, 1.0)
        y = self._quantised((*x.shape[:2], units), "int8", values, hidden_scale, hidden_zero_point)
        inside = [*(w for w, _ in weights), -1, -1, -1, *biases, -1, -1, state, cell, -1, -1, -1, -1]
        self.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *inside], [y], "UnidirectionalSequenceLSTMOptions",
            intermediates=[*gates, hidden], fusedActivationFunction=4, cellClip=cell_clip, projClip=0.0,
            timeMajor=time_major,
        )  # fmt: skip
        self.macs += x.shape[0] * x.shape[1] * 4 * units * (features + units)
        return y

    def _lstm_weight(self, units: int, depth: int, rms: float) -> tuple[int, float]:
        data = np.clip(np.rint(self.rng.normal(0, 40, (units, depth))), -127, 127).astype(np.int8)
        scale = float(np.float32(1.0 / (40 * math.sqrt(depth) * max(rms, 0.05))))
        stored = StoredTensor(f"w{len(self.tensors)}", (units, depth), "int8", np.array([scale]), np.zeros(1), 0, data)
        return self._store(stored), scale
