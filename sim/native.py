"""The Numba decorators of this package; see :mod:`tilewright.isa.compiled`."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler
from tilewright.isa.machine_code import MachineCode

_SIM = MachineCode("sim", Path(__file__).parent)

compiled = compiler(_SIM, nogil=True)  # several threads may each simulate something
emitted = compiler(_SIM, in_python=False, nogil=True)  #: calls what is written as IR
interpretable = compiler(_SIM, interpretable=True, nogil=True)
