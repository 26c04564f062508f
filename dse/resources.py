"""Resources of a Config by structural formulas, and what the boards hold.

DSP and block RAM are counted from the shape of the RTL (``hw/rtl``), not fitted: multipliers, ALU lanes, and every
memory's width and depth mapped to RAMB36/RAMB18. LUT and FF come from :mod:`tilewright.dse.area`, whose weights are
fitted. Where the whole design of the very same Config is kept (``hw/reports``), :func:`reported` gives its counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.config import PRESETS, Config
from tilewright.dse.area import area, fitted
from tilewright.hw.parts import BOARDS, PARTS
from tilewright.isa.spec import UOP_FIELDS, Engine, uop_depth, uop_width

#: DSP48 of one ALU lane's 32 x 32 multiplier, and of the extent checks of LOAD and STORE (rows x stride)
LANE_DSP, EXTENT_DSP = 4, 1
#: modules whose name in a synthesis report is not what a person looks for
_NAMES = {"gemm.dot": "array"}
#: block RAM shapes: depth at each width; widths from 9 on have a write enable per 9 bits
_SHAPES = ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768))
REPORTS = Path(__file__).resolve().parent.parent / "hw" / "reports" / "whole"


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
    """Resources of a Config, all cores together. LUT and FF are off by about :func:`uncertainty`."""
    core = _core(config)
    if config.axi_ports > 1:
        core["port_pair"] = port_pair(config.axi_bits)
    if config.cores == 1:
        return Resources(core)
    times = {name: {kind: config.cores * n for kind, n in counts.items()} for name, counts in core.items()}
    return Resources(times | {"cores": shared(config.cores)})


def port_pair(axi_bits: int) -> dict[str, float]:
    """What joins the two ports of a core (``hw/rtl/port_pair.py``): handshakes, and a register of what is read.

    As Yosys counts.
    """
    return {"lut": 34.0 + 2 * axi_bits, "ff": 19.0 + 2 * axi_bits}


def shared(cores: int) -> dict[str, float]:
    """What several cores share (``hw/rtl/cores.py``): who is spoken to, the answer, and a counter of doorbells for
    each ordered pair. As Yosys counts, to 20 LUTs."""
    if cores == 1:
        return {"lut": 0.0, "ff": 0.0}
    pairs = cores * (cores - 1)
    return {"lut": 11.0 + 28 * cores + 5.3 * pairs, "ff": 74.0 + 3 * cores + 7 * pairs}


def _core(config: Config) -> dict[str, dict[str, float]]:
    multipliers = config.batch * config.block_in * config.block_out // (2 if config.dsp_packing else 1)
    lanes = config.batch * config.block_out
    acc_bits = 8 * config.out_units * config.acc_unit_bytes
    wgt_bits = 8 * config.wgt_entry_bytes
    acc_rows = config.acc_units // config.out_units
    modules: dict[str, dict[str, float]] = {_NAMES.get(name, name): dict(found) for name, found in area(config).items()}
    modules["array"]["dsp"] = multipliers
    modules["alu.lane"]["dsp"] = LANE_DSP * lanes
    modules["load"]["dsp"] = modules["store"]["dsp"] = EXTENT_DSP
    for name, blocks in (
        ("act", act_rams(config)),
        ("acc", config.acc_banks * block_rams(acc_bits, acc_rows // config.acc_banks, acc_bits // config.bus_bits)),
        ("wgt", block_rams(wgt_bits, config.wgt_entries, wgt_bits // config.bus_bits)),
        ("uop_gemm", _uop_rams(config, Engine.GEMM)),
        ("uop_alu", _uop_rams(config, Engine.ALU)),
        ("table", lanes / 2),
        ("trace", 1.0),
    ):
        modules[name] = {"bram36": blocks}
    return modules


def act_rams(config: Config) -> float:
    """36 Kbit blocks of act."""
    bits = 8 * config.act_row_units * config.act_unit_bytes
    return config.act_banks * block_rams(bits, config.act_bank_units // config.act_row_units, bits // config.bus_bits)


def uncertainty(board: str) -> dict[str, float]:
    """Largest relative error of ``lut`` and ``ff`` on a whole design that the fit for a board's family has not seen."""
    return {kind: float(seen["worst"]) for kind, seen in fitted(board)["error"].items()}


def block_rams(width: int, depth: int, chunks: int = 1, used: int | None = None) -> float:
    """36 Kbit blocks of one memory: the cheapest of the primitive's shapes, a RAMB18 counting one half.

    ``chunks`` parts of the width have write enables of their own: a part takes whole 9-bit lanes, of which a
    narrower primitive than 9 bits has one alone. If only the low ``used`` bits are read, the shape is still that of
    the whole width (Yosys finds out later), and primitives of which no bit is read are not built.
    """
    return min(_mappings(width, depth, chunks, width if used is None else used))[-1]


def _mappings(width: int, depth: int, chunks: int, used: int) -> Iterator[tuple[float, int, float]]:
    """Of each shape the blocks of the whole width, a rank among equal ones, and the blocks of what is used."""
    part = -(-(width // chunks) // 9)  # 9-bit lanes of a part
    for whole, rows in _SHAPES:
        behind = -(-depth // rows)
        for bits, size in ((whole, 1.0), (whole // 2, 0.5)):
            if chunks == 1 and bits:
                across, kept = -(-width // bits), -(-used // bits)
            elif chunks > 1 and bits >= 9:
                across = kept = -(-chunks * part // (bits // 9))
            elif chunks > 1 and size == 1.0:
                across = kept = chunks * -(-(width // chunks) // bits)
            else:
                continue
            # few behind each other are better, and one RAMB36 than two RAMB18
            yield size * across * behind, behind + (size < 1.0), size * kept * behind


def _uop_rams(config: Config, engine: Engine) -> float:
    """Micro-op memories: of a row, no field uses the top bits of the last micro-op."""
    width = uop_width(config, engine)
    per_row = max(1, config.bus_bits // width)
    chunks = max(width, config.bus_bits) // config.bus_bits
    row = max(width, config.bus_bits)
    used = row - width + sum(field.bits(config) for field in UOP_FIELDS[engine])
    return block_rams(row, max(1, uop_depth(config, engine) // per_row), chunks, used)


def limits(board: str) -> dict[str, int]:
    """What a board's part holds. Raises :class:`KeyError` for an unknown board."""
    return PARTS[BOARDS[board]]


def excess(used: Resources, board: str, max_lut: float = 100.0) -> str | None:
    """Why a Config does not fit a board, of whose LUTs ``max_lut`` percent may be used; None if it does."""
    limit = limits(board)
    for name, what in (
        ("dsp", "DSP slices"), ("bram36", "36 Kbit block RAMs"), ("lut", "LUTs"), ("ff", "flip-flops"),
    ):  # fmt: skip
        count = used.total(name)
        if count > limit[name] * (max_lut / 100 if name == "lut" else 1):
            largest = max(used.modules, key=lambda module: used.modules[module].get(name, 0.0))
            alone = used.modules[largest][name]
            needed, most = shown(count), shown(alone)
            there = f"there are {limit[name]}"
            if count <= limit[name]:
                there += f", of which {max_lut:g} % may be used (--max-lut)"
            return f"{board}: {needed} {what} are needed, {there}; {largest} alone takes {most}"
    return None


def shown(count: float) -> str:
    """A count as people write it: whole, or a half of a block RAM."""
    return f"{round(2 * count) / 2:g}" if count < 1000 else f"{round(count)}"


def reported(config: Config, folder: Path = REPORTS) -> dict[str, Any] | None:
    """LUT, FF, DSP and BRAM of a kept report of exactly this hardware; or None.

    Reports are of presets.
    """
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text())
        if report["fingerprint"] == config.fingerprint and PRESETS[report["config"]].hardware == config.hardware:
            return {**report["used"], "tool": report["tool"], "part": report["part"]}
    return None
