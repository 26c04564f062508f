"""What can be wrong with a user's model, and with what the compiler made of it."""

from __future__ import annotations

from tilewright.errors import TilewrightError

__all__ = ["FloatModule", "ModelError", "NeedsHost", "PlaceError", "ProofError", "Unfollowed", "Unsupported"]


class ModelError(TilewrightError):
    """A model file cannot be imported: one line naming the file, what is wrong, where, and the way out."""


class FloatModule(UserWarning):
    """A Relax module has nothing quantised in it, so all of it stays with TVM."""


class PlaceError(TilewrightError):
    """An operator cannot run on the accelerator with this Config; names operator, shape, limit, way out."""


class ProofError(TilewrightError):
    """A program does not compute its graph: names the output, the first wrong element, how many, and where from."""


class Unfollowed(Exception):
    """A program or graph has something in it that the proof's algebra cannot express; says what."""


class Unsupported(Exception):
    """An operator (or this form of it) has no exact integer lowering; it stays in Relax, with this reason."""


class NeedsHost(Exception):
    """Operators of a model file must be left to its interpreter: by position in the file, the reason of each."""

    def __init__(self, operators: dict[int, str], message: str) -> None:
        super().__init__(message)
        self.operators = operators
