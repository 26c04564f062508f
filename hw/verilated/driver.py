"""What a driver does with the accelerator's registers, on a :class:`DesignModel`: set up, start, wait, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.model import DesignModel, ModelError
from tilewright.isa import registers
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import PAGE, Program, whole_pages
from tilewright.isa.registers import Control, FaultCode, Status, counter_registers
from tilewright.isa.spec import Engine

PROGRAM_BASE = 1 << 20  #: where programs are put in the model's address space; segments follow, a page apart
SETTLE_CYCLES = 1 << 20  #: within which an idle design has answered


@dataclass(frozen=True)
class RunResult:
    """One start of a program. Times are of the first inference, -1 where an event did not happen.

    ``cycles``, ``read_bytes``, ``write_bytes`` and ``counters`` (``ENGINE_NAME`` as in the register map) are
    the registers' values: of the latest inference.
    """

    cycles: int
    completed: int
    fault: FaultCode | None
    fault_instruction: int
    dispatch: NDArray[np.int64]
    issue: NDArray[np.int64]
    retire: NDArray[np.int64]
    read_bytes: int
    write_bytes: int
    counters: dict[str, int]
    traced: NDArray[np.int64]  #: (instruction, retire cycle) from the trace FIFO, by cycle, then engine
    trace_dropped: int  #: entries that the trace FIFO had no room for


class Driver:
    """Runs programs of one Config on a core of a model of its design.

    Raises :class:`ModelError` if the design is another's.
    """

    def __init__(self, model: DesignModel, config: Config, core: int = 0) -> None:
        self.model, self.config, self.core = model, config, core
        if model.cores != config.cores:
            raise ModelError(f"the design has {model.cores} cores, its config {config.cores}")
        self._offsets = registers.offsets(config, core)
        found = self.read("ID")
        if found != registers.ID_VALUE:
            raise ModelError(f"register ID holds {found:#010x}, not {registers.ID_VALUE:#010x}: no Tilewright design")
        fingerprint = f"{self.read('FINGERPRINT_HIGH'):08x}{self.read('FINGERPRINT_LOW'):08x}"
        if fingerprint != config.fingerprint:
            raise ModelError(f"the design is of config {fingerprint}, the program of {config.fingerprint}")

    def read(self, name: str) -> int:
        """A register by name."""
        return self.model.read(self._offsets[name])

    def write(self, name: str, value: int) -> None:
        """Set a register by name."""
        self.model.write(self._offsets[name], value)

    def read_wide(self, name: str) -> int:
        """A value in a pair of registers ``NAME_LOW``, ``NAME_HIGH``."""
        return self.read(f"{name}_HIGH") << 32 | self.read(f"{name}_LOW")

    def _write_wide(self, name: str, value: int) -> None:
        self.write(f"{name}_LOW", value & 0xFFFFFFFF)
        self.write(f"{name}_HIGH", value >> 32)

    def start(
        self, program: Program, segments: Sequence[NDArray[np.uint8]], repeat: int = 1, watchdog: int = 0
    ) -> None:
        """Lay out DRAM, write the registers and start.

        ``segments`` are used in place, hold all inferences and are in the order of :class:`DramOrder`.
        """
        self.prepare(program, segments, repeat, watchdog)
        self.write("CONTROL", 1 << Control.START)

    def prepare(
        self, program: Program, segments: Sequence[NDArray[np.uint8]], repeat: int = 1, watchdog: int = 0
    ) -> None:
        """All of :meth:`start` but the start itself."""
        beat = self.config.beat_bytes
        code = program.instructions + bytes(-len(program.instructions) % beat)
        words = DramOrder(self.config).arranged(np.frombuffer(code, np.uint8))
        regions = [(PROGRAM_BASE, words, False)]
        self._write_wide("PROGRAM", PROGRAM_BASE)
        self.write("PROGRAM_INSTRUCTIONS", program.instruction_count)
        self.write("PROGRAM_BEATS", len(code) // beat)
        self.write("REPEAT", repeat)
        self.write("WATCHDOG", watchdog)
        self.write("INTERRUPT_ENABLE", 1)
        base = PROGRAM_BASE + whole_pages(words.size) + PAGE
        for index in range(self.config.segments):
            used = index < len(program.segments)
            size = program.segments[index].size if used else 0
            self._write_wide(f"SEGMENT{index}_BASE", base)
            self.write(f"SEGMENT{index}_LIMIT", size // beat)
            self.write(f"SEGMENT{index}_STRIDE", program.segments[index].repeat_stride if used else 0)
            if used:
                writable = program.segments[index].kind != "constant"
                regions.append((base, segments[index], writable))
                base += whole_pages(segments[index].size) + PAGE  # an unmapped page catches what runs over
        self.model.set_regions(regions, self.core)
        self.model.record(program.instruction_count, self.core)

    def finish(self, limit: int) -> bool:
        """Run for at most ``limit`` cycles; whether the program has ended."""
        end = self.model.cycle + limit
        while (left := end - self.model.cycle) > 0 and self.model.run(left):
            if self.interrupts():
                return True
        return False

    def interrupts(self) -> bool:
        """Whether the interrupt line, which is high, is so for this core."""
        return self.config.cores == 1 or bool(self.read("INTERRUPTS") >> self.core & 1)

    def abort(self) -> bool:
        """End a running program by force; whether it has ended."""
        self.write("CONTROL", 1 << Control.ABORT)
        return self.finish(SETTLE_CYCLES)

    def result(self, program: Program) -> RunResult:
        """Events and registers after the end; acknowledges it."""
        seen = self.model.recorded(self.core)
        status, beat = self.read("STATUS"), self.config.beat_bytes
        code = self.read("FAULT_CODE") if status >> Status.FAULT & 1 else 0
        count = program.instruction_count
        dispatch, issue, retire = (np.full(count, -1, np.int64) for _ in range(3))
        dispatch[: len(seen.dispatch)] = seen.dispatch
        for e in Engine:
            mine = np.nonzero(seen.dispatch_engine == e)[0]  # an engine takes its instructions in order
            for times, events in ((issue, seen.issue[e]), (retire, seen.retire[e])):
                times[mine[: len(events)]] = events[: len(mine)]
        counters = {r.name: self.read(r.name) for e in Engine for r in counter_registers(e)}
        traced = [(self.read("TRACE_TAG"), self.read("TRACE_CYCLE")) for _ in range(self.read("TRACE_COUNT"))]
        # entries of one cycle reach the FIFO one after another: put in order
        traced.sort(key=lambda entry: (entry[1], seen.dispatch_engine[entry[0]]))
        result = RunResult(
            cycles=self.read_wide("CYCLES"),
            completed=self.read("COMPLETED"),
            fault=FaultCode(code) if code else None,
            fault_instruction=self.read("FAULT_INSTRUCTION"),
            dispatch=dispatch, issue=issue, retire=retire,
            read_bytes=(self.read("FETCH_BEATS") + self.read("LOAD_BEATS")) * beat,
            write_bytes=self.read("STORE_BEATS") * beat,
            counters=counters,
            traced=np.array(traced, np.int64).reshape(-1, 2),
            trace_dropped=self.read("TRACE_DROPPED"),
        )  # fmt: skip
        self.write("CONTROL", 1 << Control.ACKNOWLEDGE)
        return result

    @staticmethod
    def run_together(drivers: Sequence[Driver], bandwidth: int, delays: Sequence[int], limit: int) -> None:
        """Start what was prepared on several designs, that of driver c in cycle ``delays[c]``, and run all to the end.

        The designs, of one core each, stand for the cores of one: they share a DRAM of ``bandwidth`` bytes a cycle.
        Raises :class:`ModelError` if one has not ended after ``limit`` cycles.
        """
        models = [driver.model for driver in drivers]
        control = drivers[0]._offsets["CONTROL"]
        if not DesignModel.run_together(models, bandwidth, control, 1 << Control.START, delays, limit):
            raise ModelError(f"a program has not ended after {limit} cycles")

    def run(
        self, program: Program, segments: Sequence[NDArray[np.uint8]], *, limit: int, repeat: int = 1, watchdog: int = 0
    ) -> RunResult:
        """Start, run to the end, read back. Raises :class:`ModelError` if it has not ended after ``limit`` cycles."""
        self.start(program, segments, repeat, watchdog)
        if not self.finish(limit):
            raise ModelError(f"the program has not ended after {limit} cycles")
        return self.result(program)
