"""What a board's build of a Config holds: the accelerator, and the logic around it."""

from __future__ import annotations

from functools import lru_cache

from tilewright.config import Config
from tilewright.dse.resources import Resources, resources
from tilewright.hw.parts import FAMILIES, PARTS, part_of

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
    modules = dict(resources(config).modules)
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
