"""Resources of a Config by structural formulas, and what the boards hold.

Counted from the shape of the RTL (``hw/rtl``), not fitted: multipliers, ALU lanes, and every memory's width and
depth mapped to RAMB36/RAMB18. LUT and FF are rough (within 30 %). Where a synthesis report of the very same Config
is kept (``hw/reports``), :func:`reported` gives its counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.isa.spec import UOP_FIELDS, Engine, uop_depth, uop_width

#: what a part holds (AMD data sheets DS190, DS891, DS987; block RAM in 36 Kbit blocks)
PARTS = {
    "XC7Z020": {"dsp": 220, "bram36": 140, "lut": 53200, "ff": 106400},
    "XCZU3EG": {"dsp": 360, "bram36": 216, "lut": 70560, "ff": 141120},
    "XCZU7EV": {"dsp": 1728, "bram36": 312, "lut": 230400, "ff": 460800},
    "XCK26": {"dsp": 1248, "bram36": 144, "lut": 117120, "ff": 234240},
}
BOARDS = {
    "pynq-z1": "XC7Z020", "pynq-z2": "XC7Z020", "ultra96": "XCZU3EG", "zcu104": "XCZU7EV", "kv260": "XCK26",
}  # fmt: skip

#: DSP48 of one ALU lane's 32 x 32 multiplier, and of the extent checks of LOAD and STORE (rows x stride)
LANE_DSP, EXTENT_DSP = 4, 1
#: LUT and FF of everything that comes once per channel of a vector, and of the rest: from the reports of two presets
LANE_LUT, LANE_FF, FIXED_LUT, FIXED_FF = 2444, 1837, 7467, 5352
#: block RAM shapes: depth at each width; widths from 9 on have a write enable per 9 bits
_SHAPES = ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768))
REPORTS = Path(__file__).resolve().parent.parent / "hw" / "reports"


@dataclass(frozen=True)
class Resources:
    """Counts of a Config by module: ``modules[name]`` holds ``lut``, ``ff``, ``dsp`` and ``bram36`` of each."""

    modules: dict[str, dict[str, float]]

    def total(self, kind: str) -> float:
        """All modules' count of ``lut``, ``ff``, ``dsp`` or ``bram36``."""
        return sum(counts.get(kind, 0.0) for counts in self.modules.values())

    def by(self, kind: str) -> dict[str, float]:
        """The modules that take any of a kind, with how many."""
        return {name: counts[kind] for name, counts in self.modules.items() if counts.get(kind)}

    @property
    def dsp_by(self) -> dict[str, float]:
        """DSP48 slices by module."""
        return self.by("dsp")

    @property
    def bram_by(self) -> dict[str, float]:
        """36 Kbit block RAMs by module."""
        return self.by("bram36")

    @property
    def dsp(self) -> int:
        """DSP48 slices."""
        return round(self.total("dsp"))

    @property
    def bram36(self) -> float:
        """36 Kbit block RAMs; a RAMB18 counts one half."""
        return self.total("bram36")

    @property
    def lut(self) -> int:
        """Look-up tables, those used as memory included."""
        return round(self.total("lut"))

    @property
    def ff(self) -> int:
        """Flip-flops."""
        return round(self.total("ff"))


def resources(config: Config) -> Resources:
    """Resources of a Config."""
    multipliers = config.batch * config.block_in * config.block_out // (2 if config.dsp_packing else 1)
    lanes = config.batch * config.block_out
    act_row = max(config.in_units, config.out_units)
    act_bits, acc_bits = 8 * act_row * config.act_unit_bytes, 8 * config.out_units * config.acc_unit_bytes
    modules: dict[str, dict[str, float]] = {
        "array": {"dsp": multipliers},
        "alu": {"dsp": LANE_DSP * lanes, "lut": LANE_LUT * lanes, "ff": LANE_FF * lanes},
        "load": {"dsp": EXTENT_DSP},
        "store": {"dsp": EXTENT_DSP},
        "control": {"lut": FIXED_LUT, "ff": FIXED_FF},
        "act": {
            "bram36": config.act_banks
            * block_rams(act_bits, config.act_units // act_row // config.act_banks, act_bits // config.axi_bits)
        },
        "acc": {
            "bram36": config.acc_banks
            * block_rams(
                acc_bits, config.acc_units // config.out_units // config.acc_banks, acc_bits // config.axi_bits
            )
        },
        "wgt": {
            "bram36": block_rams(
                8 * config.wgt_entry_bytes, config.wgt_entries, 8 * config.wgt_entry_bytes // config.axi_bits
            )
        },
        "uop_gemm": {"bram36": _uop_rams(config, Engine.GEMM)},
        "uop_alu": {"bram36": _uop_rams(config, Engine.ALU)},
    }
    return Resources(modules)


def block_rams(width: int, depth: int, chunks: int = 1) -> float:
    """36 Kbit blocks of one memory: the cheapest of the primitive's shapes, a RAMB18 counting one half.

    ``chunks`` parts of the width have write enables of their own: a part takes whole 9-bit lanes, of which a
    narrower primitive than 9 bits has one alone.
    """
    part = width // chunks
    best = float("inf")
    for bits, rows in _SHAPES:
        if chunks == 1:
            across = -(-width // bits)
            half = -(-width // (bits // 2)) if bits > 1 else 0
        else:
            lanes = chunks * -(-part // 9)
            across = -(-lanes // (bits // 9)) if bits >= 9 else chunks * -(-part // bits)
            half = -(-lanes // (bits // 18)) if bits >= 18 else 0
        best = min(best, float(across * -(-depth // rows)))
        if half:
            best = min(best, half * -(-depth // rows) / 2)
    return best


def _uop_rams(config: Config, engine: Engine) -> float:
    """Micro-op memories. Bits that no field uses are not built where a row is one micro-op (seen with Yosys)."""
    width = uop_width(config, engine)
    used = sum(field.bits(config) for field in UOP_FIELDS[engine])
    per_row = max(1, config.axi_bits // width)
    chunks = max(width, config.axi_bits) // config.axi_bits
    row = used if per_row == 1 and chunks == 1 else max(width, config.axi_bits)
    return block_rams(row, max(1, uop_depth(config, engine) // per_row), chunks)


def limits(board: str) -> dict[str, int]:
    """What a board's part holds. Raises :class:`KeyError` for an unknown board."""
    return PARTS[BOARDS[board]]


def excess(used: Resources, board: str) -> str | None:
    """Why a Config does not fit a board; None if it does."""
    limit = limits(board)
    for name, what in (
        ("dsp", "DSP slices"), ("bram36", "36 Kbit block RAMs"), ("lut", "LUTs"), ("ff", "flip-flops"),
    ):  # fmt: skip
        count = used.total(name)
        if count > limit[name]:
            largest = max(used.modules, key=lambda module: used.modules[module].get(name, 0.0))
            alone = used.modules[largest][name]
            return f"{board}: {count:g} {what} are needed, there are {limit[name]}; {largest} alone takes {alone:g}"
    return None


def reported(config: Config, folder: Path = REPORTS) -> dict[str, Any] | None:
    """LUT, FF, DSP and BRAM of a kept synthesis report of exactly this Config, with the tool; None without one."""
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text())
        if report.get("fingerprint") == config.fingerprint and "LUT" in report.get("used", {}):
            return {**report["used"], "tool": report["tool"], "part": report["part"]}
    return None
