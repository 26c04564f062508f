"""What operators work with when they are lowered: the state of a lowering."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.ir.base import Graph, Op, Sliced
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.lower.blocked import Blocked
from tilewright.runtime.steps import PackStep, TensorSpec


class Lowering(Protocol):
    """Nodes so far, and the tensors on the chip that hold the graph's; :mod:`tilewright.jit.lower.rules` makes it."""

    sliced: Sliced
    graph: Graph
    config: Config
    tiled: bool
    joined: bool
    layer: int  #: number of the operator that is lowered
    nodes: list[Node]
    alias: dict[str, str]
    specs: dict[str, TensorSpec]
    packs: dict[str, PackStep]
    blocked: dict[str, Blocked]
    flat: dict[str, tuple[int, int, int]]  #: tensors that are a flattened image: name -> (H, W, C) of the image

    def resolve(self, name: str) -> str:
        """The on-chip tensor that holds a graph tensor."""

    def spec(self, name: str) -> TensorSpec:
        """On-chip spec, shape (1, H, W, C)."""

    def image(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """A tensor's shape on the chip."""

    def output(self, op: Op) -> TensorSpec:
        """Declare an operator's output."""

    def require_whole(self, op: Op, channels: int) -> None:
        """Raises :class:`PlaceError` for channels beside others that are no whole vectors."""

    def elementwise(
        self, op: Op, inputs: list[str], out: TensorSpec, terms: list[Term], requant: Requant, suffix: str = "",
        channels: int = 0, **extra: Any,
    ) -> None:  # fmt: skip
        """Append a node of ALU work."""

    def window(
        self, op: Op, out: TensorSpec, taps: NDArray[np.int8], requants: dict[int, Requant], counts: NDArray[np.int64],
        strides: tuple[int, int], dilation_y: int, pad: tuple[int, int, int, int], pad_constant: int,
    ) -> None:  # fmt: skip
        """Append a node of windows over single channels."""
