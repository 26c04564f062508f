"""DSP and block RAM of a Config by structural formulas, and what the boards hold.

Counted from the shape of the RTL (``hw/rtl``), not fitted: multipliers, ALU lanes, and every memory's width and
depth mapped to RAMB36/RAMB18. LUT and FF are not modelled; where a synthesis report of the very same Config is
kept (``hw/reports``), :func:`reported` gives its counts.
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
    "XC7Z020": {"dsp": 220, "bram36": 140, "lut": 53200},
    "XCZU3EG": {"dsp": 360, "bram36": 216, "lut": 70560},
    "XCZU7EV": {"dsp": 1728, "bram36": 312, "lut": 230400},
    "XCK26": {"dsp": 1248, "bram36": 144, "lut": 117120},
}
BOARDS = {
    "pynq-z1": "XC7Z020", "pynq-z2": "XC7Z020", "ultra96": "XCZU3EG", "zcu104": "XCZU7EV", "kv260": "XCK26",
}  # fmt: skip

#: DSP48 of one ALU lane's 32 x 32 multiplier, and of the extent checks of LOAD and STORE (rows x stride)
LANE_DSP, EXTENT_DSP = 4, 1
#: block RAM shapes: depth at each width; widths from 9 on have a write enable per 9 bits
_SHAPES = ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768))
REPORTS = Path(__file__).resolve().parent.parent / "hw" / "reports"


@dataclass(frozen=True)
class Resources:
    """Counts of a Config; ``dsp_by`` and ``bram_by`` say which module takes them."""

    dsp_by: dict[str, int]
    bram_by: dict[str, float]

    @property
    def dsp(self) -> int:
        """DSP48 slices."""
        return sum(self.dsp_by.values())

    @property
    def bram36(self) -> float:
        """36 Kbit block RAMs; a RAMB18 counts one half."""
        return sum(self.bram_by.values())


def resources(config: Config) -> Resources:
    """DSP and block RAM of a Config."""
    multipliers = config.batch * config.block_in * config.block_out // (2 if config.dsp_packing else 1)
    lanes = config.batch * config.block_out
    dsp = {"array": multipliers, "alu": LANE_DSP * lanes, "load": EXTENT_DSP, "store": EXTENT_DSP}
    act_row = max(config.in_units, config.out_units)
    act_bits, acc_bits = 8 * act_row * config.act_unit_bytes, 8 * config.out_units * config.acc_unit_bytes
    bram = {
        "act": config.act_banks
        * block_rams(act_bits, config.act_units // act_row // config.act_banks, act_bits // config.axi_bits),
        "acc": config.acc_banks
        * block_rams(acc_bits, config.acc_units // config.out_units // config.acc_banks, acc_bits // config.axi_bits),
        "wgt": block_rams(
            8 * config.wgt_entry_bytes, config.wgt_entries, 8 * config.wgt_entry_bytes // config.axi_bits
        ),
        "uop_gemm": _uop_rams(config, Engine.GEMM),
        "uop_alu": _uop_rams(config, Engine.ALU),
    }
    return Resources(dsp, bram)


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
    for name, count, what in (("dsp", used.dsp, "DSP slices"), ("bram36", used.bram36, "36 Kbit block RAMs")):
        if count > limit[name]:
            by = used.dsp_by if name == "dsp" else used.bram_by
            largest = max(by, key=by.__getitem__)
            return (
                f"{board}: {count:g} {what} are needed, there are {limit[name]}; {largest} alone takes {by[largest]:g}"
            )
    return None


def reported(config: Config, folder: Path = REPORTS) -> dict[str, Any] | None:
    """LUT, FF, DSP and BRAM of a kept synthesis report of exactly this Config, with the tool; None without one."""
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text())
        if report.get("fingerprint") == config.fingerprint and "LUT" in report.get("used", {}):
            return {**report["used"], "tool": report["tool"], "part": report["part"]}
    return None
