"""What lowering rules work with: the state of a lowering, and the images that tensors are."""

from __future__ import annotations

from typing import Any, Protocol

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Requant, TensorSpec
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.plan.slicing import Sliced
from tilewright.runtime.steps import PackStep


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A tensor's shape as (1, H, W, C); vectors become 1x1 images. Raises PlaceError on other ranks or batches."""
    if len(shape) not in (1, 2, 3, 4) or (len(shape) > 1 and shape[0] != 1):
        raise PlaceError(f"shape {shape}: must be (1, H, W, C) or (1, C); export the model with batch 1")
    if len(shape) == 1:
        return 1, 1, 1, shape[0]
    middle = shape[1:-1]
    return 1, middle[0] if len(middle) == 2 else 1, middle[-1] if middle else 1, shape[-1]


class Lowering(Protocol):
    """What the rules that stand in files of their own need of :mod:`tilewright.jit.lower.rules`."""

    graph: Graph
    config: Config
    nodes: list[Node]
    layer: int
    specs: dict[str, TensorSpec]
    packs: dict[str, PackStep]
    blocked: dict[str, Blocked]
    sliced: Sliced
    tiled: bool
    joined: bool

    def resolve(self, name: str) -> str: ...

    def spec(self, name: str) -> TensorSpec: ...

    def output(self, op: g.Op) -> TensorSpec: ...

    def elementwise(
        self, op: g.Op, inputs: list[str], out: TensorSpec, terms: list[Term], requant: Requant, suffix: str = "",
        channels: int = 0, **extra: Any,
    ) -> None: ...  # fmt: skip
