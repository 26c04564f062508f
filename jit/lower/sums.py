"""Sums that go from core to core to nodes: bytes of what a share of the channels adds, and what puts them together."""

from __future__ import annotations

from tilewright.isa.spec import Combine
from tilewright.jit import graph as g
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.kernels.partial_sums import PartialSumsNode
from tilewright.jit.kernels.total import TotalNode
from tilewright.jit.lower.dense_weights import in_parts
from tilewright.jit.lower.state import Lowering
from tilewright.jit.plan.layout import units_for


def lower_partial_sums(at: Lowering, op: g.PartialSums) -> None:
    """Its node. Raises :class:`PlaceError` for some channels of an input, and for planes that are no whole vectors."""
    c, source = at.config, at.spec(op.inputs[0])
    channels = op.weight.shape[3]
    if (op.first, channels) != (0, source.shape[3]):
        raise PlaceError(f"{op.name}: reads {channels} channels of {source.shape[3]}; a program is given those alone")
    _require_whole(op, op.weight.shape[0], at)
    units = units_for(channels, c)
    weight, parts = in_parts(op.weight, c.weight_bits, units * c.lanes, op.name)
    at.nodes.append(
        PartialSumsNode(
            name=op.name, layer=at.layer, config=c, inputs=[at.resolve(op.inputs[0])] * parts, output=op.output,
            out=at.output(op), weight=weight, requant=op.requants[0], strides=op.strides, dilation=op.dilation,
            pad=op.padding, pad_constant=op.pad_value, in_units=[units] * parts, in_width=source.shape[2],
            factors=op.factors, planes=op.requants,
        )
    )  # fmt: skip


def lower_total(at: Lowering, op: g.Total) -> None:
    """Its node. Raises :class:`PlaceError` for planes that do not begin with a vector."""
    out = at.output(op)
    _require_whole(op, op.pitch, at)
    _require_whole(op, op.first, at)
    terms = [
        Term(share, scale, Combine.ADD if k else Combine.WRITE, unit=(k * op.pitch + op.first) // at.config.lanes)
        for k, scale in enumerate(op.scales)
        for share in range(len(op.inputs))
    ]
    at.nodes.append(
        TotalNode(
            name=op.name, layer=at.layer, config=at.config, inputs=[at.resolve(name) for name in op.inputs],
            output=op.output, out=out, terms=terms, requant=op.requant, channels=out.shape[3],
        )
    )  # fmt: skip


def _require_whole(op: g.Op, channels: int, at: Lowering) -> None:
    block = at.config.widest_block
    if channels % block:
        raise PlaceError(f"{op.name}: {channels} channels beside others are no whole vectors of {block}")
