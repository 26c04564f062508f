"""The Numba decorator of planner and cost model (:mod:`tilewright.sim.compiled`); a division by zero does not raise."""

from __future__ import annotations

from pathlib import Path

from tilewright.sim.compiled import compiler, package_folder

_PLAN = Path(__file__).parent

compiled = compiler(package_folder("plan-kernels", _PLAN, _PLAN.parent / "cost"), error_model="numpy")
