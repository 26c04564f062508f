"""Concatenations over channels to nodes: parts written in place or copied as whole vectors, or channels one by one."""

from __future__ import annotations

from tilewright.isa.spec import Combine
from tilewright.jit import graph as g
from tilewright.jit.graph import TensorSpec
from tilewright.jit.kernels.elementwise import ElementwiseNode, Term
from tilewright.jit.lower.select import select
from tilewright.jit.lower.state import Lowering
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.plan.layout import units_for


def lower_concat(at: Lowering, op: g.Concat) -> None:
    """Part by part into whole vectors of the output; by selection where a part would start inside of one."""
    out = at.output(op)
    block = at.config.widest_block
    if any(at.spec(name).shape[3] % block for name in op.inputs[:-1]):
        _select(at, op)
        return
    first = 0
    for k, (name, part) in enumerate(zip(op.inputs, op.parts, strict=True)):
        channels = at.spec(name).shape[3]
        if part is None and at.joined and _join(at, op, name, first // at.config.lanes):
            first += channels
            continue
        scale, requant = part if part is not None else (IDENTITY_SCALE, identity_requant(channels))
        at.elementwise(
            op, [name], out, [Term(0, scale, Combine.WRITE)], requant, suffix=f".{k}", channels=channels,
            first_unit=first // at.config.lanes,
        )  # fmt: skip
        first += channels


def _join(at: Lowering, op: g.Concat, name: str, unit: int) -> bool:
    """Let what makes a part of a concatenation write it in place; False where somebody else needs the part."""
    makers = [node for node in at.nodes if node.output == name]
    alone = at.graph.consumers(name) == [op] and op.inputs.count(name) == 1 and name not in at.graph.outputs
    sliced = any(name in parts for parts in at.sliced.parts.values())
    if not makers or not alone or sliced or any(name in node.inputs for node in at.nodes):
        return False
    if any(node.lattice.pixels > 1 for node in makers):  # which lie side by side
        return False
    for node in makers:
        node.output = op.output
        node.first_unit += unit
    return True


def _select(at: Lowering, op: g.Concat) -> None:
    """A 1x1 convolution with a single 1 for each output channel; parts of other scales are rescaled before."""
    inputs: list[str] = []
    columns: list[int] = []
    first = 0
    for k, (name, part) in enumerate(zip(op.inputs, op.parts, strict=True)):
        shape = at.spec(name).shape
        tensor = at.resolve(name)
        if part is not None:
            tensor = f"{op.output}.{k}"
            at.specs[tensor] = TensorSpec(tensor, shape, "int8")
            at.nodes.append(
                ElementwiseNode(
                    name=f"{op.name}.{k}", layer=at.layer, config=at.config, inputs=[at.resolve(name)],
                    output=tensor, out=at.specs[tensor], terms=[Term(0, part[0], Combine.WRITE)],
                    requant=part[1], channels=shape[3],
                )
            )  # fmt: skip
        inputs.append(tensor)
        columns += range(first, first + shape[3])
        first += units_for(shape[3], at.config) * at.config.lanes
    select(at, op.name, inputs, op.output, columns)
