"""Reshape: the same elements in another shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.base import Graph, Mask, Op, keep_alike, same_pixels
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts, joined, unknown
from tilewright.jit.ir.regions import image_shape
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.ops.conv2d import Conv2D
from tilewright.runtime.steps import ReshapeStep, Step


@dataclass(kw_only=True)
class Reshape(Op):
    """Same elements in NHWC (row-major) order, other shape."""

    shape: tuple[int, ...]
    refusable = False

    def meaning(self, d: Domain, x: Any) -> Any:
        return x.reshape(self.shape)

    def facts(self, *inputs: Facts) -> Facts:
        (x,) = inputs
        before, after = len(x.same), self.shape[-1]
        return unknown(self.shape) if after % before else joined([x] * (after // before))

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return same_pixels(shapes)

    def keep(self, inputs: list[Mask], outputs: list[Mask], block: int) -> None:
        """Where pixels are put together, a channel goes with all its pixels; where they are cut up, all stay."""
        (source,), (out,) = inputs, outputs
        if len(out) % len(source):
            source[:], out[:] = True, True
        else:
            keep_alike([source, *out.reshape(-1, len(source))])

    def narrowed(self, inputs: list[Mask], out: Mask, shape: tuple[int, ...]) -> Reshape:
        return replace(self, shape=shape)

    def why_host(self, graph: Graph) -> str | None:
        if self.output in graph.outputs:
            return "no arithmetic; done while unpacking"
        if self.inputs[0] in graph.inputs:
            return "no arithmetic; done while packing"
        before, after = (graph.tensors[t].shape for t in (self.inputs[0], self.output))
        if before[:1] != (1,) or after[:1] != (1,) or max(len(before), len(after)) > 4:
            return "no arithmetic; done between launches"
        if image_shape(before) == image_shape(after) or self._flattens(graph, image_shape(after)):
            return None
        return "moves channels between pixels"

    def host_step(self, graph: Graph) -> Step:
        return ReshapeStep(self.inputs[0], self.output, graph.tensors[self.output].shape)

    def lower(self, at: Lowering) -> None:
        """Free where both shapes hold the same pixels; a flattened image is remembered for its consumer."""
        before, after = at.spec(self.inputs[0]).shape, at.image(at.graph.tensors[self.output].shape)
        if before != after:
            if not self._flattens(at.graph, after):
                raise PlaceError(f"{self.name}: reshape {before} -> {after} moves channels between pixels")
            at.flat[self.output] = (before[1], before[2], before[3])
        at.alias[self.output] = at.resolve(self.inputs[0])

    def _flattens(self, graph: Graph, after: tuple[int, int, int, int]) -> bool:
        """Whether it makes a vector of an image, that only layers read which can take the image as well."""
        readers = graph.consumers(self.output)
        return after[1:3] == (1, 1) and all(isinstance(c, Conv2D) and not c.transposed for c in readers)
