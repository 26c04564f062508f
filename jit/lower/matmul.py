"""Products of two tensors to nodes: heads in whole vectors, and one of the tensors blocked as weights are."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.jit import graph as g
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import TensorSpec
from tilewright.jit.kernels.matmul import MatMulNode
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.lower.select import select
from tilewright.jit.lower.state import Lowering
from tilewright.jit.plan.layout import units_for
from tilewright.runtime.steps import PackStep


@dataclass(frozen=True)
class _Side:
    """A tensor with its heads at whole vectors: as rows, or (``count`` channels apart) in its channels."""

    tensor: str
    rows: bool
    channels: int  #: of a head
    count: int


def lower_matmul(at: Lowering, op: g.MatMul) -> None:
    """The nodes of an operator. Raises :class:`PlaceError` for Configs whose weights are no images of activations."""
    c, out = at.config, at.output(op)
    if c.batch > 1 or c.weight_bits < 8:
        raise PlaceError(
            f"{op.name}: activations as weights need weight_bits = 8 and batch = 1, not {c.weight_bits} and {c.batch}"
        )
    a, b = (_aligned(at, op, k) for k in range(2))
    name = f"{b.tensor}.blocks"
    units = units_for(at.specs[b.tensor].shape[3], c)
    packed = _is_packed(at, op.inputs[1]) and b.tensor == at.resolve(op.inputs[1])
    _, stacks, pixels, _ = at.graph.tensors[op.inputs[1]].shape
    parts = at.specs[b.tensor].shape[1] // stacks
    blocked = at.blocked[name] = Blocked(name, b.tensor, stacks, pixels, parts, units // c.in_units, c, packed)
    if packed:
        at.packs[name] = _packing(at, b.tensor, units, blocked)
    rows = not op.merged
    count = out.shape[3] if rows else out.shape[3] // op.heads
    step = units_for(count, c)
    whole, tensor = not rows and step * c.lanes != count, op.output
    if whole:  # heads begin with a vector, and are put together behind
        tensor = f"{op.output}.heads"
        at.specs[tensor] = TensorSpec(tensor, (*out.shape[:3], step * c.lanes * op.heads), "int8")
    part = out if rows else TensorSpec(op.output, (*out.shape[:3], count), "int8")
    source = at.specs[a.tensor].shape
    for head in range(1 if rows else op.heads):
        node = MatMulNode(
            name=op.name if rows else f"{op.name}.{head}", layer=at.layer, config=c, inputs=[a.tensor],
            output=tensor, out=part, first_unit=head * step, weights=name, depth=a.channels,
            blocks=a.count // c.block_in, head=head, parts=out.shape[1] // (op.heads if rows else 1),
            in_rows=a.rows, in_height=source[1], in_width=source[2], in_units=units_for(source[3], c),
            waits=not packed, offsets=op.offsets, requant=op.requant,
        )  # fmt: skip
        at.nodes += node.by_head() if at.tiled else [node]
    if whole:
        chosen = [head * step * c.lanes + k for head in range(op.heads) for k in range(count)]
        select(at, op.name, [tensor], op.output, chosen)


def _is_packed(at: Lowering, tensor: str) -> bool:
    """Whether the host packs a tensor: an input, or made by an operator that only the host computes."""
    producer = at.graph.producer(tensor)
    return producer is None or isinstance(producer, g.HOST_KINDS)


def _aligned(at: Lowering, op: g.MatMul, index: int) -> _Side:
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
