"""Where a rule works: a node of the prepared graph on one side, the graph being built on the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Layer, Operand, Output, Quantisation
from tilewright.jit.source.onnx.prepared import Node, Prepared
from tilewright.jit.source.onnx.values import PreparedValues

Quad = tuple[int, int, int, int]


@dataclass(kw_only=True)
class Site(Layer):
    """One node: reads its numbers, emits operators. ``kind``: of the file's operators that the node stands for, as
    messages name it (ONNX Runtime fuses some and writes others out, under kinds that are not in the file)."""

    prepared: Prepared
    values: PreparedValues
    node: Node
    kind: str

    def has(self, position: int) -> bool:
        """Whether input ``position`` is given."""
        return position < len(self.node.inputs) and self.node.inputs[position] != ""

    def input(self, position: int) -> str:
        """The name of input ``position``; raises Unsupported where it is left out."""
        if not self.has(position):
            raise Unsupported(f"{self.kind} without its operand {position}")
        return self.node.inputs[position]

    def constant(self, position: int) -> NDArray[Any]:
        """The value of a constant input."""
        return self.prepared.array(self.input(position))

    def quantisation(self, scale: int, zero_point: int, dtype: str) -> Quantisation:
        """Of an activation of type ``dtype`` whose numbers are at these positions, as of int8."""
        zero = self.constant(zero_point) if self.has(zero_point) else np.zeros((), dtype)
        return quantisation(self.constant(scale), zero, dtype)

    def operand(self, position: int, scale: int | None = None, zero_point: int | None = None) -> Operand:
        """An activation with the numbers that this very node reads it with (``position`` + 1 and + 2)."""
        name = self.input(position)
        if name in self.prepared.constants:
            raise Unsupported(f"{self.kind} of a constant")
        dtype = self.prepared.types[name][0]
        scale = position + 1 if scale is None else scale
        numbers = self.quantisation(scale, scale + 1 if zero_point is None else zero_point, dtype)
        return replace(self.values.chip(name), quantisation=numbers)

    def output(self, scale: int, zero_point: int) -> Output:
        """What the node's result is quantised to."""
        return Output(self.quantisation(scale, zero_point, self.prepared.types[self.node.outputs[0]][0]))

    def is_signed(self) -> bool:
        """Whether the node's result is int8."""
        return self.prepared.types[self.node.outputs[0]][0] == "int8"

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape, axes as in the file."""
        return self.prepared.types[name][1]

    def require_image(self, *names: str) -> None:
        """Raises Unsupported unless the tensors' channels are on the second axis."""
        for name in names:
            rank = len(self.shape(name))
            if rank not in (3, 4) or self.values.specs[name].order is None:
                raise Unsupported(f"{self.kind} on a tensor of shape {self.shape(name)} with the channels last")


def quantisation(scale: NDArray[Any], zero_point: NDArray[Any], dtype: str) -> Quantisation:
    """One scale and zero point of an 8-bit activation, as of int8. Raises Unsupported for any others."""
    if dtype not in ("int8", "uint8") or zero_point.dtype.name != dtype:
        raise Unsupported(f"an activation quantised to {dtype}")
    if scale.size != 1 or zero_point.size != 1:
        raise Unsupported("an activation with scales per channel")
    if scale.dtype != np.float32:
        raise Unsupported(f"a scale of type {scale.dtype.name}")
    value = float(scale.reshape(()))
    if not (np.isfinite(value) and value > 0):
        raise Unsupported(f"the scale {value} of an activation")
    return Quantisation(value, int(zero_point.reshape(())) - (128 if dtype == "uint8" else 0))


def window_steps(node: Node, kernel: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """(kernel, strides, dilations) over height and width; a single axis is a width."""
    rank = len(kernel)
    strides = tuple(node.attribute("strides", [1] * rank))
    dilations = tuple(node.attribute("dilations", [1] * rank))
    if rank not in (1, 2) or len(strides) != rank or len(dilations) != rank:
        raise Unsupported(f"a window over {rank} axes")
    if min(*kernel, *strides, *dilations) < 1:
        raise Unsupported(f"a window {kernel} with strides {strides} and dilations {dilations}")
    first = (1,) * (2 - rank)
    a, b, c = ((*first, *v) for v in (kernel, strides, dilations))
    return (a[0], a[1]), (b[0], b[1]), (c[0], c[1])


def window_padding(node: Node, shape: tuple[int, ...], result: tuple[int, ...], kernel: tuple[int, ...]) -> Quad:
    """(top, left, bottom, right) such that just the result's positions come out, whatever rounds their number.

    ``shape``, ``result``: NC and the spatial axes.
    """
    rank = len(kernel)
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    auto = node.attribute("auto_pad", "NOTSET") or "NOTSET"
    pads = list(node.attribute("pads", [0] * 2 * rank))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    need = [(o - 1) * s + span - size for o, s, span, size in zip(result[2:], strides, spans, shape[2:], strict=True)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        if min(need) < -1:  # ONNX Runtime pads by negative sizes then, so that the window starts inside the image
            raise Unsupported(f"padding {auto} where strides {tuple(strides)} leave out the edge")
        whole = [max(n, 0) for n in need]
        before = [n // 2 if auto == "SAME_UPPER" else n - n // 2 for n in whole]
    elif auto == "VALID":
        before = [0] * rank
    elif auto == "NOTSET" and len(pads) == 2 * rank and min(pads) >= 0:
        before = pads[:rank]
    else:
        raise Unsupported(f"padding {auto} {pads}")
    after = [max(n - b, 0) for n, b in zip(need, before, strict=True)]
    top, bottom = (before[0], after[0]) if rank == 2 else (0, 0)
    return top, before[-1], bottom, after[-1]
