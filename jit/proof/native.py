"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`.

``contract`` allows fused multiply-adds. All arithmetic here is on integers below 2^53, exact either way.
"""

from __future__ import annotations

from pathlib import Path

import tilewright.sim
from tilewright.isa.compiled import compiler
from tilewright.isa.machine_code import MachineCode

_PROOF = Path(__file__).parent

compiled = compiler(MachineCode("proof", _PROOF, Path(str(tilewright.sim.__file__)).parent), fastmath={"contract"})
