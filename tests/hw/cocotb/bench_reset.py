"""Reset in the middle of a run."""

from __future__ import annotations

import random
from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.dram import CHANNELS
from tests.verification.random_program import random_program, random_segments
from tilewright.hw.rtl.ports import masters
from tilewright.isa.registers import ID_VALUE, TAG_BITS, register_map

__all__ = ["reset_in_the_middle_of_a_run", "reset_values_of_all_registers"]

#: what reset leaves in a register, where it is not 0
RESET_VALUES = {"ID": ID_VALUE, "REPEAT": 1, "FAULT_INSTRUCTION": (1 << TAG_BITS) - 1}
LATEST = 0.7  #: of the cycles of a whole run: one is cut before


async def check_registers(bench: Bench) -> None:
    """Every readable register is as after reset."""
    fingerprint = int(bench.config.fingerprint, 16)
    values = RESET_VALUES | {"FINGERPRINT_LOW": fingerprint & 0xFFFFFFFF, "FINGERPRINT_HIGH": fingerprint >> 32}
    trace = ("TRACE_TAG", "TRACE_CYCLE")  # of an empty FIFO: whatever its memory holds
    for register in register_map(bench.config):
        if register.access != "wo" and register.name not in trace:
            assert await bench.read(register.name) == values.get(register.name, 0), register.name


@cocotb.test()
async def reset_values_of_all_registers(dut: Any) -> None:
    """Before anything has run."""
    bench = await Bench.open(dut)
    await check_registers(bench)


@cocotb.test()
@cocotb.parametrize(paused=[False, True])
async def reset_in_the_middle_of_a_run(dut: Any, paused: bool) -> None:
    """At random cycles: quiet bus, registers at their reset values, the next run right."""
    bench = await Bench.open(dut, seed=5)
    if paused:
        bench.dram.pause(**dict.fromkeys(CHANNELS, 0.4))
        bench.dram.latency = 30
    cut = random.Random(f"reset {paused}")
    program = random_program(np.random.default_rng(42), bench.config, 16)
    length = int(LATEST * (await agree(bench, program)).cycles)
    for turn in range(4 * len(SEEDS)):
        await bench.start(program, random_segments(np.random.default_rng(turn), program))
        await bench.cycles(cut.randint(1, length))
        assert not dut.irq.value, "the run has ended too early to be cut"
        assert bench.rules.broken == []
        await bench.reset(cut.randint(1, 5))
        driven = [f"{prefix}{channel}valid" for prefix in masters(bench.config) for channel in ("ar", "aw", "w")]
        for name in (*driven, "irq"):
            assert not getattr(dut, name).value, name
        if not turn:
            await check_registers(bench)
        await agree(bench, program, turn)
