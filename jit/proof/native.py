"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`.

``contract`` allows fused multiply-adds. All arithmetic here is on integers below 2^53, exact either way.
"""

from __future__ import annotations

from pathlib import Path

import tilewright.sim
from tilewright.isa.compiled import compiler, package_folder

_PROOF = Path(__file__).parent

CACHE_FOLDER = package_folder("proof-kernels", _PROOF, Path(str(tilewright.sim.__file__)).parent)

compiled = compiler(CACHE_FOLDER, fastmath={"contract"})
