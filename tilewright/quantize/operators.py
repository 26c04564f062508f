"""Operators of a float model of either format, and what inferences show of its tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.quantize.base import Array


@dataclass(frozen=True)
class Operator:
    """Of a float model: the tensors that it reads (constants among them) and makes. ``beyond``: why the quantiser
    cannot have it, if it cannot."""

    name: str
    kind: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    beyond: str = ""


@dataclass
class Seen:
    """Of each float32 tensor and constant: the least and the greatest finite value, zero among them, and the mean
    square; and the tensors that are not finite throughout."""

    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    wild: set[str] = field(default_factory=set)
    _squares: dict[str, float] = field(default_factory=dict)
    _elements: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, value: Array) -> None:
        finite = np.isfinite(value)
        if not finite.all():
            self.wild.add(name)
        self.least[name] = min(self.least.get(name, 0.0), float(np.min(value, where=finite, initial=0.0)))
        self.most[name] = max(self.most.get(name, 0.0), float(np.max(value, where=finite, initial=0.0)))
        with np.errstate(all="ignore"):
            self._squares[name] = self._squares.get(name, 0.0) + float(value.reshape(-1) @ value.reshape(-1))
        self._elements[name] = self._elements.get(name, 0) + value.size

    def size(self, name: str) -> float:
        """The greatest magnitude."""
        return max(-self.least[name], self.most[name])

    def mean_square(self, name: str) -> float:
        """Not finite where a square is none of float32."""
        return self._squares[name] / max(self._elements[name], 1)
