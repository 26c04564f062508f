"""Objects that a caller gives by name: of the right kind, or an error that says which. Imports nothing of the project.

Each check raises the ``error`` that it is given, with one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Error = Callable[[str], Exception]
_LONGEST = 60  #: characters of a value that are shown


def shown(value: Any) -> str:
    """A value in a message: in one line, and of what has no short form its kind."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= _LONGEST and text.isprintable() and text[:1] != "<" else type(value).__name__


def instance(name: str, value: Any, kind: type | tuple[type, ...], wanted: str, *, error: Error) -> None:
    """Refuse what is not an object of a ``kind``, which ``wanted`` calls by name."""
    if not isinstance(value, kind):
        raise error(f"{name} = {shown(value)}: must be {wanted}")


def function(name: str, value: Any, *, error: Error) -> None:
    """Refuse what cannot be called; None, where nobody asks for it, can be left out."""
    if value is not None and not callable(value):
        raise error(f"{name} = {shown(value)}: must be a function")


def path_of(name: str, value: Any, *, error: Error, wanted: str = "a path") -> Path:
    """``value``, text or a path, as a Path."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str):
        raise error(f"{name} = {shown(value)}: must be {wanted}")
    return Path(found)
