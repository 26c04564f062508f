"""What a program computes: every instruction in program order, on byte-exact memories."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.isa.codec import Table
from tilewright.isa.program import Program, check_program
from tilewright.isa.spec import TABLE_VALUES, TABLES, Memory, Opcode
from tilewright.kinds import instance
from tilewright.ranges import whole
from tilewright.sim.array import gemm
from tilewright.sim.decoded import Decoded, decode_program
from tilewright.sim.move import fill, load, store
from tilewright.sim.native import compiled
from tilewright.sim.result import FunctionalResult
from tilewright.sim.scaling import BIAS, MULTIPLIER, OFFSET, SHIFT
from tilewright.sim.state import Memories, Shape, make_memories, make_shape
from tilewright.sim.vector import alu, requantize, rescale

LOAD, FILL, STORE, GEMM, ALU, REQUANTIZE, RESCALE = (int(op) for op in Opcode if op != Opcode.WAIT)


class SimulationError(TilewrightError):
    """The simulator was called with segments that do not fit the program."""


@compiled
def _run(table: Any, first: int, end: int, segments: Any, m: Memories, s: Shape) -> int:
    """Run the instructions from ``first`` to before ``end``; returns the number of window emits."""
    emits = 0
    for n in range(first, end):
        row = table[n]
        opcode = row.opcode
        if opcode == LOAD:
            load(row, segments[row.segment], m, s)
        elif opcode == GEMM:
            emits += gemm(row, m, s)
        elif opcode == REQUANTIZE:
            requantize(row, m, s)
        elif opcode == RESCALE:
            rescale(row, m, s)
        elif opcode == ALU:
            alu(row, m, s)
        elif opcode == FILL:
            fill(row, m, s)
        elif opcode == STORE:
            store(row, segments[row.segment], m, s)
    return emits


class Functional:
    """A program decoded once, and the memories it runs on; ``run`` may be called any number of times, by one thread
    after another: they take turns."""

    def __init__(self, program: Program, decoded: Decoded | None = None) -> None:
        self.program = program
        check_program(program)
        self._running = threading.Lock()
        self._decoded = decode_program(program) if decoded is None else decoded
        self._shape = make_shape(program.config)
        self._memories = make_memories(program.config)
        self._addresses: NDArray[np.int64] | None = None  #: of the segments
        self.fault = self._decoded.fault
        self._count = len(self._decoded.table) if self.fault is None else self.fault.instruction
        table = self._decoded.table[: self._count]
        stores = table["segment"][table["opcode"] == STORE]
        self._written = set(stores.tolist())
        self._gemm_uops = gemm_uop_count(table)

    def run(self, segments: Sequence[NDArray[np.uint8]]) -> FunctionalResult:
        """Run over the DRAM segments: one C-contiguous uint8 array each, at least the declared size.

        STORE modifies them in place. Memories are zero at the start. On a fault the instructions before the
        faulting one have run, no others.
        """
        with self._running:
            self.begin(segments)
            self.advance(self._count)
            return FunctionalResult(self.fault, self._gemm_uops, self._emits)

    def begin(self, segments: Sequence[NDArray[np.uint8]]) -> None:
        """Make ready to run over segments as :meth:`run` takes them, which must live until the last :meth:`advance`."""
        self._check(segments)
        for memory in self._memories:
            memory.fill(0)
        self._addresses = np.array([s.ctypes.data for s in segments] or [0], np.int64)
        self._done = self._emits = 0

    def advance(self, end: int) -> None:
        """Run on to before instruction ``end``. Raises :class:`SimulationError` before :meth:`begin`."""
        if self._addresses is None:
            raise SimulationError("nothing has begun: begin says over which segments to run")
        end = whole("end", end, 0, error=SimulationError)
        end = min(end, self._count)
        self._emits += int(_run(self._decoded.table, self._done, end, self._addresses, self._memories, self._shape))
        self._done = max(self._done, end)

    def memory(self, memory: Memory) -> NDArray[Any]:
        """A copy of a memory's values after a run.

        ACT: int8 (units, batch, lanes); ACC: int32, likewise; WGT: int8 (entries, BO, BI); PRM: int64
        (entries, BO, 4) of bias, multiplier, offset, shift; UOP: int64 (depth, fields); TABLE: int8 (tables, 256).
        """
        instance("memory", memory, Memory, "one of tilewright.isa.spec.Memory", error=SimulationError)
        m, s = self._memories, self._shape
        if memory == Memory.ACT:
            return m.act.reshape(-1, s.batch, s.lanes).copy()
        if memory in (Memory.ACC, Memory.ACC8):
            return m.acc.reshape(-1, s.batch, s.lanes).copy()
        if memory == Memory.WGT:
            pairs = m.wgt.reshape(-1, s.block_in // 2, s.block_out, 2)
            return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(-1, s.block_out, s.block_in)
        if memory == Memory.TABLE:
            return m.table[: TABLES * TABLE_VALUES].reshape(TABLES, TABLE_VALUES).copy()
        if memory == Memory.PRM:
            return np.ascontiguousarray(m.prm[:, [BIAS, MULTIPLIER, OFFSET, SHIFT]].transpose(0, 2, 1))
        return (m.uop_gemm if memory == Memory.UOP_GEMM else m.uop_alu).copy()

    def _check(self, segments: Sequence[NDArray[np.uint8]]) -> None:
        declared = self.program.segments
        instance("segments", segments, Sequence, "a list of uint8 arrays, one for each segment", error=SimulationError)
        if len(segments) != len(declared):
            raise SimulationError(f"the program has {len(declared)} segments, {len(segments)} buffers were given")
        for index, (segment, buffer) in enumerate(zip(declared, segments)):
            what = f"segment {index} ({segment.name})"
            if not isinstance(buffer, np.ndarray):
                raise SimulationError(f"{what}: needs a contiguous 1-D uint8 array, got {type(buffer).__name__}")
            if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.c_contiguous:
                raise SimulationError(f"{what}: needs a contiguous 1-D uint8 array, got {buffer.ndim}-D {buffer.dtype}")
            if buffer.size < segment.size:
                raise SimulationError(f"{what}: needs {segment.size} bytes, the buffer has {buffer.size}")
            if index in self._written and not buffer.flags.writeable:
                raise SimulationError(f"{what}: the program stores to it, but the buffer is read-only")


def gemm_uop_count(table: Table) -> int:
    """GEMM micro-ops that a decoded table runs."""
    rows = table[table["opcode"] == GEMM]
    return int((rows["outer"] * rows["inner"] * rows["uop_count"]).sum())


def run_together(
    machines: Sequence[Functional],
    segments: Sequence[Sequence[NDArray[np.uint8]]],
    turns: Sequence[tuple[int, int, int]],
) -> None:
    """Run programs of several cores, which share some of their segments, each as in :meth:`Functional.run`.

    ``turns``: (core, first, end), instructions in an order in which all can run:
    :func:`tilewright.isa.verifier.joint_order` has one. Raises :class:`SimulationError` if a program faults.
    """
    for core, (machine, own) in enumerate(zip(machines, segments, strict=True)):
        if machine.fault is not None:
            raise SimulationError(f"core {core}: {machine.fault.message}")
        machine.begin(own)
    for core, _, end in turns:
        machines[core].advance(end)
