"""What a cost model needs of a network: each layer's extents, free of constants and of any Config.

Read off the integer graph once; every evaluation of a Config then starts from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.jit import graph as g
from tilewright.jit.graph import HOST_KINDS, Graph, Op
from tilewright.jit.kernels.base import is_uniform
from tilewright.jit.lower import image_shape


@dataclass(frozen=True)
class Source:
    """One input of a layer: output row r reads rows ``r * stride + offset`` to ``span - 1`` rows further."""

    tensor: str
    stride: int
    offset: int
    span: int
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)  #: top, left, bottom, right, as the tensor must be stored


@dataclass(frozen=True)
class Layer:
    """One operator. ``kind`` is conv, window, global or elementwise."""

    name: str
    kind: str
    sources: tuple[Source, ...]
    output: str
    height: int
    width: int
    channels: int  #: of the output (or of the part of it that this layer writes)
    kernel: tuple[int, int] = (1, 1)
    in_channels: int = 0
    in_width: int = 1
    strides: tuple[int, int] = (1, 1)
    column_dilation: int = 1
    terms: int = 0  #: RESCALE passes of an elementwise layer
    scales: int = 0  #: distinct scales among them
    uniform: bool = False  #: one set of requantisation constants for all channels
    shared: bool = False  #: window taps are the same for all channels
    counts: int = 1  #: requantisations of a padded average pool
    from_input: bool = False  #: reads a network input, which the host may pack as patches


@dataclass(frozen=True)
class NetworkShape:
    """Layers in order, tensors as (height, width, channels), and which of them are inputs and outputs."""

    name: str
    layers: tuple[Layer, ...]
    tensors: dict[str, tuple[int, int, int]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def network_shape(graph: Graph) -> NetworkShape:
    """The shape of a graph. Operators that only the host runs are left out; their inputs become outputs."""
    reader = _Reader(graph)
    for op in graph.ops:
        reader.add(op)
    layers = tuple(reader.layers)
    made = {layer.output for layer in layers}
    inputs = tuple(dict.fromkeys(s.tensor for layer in layers for s in layer.sources if s.tensor not in made))
    read = {s.tensor for layer in layers for s in layer.sources}
    wanted = {reader.alias.get(t, t) for t in [*graph.outputs, *reader.host_inputs]}
    outputs = tuple(t for t in dict.fromkeys(layer.output for layer in layers) if t in wanted or t not in read)
    return NetworkShape(graph.name, layers, reader.tensors, inputs, outputs)


class _Reader:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers: list[Layer] = []
        self.alias: dict[str, str] = {}
        self.host_inputs: list[str] = []
        self.tensors: dict[str, tuple[int, int, int]] = {}
        self.flat: dict[str, tuple[int, int, int]] = {}
        for name in graph.inputs:
            self._declare(name)

    def _declare(self, name: str) -> tuple[int, int, int]:
        shape = image_shape(self.graph.tensors[name].shape)[1:]
        self.tensors[name] = shape
        return shape

    def add(self, op: Op) -> None:
        if isinstance(op, HOST_KINDS):
            self.host_inputs += op.inputs
            self._declare(op.output)
        elif isinstance(op, g.Reshape):
            before, after = self.tensors[self.alias.get(op.inputs[0], op.inputs[0])], self._declare(op.output)
            if before != after and after[:2] == (1, 1):
                self.flat[op.output] = before
            self.alias[op.output] = self.alias.get(op.inputs[0], op.inputs[0])
        else:
            self._declare(op.output)
            getattr(self, "_" + type(op).__name__.lower())(op)

    def _layer(self, op: Op, kind: str, sources: tuple[Source, ...], **extra: Any) -> None:
        height, width, channels = self.tensors[op.output]
        values = {"name": op.name, "height": height, "width": width, "channels": channels, **extra}
        self.layers.append(Layer(kind=kind, sources=sources, output=op.output, **values))

    def _conv2d(self, op: g.Conv2D) -> None:
        source = self.alias.get(op.inputs[0], op.inputs[0])
        _, kh, kw, ic = op.weight.shape
        width = self.tensors[source][1]
        flat = self.flat.get(op.inputs[0])
        if flat is not None and (kh, kw) == (1, 1):
            kh, kw, ic = flat
        reads = Source(source, op.strides[0], -op.padding[0], (kh - 1) * op.dilation[0] + 1, op.padding)
        self._layer(
            op, "conv", (reads,), kernel=(kh, kw), in_channels=ic * op.groups, in_width=width, strides=op.strides,
            from_input=source in self.graph.inputs and flat is None, column_dilation=op.dilation[1],
        )  # fmt: skip

    def _depthwiseconv2d(self, op: g.DepthwiseConv2D) -> None:
        source = self.alias.get(op.inputs[0], op.inputs[0])
        kh, kw, channels = op.weight.shape
        padding = op.padding if op.dilation[1] > 1 else _window_padding(op.padding, kw, op.strides[1])
        reads = Source(source, op.strides[0], -op.padding[0], (kh - 1) * op.dilation[0] + 1, padding)
        self._layer(
            op, "window", (reads,), kernel=(kh, kw), in_channels=channels, in_width=self.tensors[source][1],
            strides=op.strides, column_dilation=op.dilation[1], uniform=is_uniform(op.requant),
        )  # fmt: skip

    def _avgpool2d(self, op: g.AvgPool2D) -> None:
        source = self.alias.get(op.inputs[0], op.inputs[0])
        height, width, channels = self.tensors[source]
        uniform = all(is_uniform(r) for r in op.requants.values())
        if op.kernel == (height, width) and not any(op.padding) and self.tensors[op.output][:2] == (1, 1):
            self._layer(
                op, "global", (Source(source, 1, 0, height),), kernel=op.kernel, in_channels=channels,
                in_width=width, uniform=uniform,
            )  # fmt: skip
            return
        padding = _window_padding(op.padding, op.kernel[1], op.strides[1])
        reads = Source(source, op.strides[0], -op.padding[0], op.kernel[0], padding)
        self._layer(
            op, "window", (reads,), kernel=op.kernel, in_channels=channels, in_width=width, strides=op.strides,
            uniform=uniform, shared=True, counts=len(op.requants),
        )  # fmt: skip

    def _elementwise(self, op: Op, sources: tuple[Source, ...], terms: int, scales: int, **extra: Any) -> None:
        self._layer(op, "elementwise", sources, terms=terms, scales=scales, **extra)

    def _plain(self, tensor: str) -> Source:
        return Source(self.alias.get(tensor, tensor), 1, 0, 1)

    def _add(self, op: g.Add) -> None:
        scales = 1 if op.scale_a == op.scale_b else 2
        self._elementwise(
            op, tuple(self._plain(t) for t in op.inputs), 2, scales, uniform=is_uniform(op.requant)
        )  # fmt: skip

    def _requantize(self, op: g.Requantize) -> None:
        self._elementwise(op, (self._plain(op.inputs[0]),), 1, 1, uniform=is_uniform(op.requant))

    def _maxpool2d(self, op: g.MaxPool2D) -> None:
        source = self.alias.get(op.inputs[0], op.inputs[0])
        reads = Source(source, op.strides[0], -op.padding[0], op.kernel[0], op.padding)
        self._elementwise(op, (reads,), int(np.prod(op.kernel)), 1, uniform=True)

    def _pad(self, op: g.Pad) -> None:
        source = self.alias.get(op.inputs[0], op.inputs[0])
        self._elementwise(op, (Source(source, 1, -op.padding[0], 1, op.padding),), 1, 1, uniform=True)

    def _concat(self, op: g.Concat) -> None:
        for k, (name, part) in enumerate(zip(op.inputs, op.parts, strict=True)):
            channels = self.tensors[self.alias.get(name, name)][2]
            uniform = part is None or is_uniform(part[1])
            self._elementwise(
                op, (self._plain(name),), 1, 1, uniform=uniform, name=f"{op.name}.{k}", channels=channels
            )  # fmt: skip


def _window_padding(padding: tuple[int, int, int, int], width: int, stride: int) -> tuple[int, int, int, int]:
    """Padding of a window's input: with whole steps of columns ahead of the first output (``jit.kernels.window``)."""
    top, left, bottom, right = padding
    steps = -(-max(0, width - stride) // stride)
    return top, left + max(0, steps * stride - (width - min(stride, width))), bottom, right
