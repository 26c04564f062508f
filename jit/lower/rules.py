"""Graph operators to nodes: the table of lowering rules, and the rewrites they need.

A fully connected layer behind a flatten becomes a convolution with the image's size as kernel; the first
convolution on few channels runs on patches that the host packs; tensors that two consumers want padded with
different values are copied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import Combine, roundings
from tilewright.jit import graph as g
from tilewright.jit.defects import why_not
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Op, Requant, TensorSpec
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.elementwise import ElementwiseNode, Term
from tilewright.jit.kernels.global_pool import GlobalPoolNode
from tilewright.jit.kernels.resample import ResampleNode
from tilewright.jit.kernels.transposed import TransposedNode, written_out
from tilewright.jit.kernels.weight_bits import fits
from tilewright.jit.kernels.window import WindowNode, valid_counts
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.lower.concat import lower_concat
from tilewright.jit.lower.dense_weights import diagonal, expand_groups, in_parts
from tilewright.jit.lower.matmul import lower_matmul
from tilewright.jit.lower.patches import lower_patches, packs_patches
from tilewright.jit.lower.state import image_shape
from tilewright.jit.lower.sums import lower_partial_sums, lower_total
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.lower.token_rows import folded, folds
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.plan.layout import units_for
from tilewright.jit.plan.slicing import Sliced
from tilewright.runtime.steps import PackStep

#: Bytes of a tensor in DRAM: all the contiguous memory that PYNQ gives a process by default. Planning takes longer
#: with every row, so what no board holds is not planned.
MOST_BYTES = 1 << 27


class _Lowering:
    def __init__(self, sliced: Sliced, config: Config, tiled: bool, joined: bool) -> None:
        self.tiled, self.joined = tiled, joined
        self.sliced, self.graph, self.config = sliced, sliced.graph, config
        self.folds = not tiled and folds(self.graph)
        self.nodes: list[Node] = []
        self.alias: dict[str, str] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.packs: dict[str, PackStep] = {}
        self.blocked: dict[str, Blocked] = {}
        self.copies: set[str] = set()
        self.layer = 0
        #: tensors that are a flattened image: name -> (H, W, C) of the image
        self.flat: dict[str, tuple[int, int, int]] = {}

    def run(self) -> Lowered:
        for name in self.graph.inputs:
            self._declare(name, self.graph.tensors[name].shape)
        for op in self.graph.ops:
            self.lower(op)
        if not self.tiled:
            self._separate_pads()
        held = {t for n in self.nodes for t in [*n.inputs, n.output]}
        outputs = {t: [self.resolve(t)] for t in self.graph.tensors if self.resolve(t) in held}
        outputs |= {t: [self.resolve(part) for part in parts] for t, parts in self.sliced.parts.items()}
        rows_inputs = [t for t in self.graph.inputs if t in held]
        weights = [b.tensor for b in self.blocked.values() if not b.packed]
        stored = list(dict.fromkeys([*(self.resolve(t) for t in self.graph.outputs), *weights]))
        copies = frozenset(self.copies)
        if not self.tiled:
            reads = Counter(t for n in self.nodes for t in n.inputs)
            for node in self.nodes:
                source = node.inputs[0]
                if isinstance(node, WindowNode) and reads[source] == 1 and source not in stored:
                    node.allow_twins(self.specs[source].shape[1])
        return Lowered(
            self.config, self.nodes, self.packs, outputs, self.specs, rows_inputs, stored, self.blocked, copies
        )

    def lower(self, op: Op) -> None:
        """One operator's nodes. Raises :class:`PlaceError`."""
        self.layer = self.sliced.layers[op.name]
        missing = {r.rounding.name for r in g.requants_of(op) if r.rounding not in roundings(self.config)}
        if missing:
            raise PlaceError(
                f"{op.name}: scales as ONNX Runtime does, in the rounding mode {min(missing)}, which this Config has "
                "not; set float32_scaling = true"
            )
        rule = _RULES.get(type(op))
        if rule is None:
            raise PlaceError(f"{op.name} ({op.kind}): has no lowering to the accelerator; it runs on the host")
        try:
            rule(self, op)
        except PlaceError as error:
            shape = self.graph.tensors[op.inputs[0]].shape
            message = str(error)
            prefix = "" if message.startswith(op.name) else f"{op.name}: "
            raise PlaceError(f"{prefix}{message} (input {'x'.join(map(str, shape))})") from error

    def refusals(self) -> dict[str, PlaceError]:
        """Operators that no rule can place, each by itself, and why."""
        found: dict[str, PlaceError] = {}
        apart = (*g.HOST_KINDS, g.Recurrent, g.Reshape)
        for op in self.graph.ops:
            try:
                for name in (*op.inputs, *op.outputs):
                    self._declare(name, self.graph.tensors[name].shape)
                if not isinstance(op, apart):
                    self.lower(op)
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                reason = why_not(error, op.name)
                if not isinstance(op, apart):
                    found[op.name] = error if isinstance(error, PlaceError) else PlaceError(f"{op.name}: {reason}")
        return found

    # -- names -----------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The on-chip tensor that holds a graph tensor."""
        return self.alias.get(name, name)

    def spec(self, name: str) -> TensorSpec:
        """On-chip spec, shape (1, H, W, C)."""
        return self.specs[self.resolve(name)]

    def _declare(self, name: str, shape: tuple[int, ...]) -> TensorSpec:
        old = self.graph.tensors.get(name)
        zero, scale = (old.zero_point, old.scale) if old else (0, 1.0)
        image = self._image(shape)
        stored = math.prod(image[:3]) * units_for(image[3], self.config) * self.config.lanes
        if stored > MOST_BYTES:
            raise PlaceError(f"tensor {name!r} takes {stored:,} bytes in DRAM; at most {MOST_BYTES:,} are planned")
        self.specs[name] = TensorSpec(name, image, "int8", scale, zero)
        return self.specs[name]

    def _image(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """A tensor's shape on the chip."""
        return folded(image_shape(shape)) if self.folds else image_shape(shape)

    def output(self, op: Op) -> TensorSpec:
        """Declare an operator's output."""
        return self._declare(op.output, self.graph.tensors[op.output].shape)

    # -- rules -----------------------------------------------------------------------------------------

    def conv(self, op: g.Conv2D) -> None:
        weight = expand_groups(op)
        source = self.spec(op.inputs[0])
        pad, strides, dilation, pad_constant = op.padding, op.strides, op.dilation, op.pad_value
        inputs = [self.resolve(t) for t in op.inputs]
        in_units = [units_for(self.spec(t).shape[3], self.config) for t in op.inputs]
        flat = self.flat.get(op.inputs[0])
        _, kh, kw, ic = weight.shape
        if flat is not None and (kh, kw) == (1, 1) and not op.transposed:
            if weight.shape[1:] != flat:
                weight = np.ascontiguousarray(weight.reshape(weight.shape[0], *flat))
            _, kh, kw, ic = weight.shape
        elif packs_patches(self, op, kh, kw, ic):
            patched = lower_patches(self, op, weight)
            inputs, in_units, weight = [patched.name], [patched.units], patched.weight
            pad, strides, dilation, ic = (0, 0, 0, 0), (1, 1), (patched.dilation, 1), weight.shape[3]
        if ic > sum(in_units) * self.config.lanes:
            raise PlaceError(f"{op.name}: {ic} weight channels do not fit the input's {source.shape[3]}")
        if op.transposed:
            weight = written_out(weight, dilation, op.spread)
        weight, parts = in_parts(weight, self.config.weight_bits, sum(in_units) * self.config.lanes, op.name)
        inputs, in_units = inputs * parts, in_units * parts
        if op.transposed:
            node = TransposedNode(
                name=op.name, layer=self.layer, config=self.config, inputs=inputs, output=op.output,
                out=self.output(op), weight=weight, requant=op.requant, spread=op.spread, dilation=dilation,
                pad=pad[:2], pad_constant=pad_constant, in_units=in_units, in_size=(source.shape[1], source.shape[2]),
            )  # fmt: skip
            self.nodes += node.for_tiles() if self.tiled else [node]
            return
        self.nodes.append(
            ConvNode(
                name=op.name, layer=self.layer, config=self.config, inputs=inputs, output=op.output,
                out=self.output(op), weight=weight, requant=op.requant, strides=strides, dilation=dilation, pad=pad,
                pad_constant=pad_constant, in_units=in_units, in_width=self.specs[inputs[0]].shape[2],
            )
        )  # fmt: skip

    def depthwise(self, op: g.DepthwiseConv2D) -> None:
        kw = op.weight.shape[1]
        wide = self.tiled and not fits(op.weight, self.config.weight_bits, 1)  # tiles have no second pass over a window
        if op.dilation[1] > 1 or kw > self.config.block_in or wide:
            dense = diagonal(op, op.weight, op.requant, op.strides)
            self.conv(replace(dense, dilation=op.dilation, padding=op.padding, pad_value=op.pad_value))
            return
        out = self.output(op)
        self._window(op, out, op.weight, {0: op.requant}, np.zeros(out.shape[1:3], np.int64), op.strides,
                     op.dilation[0], op.padding, op.pad_value)  # fmt: skip

    def average_pool(self, op: g.AvgPool2D) -> None:
        source, out = self.spec(op.inputs[0]), self.output(op)
        _, height, width, _ = source.shape
        if op.kernel == (height, width) and out.shape[1:3] == (1, 1) and not any(op.padding):
            self.nodes.append(
                GlobalPoolNode(
                    name=op.name, layer=self.layer, config=self.config, inputs=[self.resolve(op.inputs[0])],
                    output=op.output, out=out, requant=op.requants[height * width], in_height=height, in_width=width,
                )
            )  # fmt: skip
            return
        if op.kernel[1] > self.config.block_in and not any(op.padding):  # more taps than a window has
            (requant,) = op.requants.values()
            self.conv(diagonal(op, np.ones((*op.kernel, out.shape[3]), np.int8), requant, op.strides))
            return
        rows = valid_counts(height, out.shape[1], op.kernel[0], op.strides[0], op.padding[0])
        columns = valid_counts(width, out.shape[2], op.kernel[1], op.strides[1], op.padding[1])
        taps = np.ones((*op.kernel, 1), np.int8)
        self._window(op, out, taps, op.requants, rows[:, None] * columns[None, :], op.strides, 1, op.padding, 0)

    def _window(
        self, op: Op, out: TensorSpec, taps: NDArray[np.int8], requants: dict[int, Requant], counts: NDArray[np.int64],
        strides: tuple[int, int], dilation_y: int, pad: tuple[int, int, int, int], pad_constant: int,
    ) -> None:  # fmt: skip
        self.nodes.append(
            WindowNode(
                name=op.name, layer=self.layer, config=self.config, inputs=[self.resolve(op.inputs[0])],
                output=op.output, out=out, taps=taps, requants=requants, counts=counts, strides=strides,
                dilation_y=dilation_y, pad=pad, pad_constant=pad_constant,
            )
        )  # fmt: skip

    def max_pool(self, op: g.MaxPool2D) -> None:
        taps = [(dy, dx) for dy in range(op.kernel[0]) for dx in range(op.kernel[1])]
        terms = [
            Term(0, IDENTITY_SCALE, Combine.MAX if n else Combine.WRITE, dy - op.padding[0], dx - op.padding[1])
            for n, (dy, dx) in enumerate(taps)
        ]
        out = self.output(op)
        requant = identity_requant(out.shape[3], op.lo, op.hi)
        self.elementwise(op, op.inputs, out, terms, requant, strides=op.strides, pad=op.padding, pad_constant=-128)

    def pairwise(self, op: g.Pairwise) -> None:
        out, (height, width) = self.output(op), self.spec(op.inputs[1]).shape[1:3]
        moves = (height == out.shape[1], width == out.shape[2])
        join = _JOINS.get(type(op), Combine.WRITE)
        terms = [
            Term(index, scale, join if number else Combine.WRITE, moves=moves if index else (True, True))
            for number, (index, scale) in enumerate(op.terms)
        ]
        self.elementwise(op, op.inputs, out, terms, op.requant, product=isinstance(op, g.Multiply))

    def requantize(self, op: g.Requantize) -> None:
        self.elementwise(op, op.inputs, self.output(op), [Term(0, op.scale, Combine.WRITE)], op.requant)

    def pad(self, op: g.Pad) -> None:
        out = self.output(op)
        term = Term(0, IDENTITY_SCALE, Combine.WRITE, -op.padding[0], -op.padding[1])
        self.elementwise(op, op.inputs, out, [term], identity_requant(out.shape[3]), pad=op.padding,
                          pad_constant=op.pad_value)  # fmt: skip

    def slice(self, op: g.Slice) -> None:
        out = self.output(op)
        term = Term(0, IDENTITY_SCALE, Combine.WRITE, *op.begin)
        self.elementwise(op, op.inputs, out, [term], identity_requant(out.shape[3]), strides=op.strides)

    def resample(self, op: g.Resample) -> None:
        self.nodes.append(
            ResampleNode(
                name=op.name, layer=self.layer, config=self.config, inputs=[self.resolve(op.inputs[0])],
                output=op.output, out=self.output(op), rows=op.rows, columns=op.columns, offset=op.offset,
                requant=op.requant,
            )
        )  # fmt: skip

    def elementwise(
        self, op: Op, inputs: list[str], out: TensorSpec, terms: list[Term], requant: Requant, suffix: str = "",
        channels: int = 0, **extra: Any,
    ) -> None:  # fmt: skip
        self.nodes.append(
            ElementwiseNode(
                name=op.name + suffix, layer=self.layer, config=self.config, inputs=[self.resolve(t) for t in inputs],
                output=op.output, out=out, terms=terms, requant=requant, channels=channels or out.shape[3], **extra,
            )
        )  # fmt: skip

    def reshape(self, op: g.Reshape) -> None:
        """Free where both shapes hold the same pixels; a flattened image is remembered for its consumer."""
        before, after = self.spec(op.inputs[0]).shape, self._image(self.graph.tensors[op.output].shape)
        if before != after:
            consumers = self.graph.consumers(op.output)
            if after[1:3] != (1, 1) or not all(isinstance(c, g.Conv2D) and not c.transposed for c in consumers):
                raise PlaceError(f"{op.name}: reshape {before} -> {after} moves channels between pixels")
            self.flat[op.output] = (before[1], before[2], before[3])
        self.alias[op.output] = self.resolve(op.inputs[0])

    # -- buffers ---------------------------------------------------------------------------------------

    def _separate_pads(self) -> None:
        """Give consumers that want another padding value than the first one their own copy."""
        reads = Counter(t for n in self.nodes for t in n.inputs)
        for name in [name for name in self.specs if reads[name] > 1]:
            values = [(n, k, n.pad_value(k)) for n in self.nodes for k, t in enumerate(n.inputs) if t == name]
            wanted = list(dict.fromkeys(v for _, _, v in values if v is not None))
            for value in wanted[1:]:
                copy = f"{name}.pad{value}"
                spec = TensorSpec(copy, self.specs[name].shape, "int8")
                self.specs[copy] = spec
                self.copies.add(copy)
                users = [(n, k) for n, k, v in values if v == value]
                node = ElementwiseNode(
                    name=copy, layer=users[0][0].layer, config=self.config, inputs=[name], output=copy, out=spec,
                    terms=[Term(0, IDENTITY_SCALE, Combine.WRITE)], requant=identity_requant(spec.shape[3]),
                    channels=spec.shape[3],
                )  # fmt: skip
                self.nodes.insert(self.nodes.index(users[0][0]), node)
                for user, k in users:
                    user.inputs[k] = copy


_JOINS: dict[type[Op], Combine] = {g.Add: Combine.ADD, g.Maximum: Combine.MAX, g.Minimum: Combine.MIN}

_RULES: dict[type[Op], Callable[[_Lowering, Any], None]] = {
    g.Conv2D: _Lowering.conv,
    g.DepthwiseConv2D: _Lowering.depthwise,
    g.AvgPool2D: _Lowering.average_pool,
    g.MaxPool2D: _Lowering.max_pool,
    g.MatMul: lower_matmul,
    g.PartialSums: lower_partial_sums,
    g.Total: lower_total,
    **dict.fromkeys((g.Add, g.Multiply, g.Maximum, g.Minimum), _Lowering.pairwise),
    g.Requantize: _Lowering.requantize,
    g.Pad: _Lowering.pad,
    g.Slice: _Lowering.slice,
    g.Resample: _Lowering.resample,
    g.Concat: lower_concat,
    g.Reshape: _Lowering.reshape,
}


def lower(graph: Graph | Sliced, config: Config, tiled: bool = False, joined: bool = False) -> Lowered:
    """Lower a graph of accelerator operators (or a sliced one), no tensor going through DRAM.

    ``tiled``: for the tiled plan, which pads each patch as it loads it and needs no copies for that.
    ``joined``: parts of concatenations are written in place where they can be, without a copy.
    Raises :class:`PlaceError` for the first operator that cannot be placed.
    """
    return _Lowering(graph if isinstance(graph, Sliced) else _whole(graph), config, tiled, joined).run()


def refusals(graph: Graph, config: Config) -> dict[str, PlaceError]:
    """Why operators of a graph have no lowering, by name; those that only the host computes left out."""
    return _Lowering(_whole(graph), config, tiled=False, joined=False).refusals()


def _whole(graph: Graph) -> Sliced:
    return Sliced(graph, {}, {op.name: index for index, op in enumerate(graph.ops)})
