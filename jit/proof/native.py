"""The Numba decorator of this package; see :mod:`tilewright.sim.compiled`.

``contract`` allows fused multiply-adds. All arithmetic here is on integers below 2^53, exact either way.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.sim.compiled import compiler, package_folder

CACHE_FOLDER = package_folder("proof-kernels", Path(__file__).parent)

compiled = compiler(CACHE_FOLDER, fastmath={"contract"})
