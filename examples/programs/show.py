"""What the programs of this folder print: cycles, against the lower bound, and whether NumPy agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.isa.program import Program
from tilewright.runtime.report.run import busiest
from tilewright.sim import run_program


def show(program: Program, inputs: dict[str, Any], expected: Callable[..., dict[str, Any]]) -> None:
    """Simulate a program and compare it with NumPy. Raises :class:`AssertionError` where they differ."""
    result = run_program(program, inputs)
    for name, values in expected(**inputs).items():
        np.testing.assert_array_equal(result.outputs[name], values, name)
    what, least = busiest(program)
    name, ratio = program.meta["layers"][0]["name"], result.cycles / least
    print(f"{name}: {result.cycles:,} cycles, {ratio:.2f}x the lower bound of {least:,} ({what}), equal to NumPy")
