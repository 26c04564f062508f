"""What a program computes, in the algebra: its instructions in program order.

The verifier has shown that program order is one of the orders in which the engines may run, and that all of them
give the same contents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.codec import Table, columns_of
from tilewright.isa.effects import TILES, micro_ops
from tilewright.isa.program import Program
from tilewright.isa.spec import Opcode
from tilewright.jit.errors import ProofError, Unfollowed
from tilewright.jit.proof.array import gemm
from tilewright.jit.proof.machine import Machine, make_machine
from tilewright.jit.proof.move import (
    DATA_AS_CONSTANTS,
    DATA_AS_INT32,
    EXTREME_OF_SUMS,
    FOLLOWED,
    NONLINEAR_ALU,
    fill,
    load,
    store,
)
from tilewright.jit.proof.native import interpretable_in
from tilewright.jit.proof.vector import alu, requantize, rescale
from tilewright.runtime.steps import PackStep, UnpackStep
from tilewright.sim.decoded import decode_program
from tilewright.sim.state import Shape, make_shape

LOAD, FILL, STORE, GEMM, ALU, REQUANTIZE, RESCALE = (int(op) for op in Opcode if op != Opcode.WAIT)

#: why an instruction cannot be followed
REASONS = {
    DATA_AS_CONSTANTS: "it loads parameters, micro-ops, tables or packed weights that the program did not bring along",
    DATA_AS_INT32: "it loads int32 numbers from data, whose elements are bytes",
    NONLINEAR_ALU: "ALU's MAX, MIN, SHR and products of two accumulators are not linear",
    EXTREME_OF_SUMS: "RESCALE joins by MAX or MIN what are not plain int8 values",
}


def _seconds(table: Table, first: int, x: Machine, s: Shape) -> float:
    """How long Python takes, about: for each micro-op and each unit that is moved the same."""
    moved = np.isin(table["opcode"], TILES)
    return 3e-5 * int(np.where(moved, table["rows"] * table["cols"], micro_ops(columns_of(table))).sum())


@interpretable_in(_seconds)
def _run(table: Any, first: int, x: Machine, s: Shape) -> tuple[int, int]:
    """Run instructions, those from ``first`` on; the first that cannot be followed and why, or (the last, FOLLOWED)."""
    for n in range(len(table)):
        row = table[n]
        opcode = row.opcode
        reason = FOLLOWED
        if opcode == LOAD:
            reason = load(row, x, s)
        elif opcode == GEMM:
            gemm(row, x, s)
        elif opcode == REQUANTIZE:
            requantize(row, x, s)
        elif opcode == RESCALE:
            reason = rescale(row, x, s)
        elif opcode == ALU:
            reason = alu(row, x, s)
        elif opcode == FILL:
            fill(row, x, s)
        elif opcode == STORE:
            store(row, first + n, x, s)
        if reason != FOLLOWED:
            return first + n, reason
    return first + len(table) - 1, FOLLOWED


class ProgramSide:
    """A program on the memories of the algebra, its inputs packed as the runtime packs them."""

    def __init__(
        self,
        program: Program,
        packs: Sequence[PackStep],
        inputs: Mapping[str, NDArray[np.float64]],
        seed: int,
        generator: np.random.Generator,
    ) -> None:
        decoded = decode_program(program)
        if decoded.fault is not None:
            raise ProofError(f"{decoded.fault}; only a program that passes the verifier can be proven")
        self.program, self.table, self.shape = program, decoded.table, make_shape(program.config)
        self.machine, self._alive = make_machine(program, seed, generator)
        for pack in packs:
            place = self._place(pack, "input")
            values = np.asarray(inputs[pack.tensor], np.float64)[None] + pack.value_offset
            self.machine.dram[place] = pack.arrange(values)[0]

    def run(self, start: int = 0, stop: int | None = None) -> None:
        """Run a range of instructions (all). Raises :class:`Unfollowed`."""
        number, reason = _run(self.table[start:stop], start, self.machine, self.shape)
        if reason != FOLLOWED:
            opcode = Opcode(int(self.table["opcode"][number])).name
            raise Unfollowed(f"instruction {number} ({opcode}): {REASONS[reason]}")

    def output(self, unpack: UnpackStep) -> NDArray[np.float64]:
        """The elements that an UnpackStep reads."""
        return unpack.collect(self.machine.dram[self._place(unpack, "output")][None])[0]

    def writers(self, unpack: UnpackStep) -> NDArray[np.int64]:
        """For each of them one more than the STORE that wrote it, negative if several did; 0: none."""
        return unpack.collect(self.machine.writer[self._place(unpack, "output")][None])[0]

    def _place(self, step: PackStep | UnpackStep, kind: str) -> slice:
        """Where a step's bytes are in ``dram``."""
        segments = self.program.segments
        what = f"{step.kind} {step.tensor}"
        if step.segment >= len(segments) or segments[step.segment].kind != kind:
            raise ProofError(f"{what}: segment {step.segment} is no {kind} segment of the program")
        if step.offset < 0 or step.offset + step.size > segments[step.segment].size:
            raise ProofError(f"{what}: bytes {step.offset} to {step.offset + step.size} reach outside its segment")
        first = int(self.machine.base[step.segment]) + step.offset
        return slice(first, first + step.size)
