"""The Configs that proofs are made for."""

from __future__ import annotations

from tilewright.config import PRESETS, Config

SMALL = PRESETS["tiny"].replace(burst_beats=4, outstanding=2, fetch_beats=16, token_depth=3, queue_depth=2)
#: (axi_version, axi_bits, burst_beats): the longest bursts of both versions on every bus width, and short ones
BUSES = [
    (3, 32, 16), (3, 64, 16), (3, 128, 16), (3, 256, 16), (3, 512, 16), (3, 64, 1), (3, 64, 4),
    (4, 32, 256), (4, 64, 256), (4, 128, 256), (4, 256, 128), (4, 512, 64), (4, 64, 2), (4, 32, 1),
]  # fmt: skip


def bus_config(version: int, bits: int, burst: int, outstanding: int = 2) -> Config:
    """A Config with such a bus."""
    return PRESETS["ultra96"].replace(
        batch=4, axi_version=version, axi_bits=bits, burst_beats=burst, fetch_beats=512, outstanding=outstanding
    )
