"""The token counters by themselves, against twelve plain numbers."""

from __future__ import annotations

import os
import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from tilewright.config import load_config
from tilewright.isa.spec import Engine, others, token_bit

__all__ = ["pushes_less_pops_at_random", "queues_fill_to_their_depth_and_empty", "reset_takes_all_tokens"]

CONFIG = load_config(os.environ.get("TILEWRIGHT_BENCH_CONFIG", "tiny"))
MOST = CONFIG.token_depth + CONFIG.queue_depth + 1  #: that a counter may come to hold
PAIRS = [(source, sink) for source in Engine for sink in others(source)]


class Tokens:
    """The device and what it should hold: tokens by (source, sink)."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.held = dict.fromkeys(PAIRS, 0)

    @classmethod
    async def open(cls, dut: Any) -> Tokens:
        """After reset."""
        tokens = cls(dut)
        Clock(dut.clk, 10, "ns").start()
        for engine in Engine:
            tokens.drive("push", engine, 0)
            tokens.drive("pop", engine, 0)
        await tokens.reset()
        return tokens

    async def reset(self) -> None:
        """All tokens are gone."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.held = dict.fromkeys(PAIRS, 0)

    def drive(self, what: str, engine: Engine, mask: int) -> None:
        """Set a mask for the coming clock edge."""
        getattr(self.dut, f"{what}_{engine.name.lower()}").value = mask

    async def step(self, pushed: set[tuple[Engine, Engine]], popped: set[tuple[Engine, Engine]]) -> None:
        """One cycle with these pushes and pops; afterwards the outputs say what is held."""
        for engine in Engine:
            self.drive("push", engine, sum(token_bit(a, b) for a, b in pushed if a == engine))
            self.drive("pop", engine, sum(token_bit(b, a) for a, b in popped if b == engine))
        await FallingEdge(self.dut.clk)
        for pair in pushed:
            self.held[pair] += 1
        for pair in popped:
            self.held[pair] -= 1
        self.check()

    def check(self) -> None:
        """Outputs against the numbers."""
        for sink in Engine:
            present = int(getattr(self.dut, f"present_{sink.name.lower()}").value)
            assert present == sum(token_bit(sink, a) for a in others(sink) if self.held[a, sink]), (sink, self.held)
        assert bool(self.dut.empty.value) == (not any(self.held.values()))


@cocotb.test()
async def pushes_less_pops_at_random(dut: Any) -> None:
    """Any mix of pushes and pops in one cycle, a push and a pop of one queue together included."""
    tokens, draw = await Tokens.open(dut), random.Random(1)
    both = 0
    for turn in range(3000):
        busy = 0.5 if turn // 300 % 2 else 0.1  # phases that fill, and phases that empty
        popped = {pair for pair in PAIRS if tokens.held[pair] and draw.random() < 0.3}
        pushed = {pair for pair in PAIRS if tokens.held[pair] - (pair in popped) < MOST and draw.random() < busy}
        both += len(popped & pushed)
        await tokens.step(pushed, popped)
    assert both > 300


@cocotb.test()
async def queues_fill_to_their_depth_and_empty(dut: Any) -> None:
    """Each queue alone, to the most that it may come to hold; no other queue notices."""
    tokens = await Tokens.open(dut)
    for pair in PAIRS:
        for _ in range(MOST):
            await tokens.step({pair}, set())
        await tokens.step({pair}, {pair})
        for _ in range(MOST):
            await tokens.step(set(), {pair})
        assert tokens.dut.empty.value


@cocotb.test()
async def reset_takes_all_tokens(dut: Any) -> None:
    """Whatever was held."""
    tokens = await Tokens.open(dut)
    for _ in range(5):
        await tokens.step(set(PAIRS), set())
    await tokens.reset()
    await tokens.step(set(), set())
    assert tokens.dut.empty.value
