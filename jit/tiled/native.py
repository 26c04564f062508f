"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler
from tilewright.isa.machine_code import MachineCode

compiled = compiler(MachineCode("tiled", Path(__file__).parent), interpretable=True)
