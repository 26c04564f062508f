"""A program with arrays for its inputs: what it computes and how long it takes, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.program import Program
from tilewright.isa.tensors import TensorError, check_array, listed, tensors_of
from tilewright.isa.verifier import verify
from tilewright.kinds import instance, shown
from tilewright.sim.functional import SimulationError
from tilewright.sim.result import TimingResult
from tilewright.sim.simulate import initial_segments, simulate


@dataclass(frozen=True, eq=False)
class ProgramResult:
    """``outputs``: arrays by the name of their segment; ``timing``: cycles, and the times of each instruction."""

    outputs: dict[str, NDArray[Any]]
    timing: TimingResult

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.timing.cycles


def run_program(program: Program, inputs: Mapping[str, NDArray[Any]]) -> ProgramResult:
    """Verify and simulate a program; ``inputs``: an array for each input segment, by name.

    Raises :class:`VerifyError` for a program that is not legal, :class:`TensorError` for arrays that do not fit.
    """
    verify(program)
    buffers = bind_inputs(program, inputs)
    result = simulate(program, buffers)
    if result.fault is not None or result.timing is None:
        raise SimulationError(f"the program ended with a fault: {result.fault and result.fault.message}")
    outputs = {
        tensor.name: tensor.of(buffers[tensor.number])
        for tensor in tensors_of(program).values()
        if tensor.kind == "output"
    }
    return ProgramResult(outputs, result.timing)


def bind_inputs(program: Program, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.uint8]]:
    """Buffers for a program's segments: constants, the inputs given by name, and zeros.

    Raises :class:`TensorError` for an input that is missing, has another dtype or shape, or is none.
    """
    instance("inputs", inputs, Mapping, "arrays by the name of their segment", error=TensorError)
    known = {name: tensor for name, tensor in tensors_of(program).items() if tensor.kind == "input"}
    for name in inputs:
        if name not in known:
            raise TensorError(f"{shown(name)} is no input of the program; its inputs are {listed(known)}")
    buffers = initial_segments(program)
    for name, tensor in known.items():
        if name not in inputs:
            raise TensorError(f"input {tensor} is missing; give an array of that dtype and shape")
        check_array(tensor, inputs[name])
        buffers[tensor.number][: tensor.nbytes] = np.frombuffer(inputs[name].tobytes(), np.uint8)
    return buffers
