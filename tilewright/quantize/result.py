"""What quantising a model gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.files import write_atomic
from tilewright.quantize.loss import LayerLoss


@dataclass(frozen=True)
class Quantised:
    """The quantised model file, what each layer lost (most first), and the shares of right answers before and after.

    ``accuracy``: None without labels. ``inputs``: how many were seen. ``stay``: sentences on layers that stay in
    float32 for a reason of their own, and on results that the interpreter's integer kernels compute otherwise.
    """

    content: bytes
    layers: list[LayerLoss]
    inputs: int
    accuracy: tuple[float, float] | None = None
    stay: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """Write the model file; it appears whole or not at all."""
        write_atomic(path, self.content)
