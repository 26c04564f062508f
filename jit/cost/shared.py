"""What cores that share a DRAM take for one more result: an estimate.

Where cores and DRAM are far apart the slower one decides. Near each other both do, for bursts meet: what the DRAM could
not move at once it has no time to move later. The exponent is that of the simulator on ResNet-18 and MobileNetV2 with
four cores and four limits each, which it met within 5 % when each was one program. Where parts of a network ask for
unlike amounts it is too fast: by 8 % on ResNet-18 in three programs before 32 bytes a cycle.
"""

from __future__ import annotations

from tilewright.config import Config

_EXPONENT = 3.0


def shared_interval(config: Config, cycles: float, dram_bytes: float) -> float:
    """Cycles from one result to the next with all cores at work side by side.

    ``cycles``: of one result on a core alone, ``dram_bytes``: what it reads and writes.
    """
    free = cycles / config.cores
    if config.cores == 1 or not config.dram_bandwidth:
        return free
    moved = dram_bytes / config.dram_bandwidth
    return float((free**_EXPONENT + moved**_EXPONENT) ** (1 / _EXPONENT))
