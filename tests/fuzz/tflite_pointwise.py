"""Operators of :class:`TfliteNet` on single values: arithmetic, activations, conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.tensors import BuildError, Range, Tensor, broadcast, product_of, sum_of
from tests.fuzz.tflite_base import TfliteBase


def _unary(name: str, values: Callable[[Tensor], Range], options: str = "", **fields: Any) -> Callable[..., Tensor]:
    """A method for an operator of one operand: ``(x, **out)``, where ``out`` may have other ``fields`` too."""

    def method(self: TfliteBase, x: Tensor, **out: Any) -> Tensor:
        given = {field: out.pop(field, value) for field, value in fields.items()}
        found = values(x)
        y = self._plain(x.shape, x.dtype, found) if x.scale is None else self._output(x.shape, found, x.dtype, **out)
        self.op(name, [x], [y], options, **given)
        return y

    method.__doc__ = f"{name}."
    return method


def _fixed(
    name: str, scale: float, low: float, high: float, zero: int, options: str = "", **fields: Any
) -> Callable[..., Tensor]:
    """A method for an operator whose output has given numbers; ``zero`` is its zero point as uint8."""
    values = Range((low + high) / 2, (high - low) / 4, low, high)

    def method(self: TfliteBase, x: Tensor) -> Tensor:
        if name.endswith("SOFTMAX") and x.scale is not None and (x.shape[-1] > 2000 or x.scale < 1e-6):
            raise BuildError(f"{name}: LiteRT's kernel ends the process on {x.shape[-1]} values of scale {x.scale}")
        if x.scale is None:
            y = self._plain(x.shape, x.dtype, values)
        else:
            y = self._quantised(x.shape, x.dtype, values, scale, zero - (128 if x.dtype == "int8" else 0))
        self.op(name, [x], [y], options, **fields)
        return y

    method.__doc__ = f"{name}, over the last axis where it takes more than one value."
    return method


def _choose(name: str) -> Callable[..., Tensor]:
    def method(self: TfliteBase, a: Tensor, b: Tensor) -> Tensor:
        if a.dtype != b.dtype:
            raise BuildError(f"{name}: {a.dtype} with {b.dtype}")
        y = self._like(a, broadcast(name, a.shape, b.shape))
        self.op(name, [a, b], [y], "MaximumMinimumOptions")
        return y

    method.__doc__ = f"{name}; the result has the numbers of the first operand."
    return method


class Pointwise(TfliteBase):
    """Element-wise operators with one or two operands, softmax and conversions between types."""

    def add(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """ADD; shapes broadcast."""
        return self._binary("ADD", a, b, sum_of(a, b), activation, **out)

    def sub(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """SUB; shapes broadcast."""
        return self._binary("SUB", a, b, sum_of(a, b, -1), activation, **out)

    def mul(self, a: Tensor, b: Tensor, activation: str = "none", **out: Any) -> Tensor:
        """MUL; shapes broadcast."""
        return self._binary("MUL", a, b, product_of(a, b), activation, **out)

    maximum, minimum = _choose("MAXIMUM"), _choose("MINIMUM")
    relu = _unary("RELU", lambda x: Range(x.mean, x.std, 0.0))
    relu6 = _unary("RELU6", lambda x: Range(x.mean, x.std, 0.0, 6.0))
    relu_n1_to_1 = _unary("RELU_N1_TO_1", lambda x: Range(x.mean, x.std, -1.0, 1.0))
    leaky_relu = _unary("LEAKY_RELU", lambda x: Range(x.mean, x.std), "LeakyReluOptions", alpha=0.1)
    hard_swish = _unary("HARD_SWISH", lambda x: Range(x.mean / 2, x.std, -0.375), "HardSwishOptions")
    exp = _unary("EXP", lambda x: Range(1.0, 1.0, 0.0), "ExpOptions")
    abs = _unary("ABS", lambda x: Range(x.std, x.std, 0.0), "AbsOptions")
    #: the reference kernel takes floats alone
    neg = _unary("NEG", lambda x: Range(-x.mean, x.std), "NegOptions")
    #: needs values above zero, so the input's zero point at the low end
    rsqrt = _unary("RSQRT", lambda x: Range(1.0 / max(x.rms, 0.1) ** 0.5, 1.0, 0.0))
    logistic = _fixed("LOGISTIC", 1 / 256, 0.0, 1.0, 0)
    tanh = _fixed("TANH", 1 / 128, -1.0, 1.0, 128)
    softmax = _fixed("SOFTMAX", 1 / 256, 0.0, 1.0, 0, "SoftmaxOptions", beta=1.0)
    log_softmax = _fixed("LOG_SOFTMAX", 16 / 256, -16.0, 0.0, 255, "LogSoftmaxOptions")
    l2_normalization = _fixed("L2_NORMALIZATION", 1 / 128, -1.0, 1.0, 128, "L2NormOptions")

    def prelu(self, x: Tensor, **out: Any) -> Tensor:
        """PRELU with one slope per channel."""
        self._need_quantised("PRELU", x)
        shape = (*(1 for _ in x.shape[1:-1]), x.shape[-1])
        alpha = self.constant_tensor(shape, 0.004, 0 if x.dtype == "int8" else 128, x.dtype)
        y = self._output(x.shape, Range(x.mean, x.std), x.dtype, **out)
        self.op("PRELU", [x, alpha], [y])
        return y

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
        y = self._plain(shape, a.dtype, found) if a.scale is None else self._output(shape, found, a.dtype, **out)
        options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[name]
        self.op(name, [a, b], [y], options, fusedActivationFunction=code)
        return y
