"""Where a rule works: one operator of a ``.tflite`` file on one side, the graph being built on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Layer, Operand, Output, Quantisation, nhwc, stacked
from tilewright.jit.numbers.scales import FARTHEST_ZERO, NotRepresentable, quantize_value
from tilewright.jit.source.tflite.file import File, Operator, Tensor
from tilewright.jit.source.values import Rearranged, Values, View

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
_RANGES = {NONE: (None, None), RELU: (0.0, None), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}


@dataclass(kw_only=True)
class Site(Layer):
    """One operator; ``folded`` holds the values of tensors that depend on constants alone.

    ``image``: the one of several that its activation holds for which it is lowered.
    """

    file: File
    op: Operator
    values: Values
    folded: dict[int, NDArray[np.generic]]
    image: Operand | None = None

    def tensor(self, position: int) -> Tensor:
        """Input tensor ``position``; raises Unsupported where it is left out."""
        if position >= len(self.op.inputs) or self.op.inputs[position] < 0:
            raise Unsupported(f"no operand {position}")
        return self.file.tensors[self.op.inputs[position]]

    def has(self, position: int) -> bool:
        """Whether input ``position`` is given."""
        return position < len(self.op.inputs) and self.op.inputs[position] >= 0

    def is_constant(self, position: int) -> bool:
        """Whether input ``position`` is known beforehand."""
        tensor = self.tensor(position)
        return tensor.held or tensor.index in self.folded

    def operand(self, position: int) -> Operand:
        """An activation, NHWC int8."""
        tensor = self.tensor(position)
        if self.is_constant(position):
            raise Unsupported("a constant where an activation is expected")
        return self.image or self.values.chip(tensor.index)

    def pixels(self, position: int) -> Operand:
        """An activation of any shape, for what works on each pixel by itself: rows of the last two axes."""
        if self.is_constant(position):
            raise Unsupported("a constant where an activation is expected")
        return self.values.stack(self.tensor(position).index)

    def either(self, position: int) -> Operand:
        """An activation as :meth:`pixels`, or a constant image that stands for one."""
        tensor = self.tensor(position)
        if not self.is_constant(position):
            return self.pixels(position)
        values = self.constant(position).astype(np.int16) - (128 if tensor.dtype == "uint8" else 0)
        image = values.astype(np.int8).reshape(stacked(values.shape))
        return self.values.fixed(tensor.name, image, tensor.quantisation())

    def require_known(self, *positions: int) -> None:
        """Raise Unsupported unless these inputs, of which a result has its shape, are known beforehand or left out."""
        for position in positions:
            if self.has(position) and not self.is_constant(position):
                raise Unsupported(f"a shape that operand {position} gives when it runs")

    def constant(self, position: int) -> NDArray[np.generic]:
        """The value of a constant input."""
        tensor = self.tensor(position)
        value = self.folded.get(tensor.index, tensor.data)
        if value is None:
            raise Unsupported(f"operand {position} is {'sparse' if tensor.held else 'not constant'}")
        return value

    def in_order(self, tensor: str) -> str | View | Rearranged:
        """The only output, whose elements are those of an NHWC ``tensor`` in their order."""
        key, shape = self.result.index, self.builder.tensors[tensor].shape
        if shape == self.values.held_shape(key):
            return tensor
        self.values.gather(key, tensor, np.arange(math.prod(shape)).reshape(self.result.shape))
        return self.values.taken(key)

    def keeps_alone(self, *positions: int) -> bool:
        """Whether these inputs are states that begin at zero, and that nothing else sets or reads, nor this operator
        twice."""
        states = [self.tensor(p) for p in positions]
        others = {t for op in self.file.operators if op is not self.op for t in (*op.inputs, *op.outputs)}
        return all(
            s.variable and self.op.inputs.count(s.index) == 1 and s.index not in {*others, *self.file.outputs}
            for s in states
        )

    @property
    def result(self) -> Tensor:
        """The only output."""
        if len(self.op.outputs) != 1:
            raise Unsupported(f"{len(self.op.outputs)} results")
        return self.file.tensors[self.op.outputs[0]]

    def image_shape(self) -> tuple[int, int, int, int]:
        """NHWC, of the only output or the one of its images that is made."""
        shape = self.result.shape
        return nhwc(shape if self.image is None else (1, *shape[1:]))

    def option(self, name: str) -> int:
        """A field of the operator's options; Unsupported where it has none."""
        if self.op.options is None or not hasattr(self.op.options, name):
            raise Unsupported(f"no option {name}")
        return int(getattr(self.op.options, name))

    def same_kind(self, *positions: int) -> None:
        """All these inputs and the result are of one 8-bit type; Unsupported otherwise."""
        kinds = {self.tensor(p).dtype for p in positions} | {self.result.dtype}
        if len(kinds) != 1 or not kinds <= {"int8", "uint8"}:
            raise Unsupported(f"tensors of the types {', '.join(sorted(k or 'unknown' for k in kinds))}")

    def output(self, activation: int = NONE) -> Output:
        """The result's quantisation, and its range under a fused activation."""
        quantisation = self.result.quantisation()
        if activation not in _RANGES:
            raise Unsupported(f"the fused activation {activation}")
        lo, hi = _RANGES[activation]
        low = -128 if lo is None else max(-128, quantize(lo, quantisation))
        high = 127 if hi is None else min(127, quantize(hi, quantisation))
        if low > high:
            raise Unsupported(f"an activation that clamps to nothing ({low}..{high})")
        return Output(quantisation, low, high)


def quantize(value: float, quantisation: Quantisation) -> int:
    """A real number as an integer of this quantisation, unclamped.

    Raises NotRepresentable beyond int32: the kernel converts it before it clamps, to what the CPU makes of it.
    """
    with np.errstate(over="ignore"):
        steps = np.abs(np.float32(value) / np.float32(quantisation.scale))
    if not steps < (1 << 31) - FARTHEST_ZERO:
        raise NotRepresentable(f"a bound of {value:g} in steps of {quantisation.scale:.3g}, which is beyond int32")
    return quantize_value(value, quantisation.scale, quantisation.zero_point)
