"""The clock of a routed design: read from nextpnr's report, and made by the PS from a PLL's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from tilewright.hw.boards.board import BoardError
from tilewright.hw.boards.openxc7.system import CLOCK
from tilewright.schema import Holds, SchemaError, conform, read_json

IO_PLL_MHZ = 1000  #: of PYNQ's images; FCLK0 is this over two dividers of six bits (UG585)
DIVIDERS = range(1, 64)
_HOLD = re.compile(r"^Info: (\d+) Hold/min time violations", re.MULTILINE)


@dataclass(frozen=True)
class Fclk:
    """FCLK0 as the PS makes it."""

    divider_0: int
    divider_1: int

    @property
    def mhz(self) -> float:
        """Its frequency."""
        return IO_PLL_MHZ / (self.divider_0 * self.divider_1)


class _Clock(TypedDict):
    achieved: float  #: MHz


class _Report(TypedDict):
    fmax: dict[str, Annotated[dict[str, Any], Holds(_Clock)]]


def routed_mhz(report: Path) -> float:
    """The clock that nextpnr's report (``--report``, JSON, written after routing) allows.

    Raises :class:`BoardError` if there is none, or it does not say.
    """
    try:
        written = read_json(report.read_text())
    except OSError as error:
        raise BoardError(f"{report}: nextpnr ended without routing the design") from error
    except ValueError as error:
        raise BoardError(f"{report}: no report of nextpnr's: {error}") from error
    try:
        clocks = conform(Annotated[dict[str, Any], Holds(_Report)], written, "the report")["fmax"]
    except SchemaError as error:
        raise BoardError(f"{report}: no report of nextpnr's: {error}") from error
    found = {name: float(clock["achieved"]) for name, clock in clocks.items()}
    if not any(CLOCK in name for name in found):
        raise BoardError(f"{report}: no clock {CLOCK} among {', '.join(found) or 'none'}")
    return min(found.values())


def hold_violations(log: Path) -> int:
    """Paths that nextpnr's log says are too short after routing."""
    found: list[str] = _HOLD.findall(log.read_text(errors="replace"))
    return int(found[-1]) if found else 0


def fit_fclk(limit: float) -> Fclk:
    """The fastest FCLK0 of at most ``limit`` MHz. Raises :class:`BoardError` if the dividers do not reach so low."""
    fitting = [Fclk(a, b) for a in DIVIDERS for b in DIVIDERS if a <= b and IO_PLL_MHZ / (a * b) <= limit]
    if not fitting:
        raise BoardError(f"the PS makes no clock as slow as {limit:g} MHz")
    return max(fitting, key=lambda clock: clock.mhz)
