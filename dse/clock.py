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
from tilewright.hw.timing.dsp48 import SliceDelays
from tilewright.hw.timing.whole import packed_mhz


@dataclass(frozen=True)
class Path:
    """One path from register to register: how often it meets each of :class:`tilewright.hw.timing.delays.Delays`.

    ``slices``: the ways that it takes in DSP slices, as :class:`tilewright.hw.timing.dsp48.SliceDelays` names them:
    ``to_result.direct.C``. ``port``: the input that it begins at.
    """

    name: str
    cells: Mapping[str, int]
    nets: int
    slices: tuple[str, ...] = ()
    port: str = ""

    def period(self, family: str, net: float) -> float:
        """Nanoseconds in a family with nets of ``net`` each."""
        delays = DELAYS[family]
        inside = sum(_entry(delays.dsp, way) for way in self.slices)
        begins = delays.port(self.port, "input") or 0.0
        return begins + sum(getattr(delays, cell) * n for cell, n in self.cells.items()) + inside + self.nets * net


@dataclass(frozen=True)
class ClockEstimate:
    """MHz expected after packing, its range, and the path that limits it."""

    mhz: float
    low: float
    high: float
    path: str


class ClockError(TilewrightError):
    """A family or board without delays."""


def _entry(delays: SliceDelays, way: str) -> float:
    """The delay that a text like ``to_result.direct.C`` or ``setup.C`` names."""
    first, *names = way.split(".")
    table = getattr(delays, first)
    for name in names:
        table = table[name]
    return float(table)


def paths(config: Config, family: str) -> list[Path]:
    """The candidates for the longest path of a Config in a family."""
    found = [
        Path("LOAD: the tile behind to its end", Counter(ff_cq=1, lutram_read=1, lut=6, ff_su=1), 8),
        Path("ports: a beat to what LOAD does next", Counter(lut=7, ff_su=1), 8, port="m_axi_rvalid"),
        Path("issue: what it waits for to STORE's registers", Counter(ff_cq=1, lut=7, ff_control_su=1), 8),
        Path(
            "ALU: rounding mode to the multiplier's sum", Counter(ff_cq=1, lut=3, carry_in=1), 5,
            ("to_result.direct.C",),
        ),
    ]  # fmt: skip
    if family == "xc7" and config.act_unit_bytes > config.beat_bytes:  # a tile's beats are of its units and their parts
        extent = Counter(ff_cq=1, lut=5, carry_in=1, carry_chain=5, carry_out=1)
        found.append(Path("LOAD: beats of a tile to its extent", extent, 7, ("setup.C",)))
    if not config.dsp_packing:
        after = Counter(lut=1, carry_in=1, carry_chain=3, carry_out=1, ff_su=1)
        two = ("launch.direct.MREG", "cascade", "through.direct.PCIN")
        found.append(Path("GEMM: two products to the sum of four", after, 2, two))
    elif family == "xcup":  # Yosys leaves the sum of two products outside DSP48E2
        after = Counter(ff_cq=1, lut=2, carry_in=1, carry_chain=6, carry_out=1, ff_su=1)
        found.append(Path("GEMM: a product to the sum of two", after, 4, ("through.multiplied.A",)))
    else:  # with several images LUTs join the weights for all of them, and register A of a slice holds the result
        held = "AREG" if config.batch > 1 else "BREG"
        slices = (f"launch.multiplied.{held}", "to_result.direct.C")
        found.append(Path("GEMM: two products of one multiplier", Counter(), 1, slices))
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
