"""Numba's decorators of planner and cost model (:mod:`tilewright.isa.compiled`); a division by zero does not raise."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler, package_folder

_PLAN = Path(__file__).parent

_FOLDER = package_folder("plan-kernels", _PLAN, _PLAN.parent / "cost")

compiled = compiler(_FOLDER, error_model="numpy")
#: For what makes no arrays: without Numba's runtime (an option with no public name) references to those in tuples
#: are not counted, which takes ten times as long as the rest of a timeline.
uncounted = compiler(_FOLDER, error_model="numpy", _nrt=False)
inlined = compiler(_FOLDER, error_model="numpy", _nrt=False, forceinline=True)  #: and a piece of a larger function
