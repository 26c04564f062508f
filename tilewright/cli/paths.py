"""Which parameters of a command name files, and whether it reads or writes them: said where they are declared.

``Annotated[Path, typer.Option(...), READ]``; :func:`guarded` makes a command that never writes what it reads.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from tilewright.arguments import UsageProblem
from tilewright.files import inputs_kept


class Use(Enum):
    """What a command does with the file that a parameter names."""

    READ = "read"
    WRITTEN = "written"
    FOLDER = "folder"  #: that files are written in


READ, WRITTEN, FOLDER = Use.READ, Use.WRITTEN, Use.FOLDER


def uses(function: Callable[..., Any]) -> dict[str, Use]:
    """By name, the parameters of a command that name files."""
    hints = get_type_hints(function, include_extras=True)
    marks = {name: [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Use)] for name, hint in hints.items()}
    return {name: found[0] for name, found in marks.items() if found}


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """The command, with its inputs kept: an output that is one of them, by whatever name or link, is refused before
    the work and when it is written. So are two outputs of one name, of which the second would replace the first."""
    marked = uses(function)

    @functools.wraps(function)
    def command(*arguments: Any, **named: Any) -> None:
        given = inspect.signature(function).bind(*arguments, **named).arguments
        _refuse_same([(n, p) for n, use in marked.items() if use is WRITTEN for p in _written(given.get(n))])
        with inputs_kept(p for name, use in marked.items() if use is READ for p in _paths(given.get(name))):
            function(*arguments, **named)

    return command


def _paths(value: Any) -> Iterator[str]:
    """The files that a value may name: itself, each of several, before the ``=`` of a weight and behind that of a
    name."""
    for each in value if isinstance(value, list) else [value]:
        if each is not None:
            text = str(each)
            yield text
            if not isinstance(each, Path) and "=" in text:
                yield text.rpartition("=")[0]
                yield text.partition("=")[2]


def _written(value: Any) -> Iterator[Path]:
    """The files that an output names: a path, or behind the ``=`` of each name."""
    if isinstance(value, list):
        yield from (Path(text.partition("=")[2]) for text in value)
    elif value is not None:
        yield value


def _refuse_same(outputs: list[tuple[str, Path]]) -> None:
    known: dict[str, str] = {}
    for name, path in outputs:
        option, place = f"--{name.replace('_', '-')}", os.path.realpath(path)
        other = known.get(place)
        known[place] = option
        if other is not None and not _special(place):
            raise UsageProblem(f"{path}: both {other} and {option} would be written there; give two names")


def _special(place: str) -> bool:
    """Whether something is there that takes one output after another: a device, a pipe."""
    return os.path.exists(place) and not os.path.isfile(place)
