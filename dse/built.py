"""What a board's build of a Config holds: the accelerator as today's RTL has it, and the logic around it.

The weights of :mod:`tilewright.dse.area` were fitted on an RTL whose ALU lanes and packed dot products were larger and
which had no tables. What became of these parts was counted for each alone (``docs/hardware.md``); with that the kept
whole designs (``hw/reports/whole``) are met within 5 % of their LUTs. Flip-flops stay those of the fit, too many rather
than too few.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.config import Config
from tilewright.dse.resources import Resources, act_rams, resources
from tilewright.hw.parts import FAMILIES, PARTS, part_of

#: LUTs of a part today over those when the weights were fitted; of UltraScale+ by ultra96's whole design
_LANE, _PACKED_DOT = {"xc7": 411 / 1249, "xcup": 0.432}, 282 / 688
#: of the tables, by ALU lane: what they add to ALU and to the memories, and half a RAMB36
_TABLES = {"alu": {"lut": 134 / 16}, "memories": {"lut": 128 / 16}, "table": {"bram36": 0.5}}
#: of the control unit since its counters share a RAM and the trace is a block RAM: what whole designs lost at the least
_CONTROL = {"control": {"lut": -1371.0, "ff": -688.0}, "trace": {"bram36": 1.0}}
#: Cores around the accelerator in ``hw/boards/tcl/block_design.tcl``: assumptions, rounded up, for no vendor tool has
#: counted them. Zynq-7000 has a protocol converter, UltraScale+ a SmartConnect; ``_CONVERTER`` stands in front of each
#: memory port of another width or protocol.
_INTERCONNECT = {"xc7": {"lut": 300.0, "ff": 400.0}, "xcup": {"lut": 1000.0, "ff": 1300.0}}
_AROUND = {
    "board.interrupt": {"lut": 150.0, "ff": 200.0},
    "board.reset": {"lut": 20.0, "ff": 40.0},
}
_CONVERTER = {"lut": 3000.0, "ff": 4500.0}


@lru_cache(maxsize=4096)
def built(config: Config, board: str | None) -> Resources:
    """Counts of a Config by module, as built for a board; without one, of the accelerator alone."""
    modules = {name: dict(counts) for name, counts in resources(config).modules.items()}
    modules["alu.lane"]["lut"] *= _LANE[FAMILIES[part_of(config.board)]]
    if config.dsp_packing:
        modules["array"]["lut"] *= _PACKED_DOT
    modules["act"]["bram36"] = config.cores * act_rams(config, config.act_row_units)  # once of a vector each
    for name, more in _TABLES.items():
        counts = modules.setdefault(name, {})
        for kind, each in more.items():
            counts[kind] = counts.get(kind, 0.0) + each * config.batch * config.block_out * config.cores
    for name, change in _CONTROL.items():
        counts = modules.setdefault(name, {})
        for kind, each in change.items():
            counts[kind] = counts.get(kind, 0.0) + each * config.cores
    if board is not None:
        modules["board.interconnect"] = dict(_INTERCONNECT[FAMILIES[part_of(board)]])
        modules |= {name: dict(counts) for name, counts in _AROUND.items()}
        if not _direct(config, board):
            modules["board.converter"] = {kind: config.memory_ports * count for kind, count in _CONVERTER.items()}
    return Resources(modules)


def _direct(config: Config, board: str) -> bool:
    """Whether a memory port takes a core's master as it is (HP ports are AXI3 on Zynq-7000)."""
    part = part_of(board)
    return config.axi_version == (3 if FAMILIES[part] == "xc7" else 4) and config.axi_bits == PARTS[part]["axi_bits"]
