"""What a sweep is called with, looked at before anything is read: types and ranges by the options' names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.kinds import instance, path_of, shown
from tilewright.ranges import real, whole

_MOST = (1 << 32) - 1  #: of seeds, as NumPy takes them, and of counts
#: name -> least
_COUNTS = {"trials": 1, "seed": 0, "batch": 1, "workers": 0, "simulate": 0, "synthesise": 0}
_OPTIONAL = ("trials", "workers", "storage", "scheduler", "weights", "space", "energy_table", "watch")


class SweepArgumentError(TilewrightError):
    """An argument of a sweep of another type, or out of its range; names it, and what it may be."""


def check_arguments(given: Mapping[str, Any]) -> None:
    """Raise :class:`SweepArgumentError` for the first of :func:`tilewright.explore`'s arguments that cannot be."""
    error = SweepArgumentError
    for name, value in given.items():
        if value is None and name in _OPTIONAL:
            continue
        if name in _COUNTS:
            whole(name, value, _COUNTS[name], _MOST, error=error)
        elif name in ("board", "clock", "sampler", "storage", "scheduler"):
            instance(name, value, str, "text", error=error)
        elif name in ("output", "space", "energy_table"):
            path_of(name, value, error=error)
        elif name in ("objective", "values"):
            wanted = "a list of names" if name == "objective" else "a list of texts such as block_in=8,16"
            instance(name, value, Sequence, wanted, error=error)
            _each(name, [value] if isinstance(value, str) and name == "objective" else value, str, "text")
        elif name == "weights":
            instance(name, value, Mapping, "numbers by the names of networks", error=error)
            _each(name, value, str, "a network's name")
            for network, weight in value.items():
                real(f"weights: {network}", weight, 0, error=error)
        elif name == "models":
            many = [value] if isinstance(value, str | Path) else value
            if isinstance(value, np.ndarray) or not isinstance(many, Iterable):
                raise error(f"{name} = {shown(value)}: must be a path, or several")
            if isinstance(many, Sequence):  # what can be gone through once is looked at as it is read
                _each(name, many, (str, Path), "a path")
        elif name == "max_lut":
            real(name, value, 0, 100, of="percent", error=error)
        elif not callable(value):
            raise error(f"{name} = {shown(value)}: must be a function")


def _each(name: str, values: Iterable[Any], kind: type | tuple[type, ...], wanted: str) -> None:
    for value in values:
        instance(f"{name}: one", value, kind, wanted, error=SweepArgumentError)
