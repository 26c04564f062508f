"""Token queues between the engines of the whole accelerator."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.programs import token_ring, token_traffic
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, others
from tilewright.isa.timing import TOKEN_LATENCY

__all__ = ["a_token_comes_in_the_cycle_in_which_one_goes", "tokens_order_what_engines_do"]

Times = dict[Engine, list[int]]
QueueTimes = dict[tuple[Engine, Engine], list[int]]


def watch_events(bench: Bench) -> tuple[Times, Times]:
    """Cycles in which engines issue and retire, from the event outputs; filled as time goes on."""
    issued: Times = {e: [] for e in Engine}
    retired: Times = {e: [] for e in Engine}

    async def watch() -> None:
        d, now = bench.dut, 0
        while True:
            await RisingEdge(d.clk)
            now += 1
            issue, retire = int(d.ev_issue.value), int(d.ev_retire.value)
            for e in Engine:
                if issue >> e & 1:
                    issued[e].append(now)
                if retire >> e & 1:
                    retired[e].append(now)

    cocotb.start_soon(watch())
    return issued, retired


def queue_times(program: Program, issued: Times, retired: Times) -> tuple[QueueTimes, QueueTimes]:
    """When each queue, by source and sink, got its tokens and gave them; as many of both."""
    pushes: QueueTimes = {}
    pops: QueueTimes = {}
    index = dict.fromkeys(Engine, 0)
    for row in program.table():
        engine = Engine(int(row["engine"]))
        k = index[engine]
        index[engine] += 1
        for bit, other in enumerate(others(engine)):
            if row["pop"] >> bit & 1:
                pops.setdefault((other, engine), []).append(issued[engine][k])
            if row["push"] >> bit & 1:
                pushes.setdefault((engine, other), []).append(retired[engine][k])
    assert {pair: len(times) for pair, times in pops.items()} == {pair: len(times) for pair, times in pushes.items()}
    return pushes, pops


def check_order(pushes: QueueTimes, pops: QueueTimes) -> int:
    """The k-th pop of a queue issues after the k-th push retired; returns how many pops came at once."""
    waits = [pop - push for pair in pops for push, pop in zip(pushes[pair], pops[pair])]
    assert min(waits) >= TOKEN_LATENCY
    return sum(wait == TOKEN_LATENCY for wait in waits)


@cocotb.test()
@cocotb.parametrize(paused=[False, True])
async def tokens_order_what_engines_do(dut: Any, paused: bool) -> None:
    """Rings through all twelve queues: every pop after its push, the next cycle where nothing else holds it up."""
    bench = await Bench.open(dut, seed=7)
    bench.dram.pause(**({"r": 0.6, "b": 0.6} if paused else {}))
    issued, retired = watch_events(bench)
    for rounds in (12 * (seed + 1) for seed in SEEDS):
        for times in (*issued.values(), *retired.values()):
            times.clear()
        program = token_ring(bench.config, rounds)
        await agree(bench, program)
        assert check_order(*queue_times(program, issued, retired)) > rounds


@cocotb.test()
async def a_token_comes_in_the_cycle_in_which_one_goes(dut: Any) -> None:
    """In every queue: nothing is lost and nothing stays, else the run would not end."""
    bench = await Bench.open(dut)
    issued, retired = watch_events(bench)
    rounds = 4
    program = token_traffic(bench.config, rounds)
    await agree(bench, program)
    pushes, pops = queue_times(program, issued, retired)
    check_order(pushes, pops)
    together = {pair: len(set(pushes[pair]) & set(pops[pair])) for pair in pushes}
    assert together == dict.fromkeys(((a, b) for a in Engine for b in others(a)), rounds - 1)
