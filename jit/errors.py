"""What can be wrong with a user's model."""

from __future__ import annotations

from tilewright.errors import TilewrightError

__all__ = ["ModelError", "NeedsHost", "ProofError", "Unsupported"]


class ModelError(TilewrightError):
    """A model file cannot be imported: one line naming the file, what is wrong, where, and the way out."""


class Unsupported(Exception):
    """An operator (or this form of it) has no exact integer lowering; it stays in Relax, with this reason."""


class ProofError(TilewrightError):
    """A program does not compute its graph: a defect of the compiler; names the tensor and the first wrong element."""


class NeedsHost(Exception):
    """Operators of a model file must be left to its interpreter: by position in the file, the reason of each."""

    def __init__(self, operators: dict[int, str], message: str) -> None:
        super().__init__(message)
        self.operators = operators
