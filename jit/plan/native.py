"""Numba's decorators of planner and cost model (:mod:`tilewright.isa.compiled`); a division by zero does not raise."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler
from tilewright.isa.machine_code import MachineCode

_PLAN = Path(__file__).parent

_CODE = MachineCode("plan", _PLAN, _PLAN.parent / "cost")

compiled = compiler(_CODE, interpretable=True, error_model="numpy")
#: For what makes no arrays: without Numba's runtime (an option with no public name) references to those in tuples
#: are not counted, which takes ten times as long as the rest of a timeline.
uncounted = compiler(_CODE, interpretable=True, error_model="numpy", _nrt=False)
#: and a piece of a larger function
inlined = compiler(_CODE, interpretable=True, error_model="numpy", _nrt=False, forceinline=True)
