"""A memory of the design beside what it is mapped to, as ``tests/hw/test_gate_level.py`` puts them together."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

__all__ = ["both_read_the_same"]

CYCLES = 4000


@cocotb.test()
async def both_read_the_same(dut: Any) -> None:
    Clock(dut.clk, 10, "ns").start()
    await ClockCycles(dut.clk, CYCLES)
    assert int(dut.met.value) > CYCLES // 10, "reads of words that are being written"
    assert int(dut.wrong.value) == 0, "reads that differ"
