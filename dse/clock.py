"""The clock that a Config's whole design suggests, per board: an estimate, never a timing closure.

The candidates for the longest path are written down as cells and nets, found where flattened designs have theirs
(``hw/reports/whole``, ``bench/results/whole.json``); cells' delays are those of :mod:`tilewright.hw.timing`.
Nets are not known without place and route: ``low``, ``mhz`` and ``high`` are long, usual and short ones. Packing is
taken off all three, as in :func:`tilewright.hw.timing.whole.packed_mhz`, by which the presets' clocks are judged.

Yosys saves LUTs wherever a path has time to spare, so many paths come to be as long as the longest that it cannot
shorten; that one is of the control logic, and hardly changes with the sizes of array and memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.hw.parts import BOARDS, FAMILIES
from tilewright.hw.timing.analysis import JUDGED, NETS
from tilewright.hw.timing.delays import DELAYS
from tilewright.hw.timing.whole import packed_mhz


@dataclass(frozen=True)
class Path:
    """One path from register to register: how often it meets each of :class:`tilewright.hw.timing.delays.Delays`."""

    name: str
    cells: Mapping[str, int]
    nets: int

    def period(self, family: str, net: float) -> float:
        """Nanoseconds in a family with nets of ``net`` each."""
        return sum(getattr(DELAYS[family], cell) * n for cell, n in self.cells.items()) + self.nets * net


@dataclass(frozen=True)
class ClockEstimate:
    """MHz expected after packing, its range, and the path that limits it."""

    mhz: float
    low: float
    high: float
    path: str


class ClockError(TilewrightError):
    """A family or board without delays."""


def paths(config: Config, family: str) -> list[Path]:
    """The candidates for the longest path of a Config in a family."""
    found = [
        Path("LOAD: the tile behind to its end", Counter(ff_cq=1, lutram_read=1, lut=6, ff_su=1), 8),
        Path("issue: what is below a fault", Counter(ff_cq=1, lut=6, carry_in=1, carry_chain=1, ff_su=1), 8),
        Path("ALU: rounding mode to the multiplier's sum", Counter(srl_cq=1, lut=3, carry_in=1, dsp_add=1), 5),
    ]
    if family == "xc7" and config.act_unit_bytes > config.beat_bytes:  # a tile's beats are of its units and their parts
        extent = Counter(ff_cq=1, lut=5, carry_in=1, carry_chain=5, carry_out=1, dsp_su=1)
        found.append(Path("LOAD: beats of a tile to its extent", extent, 7))
    if config.dsp_packing:
        # two weights become one operand: sums of one bit more than a weight, four to a carry cell
        blocks = -(-(config.weight_bits + 1) // 4)
        operand = Counter(lut=1, carry_in=1, carry_chain=max(0, blocks - 2), carry_out=int(blocks > 1))
        product = Counter(ff_cq=1, dsp_multiply=1)
        if family == "xcup":  # Yosys leaves that sum and the one of two products outside DSP48E2
            after = Counter(lut=2, carry_in=1, carry_chain=6, carry_out=1, ff_su=1)
            found.append(Path("GEMM: two weights to the sum of two products", product + operand + after, 6))
        elif config.batch > 1:  # images share the operand, so no slice's own adder makes it
            found.append(Path("GEMM: two weights to two multipliers", product + operand + Counter(dsp_add=1), 4))
        else:
            found.append(Path("GEMM: two products of one multiplier", product + Counter(dsp_add=1), 2))
    return found


def period(config: Config, family: str, net: float) -> float:
    """Nanoseconds of the longest path before packing, with nets of ``net`` ns."""
    return max(path.period(family, net) for path in paths(config, family))


def estimate(config: Config, target: str | None = None) -> ClockEstimate:
    """The clock of a Config on a board or family (``xc7``, ``xcup``; default: the Config's board, else ``xc7``).

    Raises :class:`ClockError` naming the known targets for any other.
    """
    name = target or config.board or "xc7"
    part = BOARDS.get(name, "")
    family = FAMILIES[part] if part else name
    if family not in DELAYS:
        raise ClockError(f"{name}: no delays for it; there are some for {', '.join([*DELAYS, *BOARDS])}")
    worst = max(paths(config, family), key=lambda path: path.period(family, JUDGED))
    mhz, low, high = (
        round(packed_mhz(period(config, family, net)), 1) for net in (JUDGED, max(NETS), min(NETS))
    )  # fmt: skip
    return ClockEstimate(mhz, low, high, worst.name)
