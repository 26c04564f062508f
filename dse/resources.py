"""Resources of a Config by structural formulas, and what the boards hold.

DSP and block RAM are counted from the shape of the RTL (``hw/rtl``), not fitted: multipliers, ALU lanes, and every
memory's width and depth mapped to RAMB36/RAMB18. LUT and FF come from :mod:`tilewright.dse.area`, whose weights are
fitted. Where a synthesis report of the very same Config is kept (``hw/reports``), :func:`reported` gives its counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.dse.area import area, fitted
from tilewright.hw.parts import BOARDS, PARTS
from tilewright.isa.spec import UOP_FIELDS, Engine, uop_depth, uop_width

#: DSP48 of one ALU lane's 32 x 32 multiplier, and of the extent checks of LOAD and STORE (rows x stride)
LANE_DSP, EXTENT_DSP = 4, 1
#: modules whose name in a synthesis report is not what a person looks for
_NAMES = {"gemm.dot": "array"}
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


@lru_cache(maxsize=4096)
def resources(config: Config) -> Resources:
    """Resources of a Config. LUT and FF are off by about :func:`uncertainty`."""
    multipliers = config.batch * config.block_in * config.block_out // (2 if config.dsp_packing else 1)
    lanes = config.batch * config.block_out
    act_row = max(config.in_units, config.out_units)
    act_bits, acc_bits = 8 * act_row * config.act_unit_bytes, 8 * config.out_units * config.acc_unit_bytes
    wgt_bits = 8 * config.wgt_entry_bytes
    act_rows, acc_rows = config.act_units // act_row, config.acc_units // config.out_units
    modules: dict[str, dict[str, float]] = {_NAMES.get(name, name): dict(found) for name, found in area(config).items()}
    modules["array"]["dsp"] = multipliers
    modules["alu.lane"]["dsp"] = LANE_DSP * lanes
    modules["load"]["dsp"] = modules["store"]["dsp"] = EXTENT_DSP
    for name, blocks in (
        ("act", config.act_banks * block_rams(act_bits, act_rows // config.act_banks, act_bits // config.axi_bits)),
        ("acc", config.acc_banks * block_rams(acc_bits, acc_rows // config.acc_banks, acc_bits // config.axi_bits)),
        ("wgt", block_rams(wgt_bits, config.wgt_entries, wgt_bits // config.axi_bits)),
        ("uop_gemm", _uop_rams(config, Engine.GEMM)),
        ("uop_alu", _uop_rams(config, Engine.ALU)),
    ):
        modules[name] = {"bram36": blocks}
    return Resources(modules)


def uncertainty() -> dict[str, float]:
    """Largest relative error of ``lut`` and ``ff`` on Configs that the fit of the area model has not seen."""
    return {kind: float(seen["worst"]) for kind, seen in fitted()["error"].items()}


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
    """Micro-op memories. Of a row of GEMM's, Yosys does not build the top bits that no field uses; of ALU's it does."""
    width = uop_width(config, engine)
    per_row = max(1, config.axi_bits // width)
    chunks = max(width, config.axi_bits) // config.axi_bits
    row = max(width, config.axi_bits)
    if engine is Engine.GEMM and chunks == 1:
        row += sum(field.bits(config) for field in UOP_FIELDS[engine]) - width
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
