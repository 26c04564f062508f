"""Concat over channels: parts written in place or copied as whole vectors, or channels chosen one by one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.isa.spec import Combine
from tilewright.jit.ir.base import Mask, Op, keep_alike, keep_at_least, same_pixels
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts, joined, rescaled
from tilewright.jit.ir.regions import Range
from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.kernels.elementwise import ElementwiseNode, Term
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.lower.select import select
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.plan.layout import units_for
from tilewright.runtime.steps import TensorSpec


@dataclass(kw_only=True)
class Concat(Op):
    """Concatenation over channels. ``scales``/``requants`` per input; None where the input is copied as is."""

    parts: list[tuple[Scale, Requant] | None] = field(default_factory=list)

    def meaning(self, d: Domain, *inputs: Any) -> Any:
        parts = [x if part is None else d.rescaled(x, *part) for x, part in zip(inputs, self.parts, strict=True)]
        return np.concatenate(parts, axis=-1)

    def facts(self, *inputs: Facts) -> Facts:
        parts = zip(inputs, self.parts, strict=True)
        return joined(x if part is None else rescaled(*part, x) for x, part in parts)

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Concat, list[Range]]:
        return self, [rows] * len(heights)

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return same_pixels(shapes)

    def keep(self, inputs: list[Mask], outputs: list[Mask], block: int) -> None:
        """A part that fills whole blocks still does afterwards: what follows it begins with a block, which costs no
        copy."""
        parts = np.split(outputs[0], np.cumsum([len(mask) for mask in inputs])[:-1])
        for number, (mask, part) in enumerate(zip(inputs, parts, strict=True)):
            keep_alike([mask, part])
            if number + 1 < len(inputs) and len(part) % block == 0:
                keep_at_least(part, -(-int(part.sum()) // block) * block)

    def narrowed(self, inputs: list[Mask], out: Mask, shape: tuple[int, ...]) -> Concat:
        parts = zip(self.parts, map(np.flatnonzero, inputs), strict=True)
        return replace(self, parts=[part and (part[0], part[1].of(channels)) for part, channels in parts])

    def lower(self, at: Lowering) -> None:
        """Part by part into whole vectors of the output; by selection where a part would start inside of one."""
        out = at.output(self)
        block = at.config.widest_block
        if any(at.spec(name).shape[3] % block for name in self.inputs[:-1]):
            self._select(at)
            return
        first = 0
        for k, (name, part) in enumerate(zip(self.inputs, self.parts, strict=True)):
            channels = at.spec(name).shape[3]
            if part is None and at.joined and self._write_in_place(at, name, first // at.config.lanes):
                first += channels
                continue
            scale, requant = part if part is not None else (IDENTITY_SCALE, identity_requant(channels))
            at.elementwise(
                self, [name], out, [Term(0, scale, Combine.WRITE)], requant, suffix=f".{k}", channels=channels,
                first_unit=first // at.config.lanes,
            )  # fmt: skip
            first += channels

    def _write_in_place(self, at: Lowering, name: str, unit: int) -> bool:
        """Let what makes a part of a concatenation write it in place; False where somebody else needs the part."""
        makers = [node for node in at.nodes if node.output == name]
        alone = at.graph.consumers(name) == [self] and self.inputs.count(name) == 1 and name not in at.graph.outputs
        sliced = any(name in parts for parts in at.sliced.parts.values())
        if not makers or not alone or sliced or any(name in node.inputs for node in at.nodes):
            return False
        if any(node.lattice.pixels > 1 for node in makers):  # which lie side by side
            return False
        for node in makers:
            node.output = self.output
            node.first_unit += unit
        return True

    def _select(self, at: Lowering) -> None:
        """A 1x1 convolution with a single 1 for each output channel; parts of other scales are rescaled before."""
        inputs: list[str] = []
        columns: list[int] = []
        first = 0
        for k, (name, part) in enumerate(zip(self.inputs, self.parts, strict=True)):
            shape = at.spec(name).shape
            tensor = at.resolve(name)
            if part is not None:
                tensor = f"{self.output}.{k}"
                at.specs[tensor] = TensorSpec(tensor, shape, "int8")
                at.nodes.append(
                    ElementwiseNode(
                        name=f"{self.name}.{k}", layer=at.layer, config=at.config, inputs=[at.resolve(name)],
                        output=tensor, out=at.specs[tensor], terms=[Term(0, part[0], Combine.WRITE)],
                        requant=part[1], channels=shape[3],
                    )
                )  # fmt: skip
            inputs.append(tensor)
            columns += range(first, first + shape[3])
            first += units_for(shape[3], at.config) * at.config.lanes
        select(at, self.name, inputs, self.output, columns)
