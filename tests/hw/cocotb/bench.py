"""The accelerator under cocotb: clock, registers, DRAM, and a monitor of the bus rules around every run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from numpy.typing import NDArray

from tests.hw.cocotb.dram import Dram, Region
from tests.hw.cocotb.rules import PAGE, Address, AxiRules, Beat, Cycle
from tests.verification.random_program import random_segments
from tilewright.config import Config, load_config
from tilewright.hw.rtl.ports import masters
from tilewright.isa import registers
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import Control, FaultCode, Status
from tilewright.sim import simulate

__all__ = ["CONFIG", "SEEDS", "Bench", "Outcome", "agree"]

#: the config that the simulator was built for, and the seeds that this run of it is asked to try
CONFIG: Config = load_config(os.environ.get("TILEWRIGHT_BENCH_CONFIG", "tiny"))
SEEDS = range(int(os.environ.get("TILEWRIGHT_BENCH_SEEDS", "1")))

PERIOD_NS = 10
BASE = 0x12_3450_0000  #: where DRAM begins: upper address bits are in use
LIMIT = 40_000  #: cycles that a run may take


@dataclass(frozen=True)
class Outcome:
    """The registers after a run."""

    status: int
    fault: FaultCode | None
    fault_instruction: int
    completed: int
    cycles: int


class Bench:
    """One accelerator. ``drams``, ``watched``: behind each memory port a DRAM, and rules that have seen every cycle of
    it since the last reset; ``dram`` and ``rules``: the first port's."""

    def __init__(self, dut: Any, config: Config = CONFIG, seed: int = 0) -> None:
        self.dut, self.config = dut, config
        self.offsets = registers.offsets(config)
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, "ns").start()
        self.order = DramOrder(config)
        prefixes = masters(config)
        self.drams = [Dram(dut, seed + k, prefix) for k, prefix in enumerate(prefixes)]
        self.watched = [AxiRules(config.replace(axi_ports=1)) for _ in prefixes]
        self.dram, self.rules = self.drams[0], self.watched[0]
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self._watchers = [cocotb.start_soon(self._watch(*port)) for port in zip(prefixes, self.watched)]

    @classmethod
    async def open(cls, dut: Any, seed: int = 0) -> Bench:
        """A bench after reset."""
        bench = cls(dut, seed=seed)
        await bench.reset()
        return bench

    async def reset(self, cycles: int = 4) -> None:
        """Hold reset; what was under way is forgotten on both sides of the bus."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, cycles)
        for dram, rules in zip(self.drams, self.watched):
            dram.restart()
            rules.reset()
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 1)

    async def cycles(self, count: int) -> None:
        """Let time pass."""
        await ClockCycles(self.dut.clk, count)

    # -- registers -------------------------------------------------------------------------------------

    async def read(self, name: str) -> int:
        """A register by name."""
        return int(await self.control.read_dword(self.offsets[name]))

    async def write(self, name: str, value: int) -> None:
        """Set a register by name."""
        await self.control.write_dword(self.offsets[name], value)

    async def _write_wide(self, name: str, value: int) -> None:
        await self.write(f"{name}_LOW", value & 0xFFFFFFFF)
        await self.write(f"{name}_HIGH", value >> 32)

    # -- runs ------------------------------------------------------------------------------------------

    async def start(self, program: Program, segments: list[NDArray[np.uint8]], watchdog: int = 0) -> None:
        """Lay out DRAM (copies of ``segments``, a page unmapped behind each), write the registers, start."""
        beat = self.config.beat_bytes
        code = np.frombuffer(program.instructions + bytes(-len(program.instructions) % beat), np.uint8)
        regions = [Region(BASE, self.order.arranged(code), "program")]
        base = BASE + -(-code.size // PAGE) * PAGE + PAGE
        await self._write_wide("PROGRAM", BASE)
        for name, value in (
            ("PROGRAM_INSTRUCTIONS", program.instruction_count), ("PROGRAM_BEATS", code.size // beat), ("REPEAT", 1),
            ("WATCHDOG", watchdog), ("INTERRUPT_ENABLE", 1),
        ):  # fmt: skip
            await self.write(name, value)
        for index, segment in enumerate(program.segments):
            await self._write_wide(f"SEGMENT{index}_BASE", base)
            await self.write(f"SEGMENT{index}_LIMIT", segment.size // beat)
            await self.write(f"SEGMENT{index}_STRIDE", 0)
            regions.append(Region(base, self.order.arranged(segments[index]), segment.kind))
            base += -(-segment.size // PAGE) * PAGE + PAGE
        for dram in self.drams:
            dram.begin(regions)
        self._laid_out = [(segment, region.data) for segment, region in zip(segments, regions[1:])]
        await self.write("CONTROL", 1 << Control.START)

    async def finish(self, limit: int = LIMIT) -> bool:
        """Wait for the interrupt, for at most ``limit`` cycles, and read ``segments`` back; whether it came."""
        if not self.dut.irq.value:
            await First(RisingEdge(self.dut.irq), ClockCycles(self.dut.clk, limit))
        for segment, memory in self._laid_out:
            segment[:] = self.order.read(memory, 0, segment.size)
        return bool(self.dut.irq.value)

    async def outcome(self) -> Outcome:
        """The registers after the end; acknowledges it."""
        status = await self.read("STATUS")
        code = await self.read("FAULT_CODE")
        result = Outcome(
            status,
            FaultCode(code) if status >> Status.FAULT & 1 else None,
            await self.read("FAULT_INSTRUCTION"),
            await self.read("COMPLETED"),
            await self.read("CYCLES_LOW") | await self.read("CYCLES_HIGH") << 32,
        )
        await self.write("CONTROL", 1 << Control.ACKNOWLEDGE)
        await self.cycles(2)
        assert not self.dut.irq.value, "the interrupt is still there after it was acknowledged"
        return result

    async def run(self, program: Program, segments: list[NDArray[np.uint8]], watchdog: int = 0) -> Outcome:
        """Start, wait for the end, read back; the bus is quiet and its rules were kept."""
        await self.start(program, segments, watchdog)
        ended = await self.finish()
        broken = [text for rules in self.watched for text in rules.broken]
        assert ended, f"no interrupt within {LIMIT} cycles; bus rules broken before: {broken}"
        outcome = await self.outcome()
        for rules in self.watched:
            assert (rules.reads, rules.writes) == (0, 0), "bursts are in flight after the end"
            assert rules.broken == []
        return outcome

    # -- monitor ---------------------------------------------------------------------------------------

    async def _watch(self, prefix: str, rules: AxiRules) -> None:
        d, edge = self.dut, RisingEdge(self.dut.clk)

        def pins(channel: str, *fields: str) -> tuple[Any, ...]:
            return tuple(getattr(d, f"{prefix}{channel}{field}") for field in fields)

        valid = {n: pins(n, "valid")[0] for n in ("ar", "r", "aw", "w", "b")}
        ready = {n: pins(n, "ready")[0] for n in ("ar", "r", "aw", "w", "b")}
        shown = {n: pins(n, "addr", "len", "size", "burst", "id") for n in ("ar", "aw")}
        beat = pins("w", "data", "strb", "last", *(("id",) if self.config.axi_version == 3 else ()))
        (last,) = pins("r", "last")
        while True:
            await edge
            if d.rst.value:
                continue
            v = {n: bool(handle.value) for n, handle in valid.items()}
            r = {n: bool(handle.value) for n, handle in ready.items()}
            if not any(v.values()):
                continue
            rules.cycle(Cycle(
                ar=Address(*(int(h.value) for h in shown["ar"])) if v["ar"] else None,
                aw=Address(*(int(h.value) for h in shown["aw"])) if v["aw"] else None,
                w=Beat(*(int(h.value) for h in beat)) if v["w"] else None,
                ar_ready=r["ar"], aw_ready=r["aw"], w_ready=r["w"],
                r_taken=v["r"] and r["r"], r_last=bool(last.value) if v["r"] else False,
                b_taken=v["b"] and r["b"], r_refused=v["r"] and not r["r"], b_refused=v["b"] and not r["b"],
            ))  # fmt: skip


async def agree(bench: Bench, program: Program, seed: int = 0) -> Outcome:
    """Run a legal program on simulator and RTL: no fault, and every byte of DRAM equal."""
    before = random_segments(np.random.default_rng(seed), program)
    expected, found = [s.copy() for s in before], [s.copy() for s in before]
    assert simulate(program, expected).fault is None
    outcome = await bench.run(program, found)
    assert outcome.fault is None, outcome
    assert outcome.completed == 1
    for segment, a, b in zip(program.segments, expected, found):
        wrong = np.nonzero(a != b)[0]
        assert not wrong.size, f"segment {segment.name}: {wrong.size} bytes differ, the first at {wrong[0]}"
    return outcome
