"""The clock of a routed design: read from nextpnr's report, and made by the PS from a PLL's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tilewright.hw.boards.board import BoardError
from tilewright.hw.boards.openxc7.system import CLOCK

IO_PLL_MHZ = 1000  #: of PYNQ's images; FCLK0 is this over two dividers of six bits (UG585)
DIVIDERS = range(1, 64)
_ROUTED = re.compile(r"^Info: (?:Routing complete|Router[12] time).*$", re.MULTILINE)
_CLOCK = re.compile(r"^\w+: Max frequency for clock +'([^']*)': ([\d.]+) MHz", re.MULTILINE)


@dataclass(frozen=True)
class Fclk:
    """FCLK0 as the PS makes it."""

    divider_0: int
    divider_1: int

    @property
    def mhz(self) -> float:
        """Its frequency."""
        return IO_PLL_MHZ / (self.divider_0 * self.divider_1)


def routed_mhz(log: Path) -> float:
    """The clock that nextpnr's report allows after routing: what it printed after placement is an estimate.

    Raises :class:`BoardError` if it did not route, or does not say.
    """
    said = log.read_text(errors="replace")
    ends = [match.end() for match in _ROUTED.finditer(said)]
    if not ends:
        raise BoardError(f"{log}: nextpnr-xilinx ended without routing the design")
    found = {name: float(mhz) for name, mhz in _CLOCK.findall(said, ends[-1])}
    if not any(CLOCK in name for name in found):
        raise BoardError(f"{log}: no clock {CLOCK} in the report after routing")
    return min(found.values())


def fit_fclk(limit: float) -> Fclk:
    """The fastest FCLK0 of at most ``limit`` MHz. Raises :class:`BoardError` if the dividers do not reach so low."""
    fitting = [Fclk(a, b) for a in DIVIDERS for b in DIVIDERS if a <= b and IO_PLL_MHZ / (a * b) <= limit]
    if not fitting:
        raise BoardError(f"the PS makes no clock as slow as {limit:g} MHz")
    return max(fitting, key=lambda clock: clock.mhz)
