"""The clock that a Config's logic depth suggests, per FPGA family: an estimate, never a timing closure.

Every path from register to register that can be the longest is written down as what the RTL builds: look-up tables,
carry chains, a multiplier, and the nets between them. The slowest one gives the clock. No place and route of a Xilinx
part was run: ``low`` and ``high`` span what routing may make of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from tilewright.config import Config
from tilewright.dse.resources import BOARDS
from tilewright.errors import TilewrightError

#: family of each part
FAMILIES = {"XC7Z020": "xc7", "XCZU3EG": "xcup", "XCZU7EV": "xcup", "XCK26": "xcup"}


@dataclass(frozen=True)
class Delays:
    """Delays of a family in nanoseconds; a net's as (short, usual, long)."""

    register: float  #: clock to output, and set-up at the end
    lut: float
    carry: float  #: of four bits
    carry_in_out: float  #: onto the chain and off it
    multiplier: float  #: DSP operand to its internal register
    memory: float  #: clock to output of a block RAM's output register
    net: tuple[float, float, float]


DELAYS = {
    "xc7": Delays(0.56, 0.124, 0.114, 0.90, 2.74, 0.88, (0.45, 0.75, 1.10)),
    "xcup": Delays(0.14, 0.10, 0.03, 0.35, 1.10, 0.45, (0.25, 0.42, 0.65)),
}


@dataclass(frozen=True)
class Path:
    """One register-to-register path: how many of each element it passes; ``fanout_nets``: nets to a whole array."""

    name: str
    luts: int
    carry_bits: tuple[int, ...] = ()
    multiplier: bool = False
    memory: bool = False
    fanout_nets: int = 0

    def period(self, delays: Delays, net: float) -> float:
        """Nanoseconds with nets of ``net`` each."""
        nets = self.luts + len(self.carry_bits) + self.multiplier + self.fanout_nets
        logic = (delays.memory if self.memory else delays.register) + self.luts * delays.lut
        logic += sum(delays.carry_in_out + ceil(bits / 4) * delays.carry for bits in self.carry_bits)
        return logic + (delays.multiplier if self.multiplier else delays.register / 2) + max(1, nets) * net


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
    fan = (
        ceil(log2(config.batch * config.block_in * config.block_out / 64))
        if config.block_in * config.block_out > 64
        else 0
    )
    spread = max(0, fan // 3)  # nets across a larger array
    tree = max(0, int(log2(config.block_in)) - 2)
    units = max(config.in_units, config.out_units)
    banks = max(config.act_banks, config.acc_banks)
    return [
        Path("ALU stage 15: zero point, clamp", 3, (64, 64)),
        Path("ALU stage 12: product and constants", 1, (64,)),
        Path("GEMM stage 11: forward and accumulate", 1, (32,), fanout_nets=spread),
        Path("GEMM stage 10: adder tree", 0, (20,) * tree),
        Path("GEMM stage 8: packed weights to multiplier", 0, (9,), True, True, spread) if config.dsp_packing
        else Path("GEMM stage 8: operand to multiplier", 1, (), True, False, spread),
        Path(f"memories: write select of {banks} banks", 3 + ceil(log2(max(2, units)) / 2), (), fanout_nets=1 + spread),
        Path("issue: tokens to sequencer", 5, (), fanout_nets=1),
        Path("extent check of LOAD and STORE", 2, (34, 35)),
    ]  # fmt: skip


def estimate(config: Config, target: str | None = None) -> ClockEstimate:
    """The clock of a Config on a board or family (``xc7``, ``xcup``; default: the Config's board, else ``xc7``).

    Raises :class:`ClockError` naming the known targets for any other.
    """
    name = target or config.board or "xc7"
    family = FAMILIES[BOARDS[name]] if name in BOARDS else name
    if family not in DELAYS:
        raise ClockError(f"{name}: no delays for it; there are some for {', '.join([*DELAYS, *BOARDS])}")
    delays = DELAYS[family]
    short, usual, long = delays.net
    found = paths(config)
    worst = max(found, key=lambda path: path.period(delays, usual))
    mhz = 1e3 / worst.period(delays, usual)
    low = 1e3 / max(path.period(delays, long) for path in found)
    high = 1e3 / max(path.period(delays, short) for path in found)
    return ClockEstimate(round(mhz, 1), round(low, 1), round(high, 1), worst.name)
