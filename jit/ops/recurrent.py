"""Recurrent: operators that keep states from one inference to the next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from tilewright.jit.ir.base import Graph, Op
from tilewright.jit.ir.regions import image_shape
from tilewright.runtime.steps import TensorSpec


@dataclass(kw_only=True)
class Recurrent(Op, ABC):
    """An operator that keeps states from one inference to the next. Its program takes the whole accelerator
    (:mod:`tilewright.jit.recurrent`).

    What the inputs name besides the first is written too: the states that it begins with and ends in. Without them it
    begins with reset ones.
    """

    alone = True
    refusable = False

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.output, *self.inputs[1:]

    @property
    @abstractmethod
    def pixel_macs(self) -> int:
        """Multiply-accumulates for each pixel of the input."""

    @abstractmethod
    def states(self, pixels: int, scale: float) -> list[TensorSpec]:
        """Its states as tensors of int8, for an input of so many pixels and a result of this scale."""

    def macs(self, graph: Graph) -> int:
        return math.prod(image_shape(graph.tensors[self.output].shape)[:3]) * self.pixel_macs
