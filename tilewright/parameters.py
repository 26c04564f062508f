"""What a parameter of the accelerator is declared with: meaning, unit and range beside the default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """What one parameter of :class:`Config` means and may be. ``low`` and ``high`` are those of a number.

    Programs and their cycles do not depend on a ``cosmetic`` one, so what is compiled for one value runs on another.
    """

    doc: str
    unit: str = ""
    low: int = 0
    high: int = 0
    power_of_two: bool = True
    cosmetic: bool = False
    kind: type = int

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        if self.kind is not int:
            return "text" if self.kind is str else "true or false"
        return f"{'a power of two' if self.power_of_two else 'an integer'} from {self.low} to {self.high}"

    def values(self) -> list[int]:
        """Every value of a number or a flag."""
        if self.kind is bool:
            return [False, True]
        if not self.power_of_two:
            return list(range(self.low, self.high + 1))
        return [1 << k for k in range(self.low.bit_length() - 1, self.high.bit_length()) if self.low <= 1 << k]

    def allows(self, value: object) -> bool:
        """Whether the value is of the right type, and within the range."""
        if self.kind is int and isinstance(value, int) and not isinstance(value, bool):
            return self.low <= value <= self.high and not (self.power_of_two and value & (value - 1))
        return self.kind is not int and isinstance(value, self.kind)


def declared(default: int | str, doc: str, unit: str = "", low: int = 0, high: int = 0, **more: Any) -> Any:
    """The field of a parameter; ``more``: what else :class:`Parameter` takes."""
    return field(default=default, metadata={"parameter": Parameter(doc, unit, low, high, kind=type(default), **more)})
