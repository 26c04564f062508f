"""What can be wrong with a user's model."""

from __future__ import annotations

from tilewright.errors import TilewrightError

__all__ = ["ModelError", "Unsupported"]


class ModelError(TilewrightError):
    """A model file cannot be imported: one line naming the file, what is wrong, where, and the way out."""


class Unsupported(Exception):
    """An operator (or this form of it) has no exact integer lowering; it stays in Relax, with this reason."""
