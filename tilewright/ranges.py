"""Numbers that a caller gives by name: of the right type and within a range, or an error that says both."""

from __future__ import annotations

import math
import numbers
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.kinds import shown


class ArgumentError(TilewrightError):
    """An argument of another type, or out of its range; names it, and what it may be."""


def whole(
    name: str, value: Any, low: int, high: int | None = None, *, of: str = "",
    error: type[TilewrightError] = ArgumentError,
) -> int:  # fmt: skip
    """``value`` as an int from ``low`` to ``high`` (None: any), ``of`` what. True is no number, and neither is "2"."""
    if type(value) is not bool and isinstance(value, numbers.Integral) and _within(value, low, high):
        return int(value)
    raise error(f"{name} = {shown(value)}: must be an integer {_range(low, high)}{of and ' '}{of}")


def real(
    name: str, value: Any, low: float, high: float | None = None, *, of: str = "",
    error: type[TilewrightError] = ArgumentError,
) -> float:  # fmt: skip
    """``value`` as a finite float from ``low`` to ``high`` (None: any), ``of`` what."""
    number = type(value) is not bool and isinstance(value, numbers.Real) and math.isfinite(value)
    if number and _within(value, low, high):
        return float(value)
    raise error(f"{name} = {shown(value)}: must be a number {_range(low, high)}{of and ' '}{of}")


def flag(name: str, value: Any, *, error: type[TilewrightError] = ArgumentError) -> bool:
    """``value`` if it is True or False: words such as "no" would count as true."""
    if isinstance(value, bool):
        return value
    raise error(f"{name} = {shown(value)}: must be True or False")


def _within(value: Any, low: float, high: float | None) -> bool:
    return bool(low <= value and (high is None or value <= high))


def _range(low: float, high: float | None) -> str:
    return f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"
