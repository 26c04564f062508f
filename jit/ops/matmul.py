"""MatMul: products of two tensors of activations; heads in whole vectors, one of them blocked as weights are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.base import Graph, Op
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Array, image_shape
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.matmul import MatMulNode
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.lower.select import select
from tilewright.jit.ops.host import HostOp
from tilewright.jit.plan.layout import units_for
from tilewright.runtime.steps import PackStep, TensorSpec


@dataclass(kw_only=True)
class MatMul(Op):
    """Products of rows of two tensors: ``acc[m, n] = sum over k of (a[m, k] - offsets[0]) * (b[n, k] - offsets[1])``.

    ``b`` is read as weights are: a row of it for each channel of the result. There are ``heads`` such products beside
    each other. Each operand has them as its rows, (1, heads, pixels, channels), or one behind the other in its
    channels, (1, 1, pixels, heads * channels); the result has them as rows, or (``merged``) in its channels.
    ``requant`` is alike for all channels, of shape (N,).
    """

    heads: int
    offsets: tuple[int, int]
    requant: Requant
    merged: bool = False
    multiplies_tensors = True

    def meaning(self, d: Domain, a: Any, b: Any) -> Any:
        acc = d.products(_by_head(a, self.heads), _by_head(b, self.heads), self.offsets)
        result = d.requantize(acc, self.requant)
        return result.transpose(1, 0, 2).reshape(1, 1, result.shape[1], -1) if self.merged else result[None]

    def macs(self, graph: Graph) -> int:
        a, b = (image_shape(graph.tensors[t].shape) for t in self.inputs)
        return math.prod(a) * b[2]

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        """Rows of a sequence may be cut as its pixels are; what it reads as weights is blocked, whatever its rows."""
        return True

    def lower(self, at: Lowering) -> None:
        """Raises :class:`PlaceError` for Configs whose weights are no images of activations."""
        c, out = at.config, at.output(self)
        if c.batch > 1 or c.weight_bits < 8:
            raise PlaceError(
                f"{self.name}: activations as weights need weight_bits = 8 and batch = 1, not {c.weight_bits} and "
                f"{c.batch}"
            )
        a, b = (_aligned(at, self, k) for k in range(2))
        name = f"{b.tensor}.blocks"
        units = units_for(at.specs[b.tensor].shape[3], c)
        packed = _is_packed(at, self.inputs[1]) and b.tensor == at.resolve(self.inputs[1])
        _, stacks, pixels, _ = at.graph.tensors[self.inputs[1]].shape
        parts = at.specs[b.tensor].shape[1] // stacks
        blocked = at.blocked[name] = Blocked(name, b.tensor, stacks, pixels, parts, units // c.in_units, c, packed)
        if packed:
            at.packs[name] = _packing(at, b.tensor, units, blocked)
        rows = not self.merged
        count = out.shape[3] if rows else out.shape[3] // self.heads
        step = units_for(count, c)
        whole, tensor = not rows and step * c.lanes != count, self.output
        if whole:  # heads begin with a vector, and are put together behind
            tensor = f"{self.output}.heads"
            at.specs[tensor] = TensorSpec(tensor, (*out.shape[:3], step * c.lanes * self.heads), "int8")
        part = out if rows else TensorSpec(self.output, (*out.shape[:3], count), "int8")
        source = at.specs[a.tensor].shape
        for head in range(1 if rows else self.heads):
            node = MatMulNode(
                name=self.name if rows else f"{self.name}.{head}", layer=at.layer, config=c, inputs=[a.tensor],
                output=tensor, out=part, first_unit=head * step, weights=name, depth=a.channels,
                blocks=a.count // c.block_in, head=head, parts=out.shape[1] // (self.heads if rows else 1),
                in_rows=a.rows, in_height=source[1], in_width=source[2], in_units=units_for(source[3], c),
                waits=not packed, offsets=self.offsets, requant=self.requant,
            )  # fmt: skip
            at.nodes += node.by_head() if at.tiled else [node]
        if whole:
            chosen = [head * step * c.lanes + k for head in range(self.heads) for k in range(count)]
            select(at, self.name, [tensor], self.output, chosen)


def _by_head(x: Array, heads: int) -> Array:
    """An operand as (heads, pixels, channels of a head), a view of it."""
    _, rows, pixels, channels = x.shape
    return x[0] if rows == heads else x.reshape(pixels, heads, channels // heads).transpose(1, 0, 2)


@dataclass(frozen=True)
class _Side:
    """A tensor with its heads at whole vectors: as rows, or (``count`` channels apart) in its channels."""

    tensor: str
    rows: bool
    channels: int  #: of a head
    count: int


def _is_packed(at: Lowering, tensor: str) -> bool:
    """Whether the host packs a tensor: an input, or made by an operator that only the host computes."""
    producer = at.graph.producer(tensor)
    return producer is None or isinstance(producer, HostOp)


def _aligned(at: Lowering, op: MatMul, index: int) -> _Side:
    """An operand with each head in whole vectors whose last channels, beyond its own, are zeros; chosen by a
    convolution if need be. What the host packs has those zeros."""
    name = op.inputs[index]
    tensor, block = at.resolve(name), at.config.widest_block
    _, height, width, channels = at.spec(name).shape
    rows = op.heads == 1 or at.graph.tensors[name].shape[1] == op.heads
    own = channels if rows else channels // op.heads
    count = -(-own // block) * block
    if own == count or (rows and _is_packed(at, name)):
        return _Side(tensor, rows, own, count)
    heads = 1 if rows else op.heads
    chosen = [head * own + k if k < own else -1 for head in range(heads) for k in range(count)]
    aligned = f"{tensor}.{heads}heads"
    if aligned not in at.specs:
        at.specs[aligned] = TensorSpec(aligned, (1, height, width, len(chosen)), "int8")
        select(at, f"{op.name}.{index}", [tensor], aligned, chosen)
    return _Side(aligned, rows, own, count)


def _packing(at: Lowering, tensor: str, units: int, blocked: Blocked) -> PackStep:
    """The step that packs an input in blocks, zeros behind the pixels and channels of each."""
    c, channels = at.config, at.specs[tensor].shape[-1]
    shape = (1, blocked.height, blocked.width, channels)
    return PackStep(
        tensor=tensor, segment=1, shape=shape, lanes=c.lanes, units=units, layout="blocks", block=c.in_units,
        padding=(0, 0, 0, -blocked.width % c.block_out),
    )  # fmt: skip
