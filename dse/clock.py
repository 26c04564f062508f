"""The clock that a Config's logic depth suggests, per board: an estimate, never a timing closure.

Paths from register to register that can be the longest are written down as delay of the logic and number of nets. The
delay of the logic is what Yosys' ``sta`` finds on the mapped units (``ps`` in ``hw/reports``), with the cell delays
that Project X-Ray measured on Artix-7, whose fabric is that of the Zynq-7000; the part that varies with the Config
follows the structure. Nets are not known without place and route, and no place and route of a Xilinx part was run:
``low`` and ``high`` are what long and short nets would make of it.

UltraScale+ is scaled from 7 series by the data sheets' limits of the hard blocks in the slowest grade: block RAM 388
and 645 MHz, DSP 464 and 645 MHz (DS187, DS925), so 0.60 to 0.72 of every delay; the ZCU104's part is a grade faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.hw.parts import BOARDS, FAMILIES

#: nanoseconds of a 7-series net of grade -1: short, usual, long
NETS = (0.45, 0.70, 1.00)
#: of 7 series' delays: least, usual, most
SCALES = {"xc7": (1.0, 1.0, 1.0), "xcup": (0.60, 0.66, 0.72)}
#: of the family's slowest grade
GRADES = {"XCZU7EV": 0.87}
LUT, ADDER = 0.40, 1.25  #: a look-up table; an adder of 20 bits with what brings its operands together


@dataclass(frozen=True)
class Path:
    """One register-to-register path: nanoseconds of logic in 7 series, nets that it goes along."""

    name: str
    logic: float
    nets: int

    def period(self, net: float) -> float:
        """Nanoseconds in 7 series with nets of ``net`` each."""
        return self.logic + self.nets * net


@dataclass(frozen=True)
class ClockEstimate:
    """MHz expected, its range, and the path that limits it."""

    mhz: float
    low: float
    high: float
    path: str


class ClockError(TilewrightError):
    """A family or board without delays."""


def paths(config: Config) -> list[Path]:
    """The candidates for the longest path of a Config."""
    products = config.batch * config.block_in * config.block_out
    reach = (products >= 256) + (products >= 1024)  # nets across an array that fills much of a die
    levels = max(0, int(log2(config.block_in)) - 2)
    row_units = max(config.in_units, config.out_units)
    select = int(log2(row_units) + 1) // 2  # levels of 4:1 multiplexers
    banks = int(log2(max(config.act_banks, config.acc_banks)) + 1) // 2
    if config.dsp_packing:
        product = Path("GEMM stage 7: weights packed, then the multiplier", 4.45, 4 + reach)
    else:
        product = Path("GEMM stage 9: products summed along the DSP column", 4.37, 3 + reach)
    return [
        product,
        Path("GEMM stage 10: adder tree of a dot product", 0.30 + levels * ADDER, 2 * levels),
        Path("GEMM stage 10: forwarding", 3.0 + (1 + select) * LUT, 4 + select + reach),
        Path("ALU lane: total, shift, clamp", 4.39, 5),
        Path("act and acc: banks and units", 2.0 + (banks + select) * LUT, 3 + banks + select + reach),
        # the issue unit's own 3.1 ns go on into an engine's loop registers
        Path("issue: instruction number and tokens to an engine's loops", 3.1 + 2 * LUT, 7),
        Path("STORE: extent check", 4.09, 5),
    ]


def estimate(config: Config, target: str | None = None) -> ClockEstimate:
    """The clock of a Config on a board or family (``xc7``, ``xcup``; default: the Config's board, else ``xc7``).

    Raises :class:`ClockError` naming the known targets for any other.
    """
    name = target or config.board or "xc7"
    part = BOARDS.get(name, "")
    family = FAMILIES[part] if part else name
    if family not in SCALES:
        raise ClockError(f"{name}: no delays for it; there are some for {', '.join([*SCALES, *BOARDS])}")
    grade = GRADES.get(part, 1.0)
    found = paths(config)
    worst = max(found, key=lambda path: path.period(NETS[1]))
    least, usual, most = (
        round(1e3 / (max(path.period(net) for path in found) * scale * grade), 1)
        for net, scale in zip(NETS, SCALES[family])
    )
    return ClockEstimate(usual, most, least, worst.name)
