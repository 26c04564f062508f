"""Directed programs for the benches; all are legal unless their name says otherwise."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.isa.build import ALU, GEMM, LOAD, STORE, Builder
from tests.verification.random_engine import random_engine_program
from tilewright.config import Config
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.registers import FaultCode
from tilewright.isa.spec import Engine, Memory, Opcode, instruction_width, others
from tilewright.isa.timing import LOAD_DEPTH, STORE_DEPTH, TOKEN_LATENCY

__all__ = ["copying", "faulty", "hanging", "reading_and_writing", "to_the_end", "token_ring", "token_traffic"]


def reading_and_writing(config: Config, seed: int) -> Program:
    """Random LOADs and STOREs of many shapes; several bursts of each."""
    return random_engine_program(np.random.default_rng(900 + seed), config, Engine.STORE, 8)


def copying(config: Config, offset: int, size: int) -> Program:
    """``size`` bytes in one row from a beat of the input to the same beat of the output."""
    b = Builder(config)
    count = size // config.act_unit_bytes
    b.load(Memory.ACT, count=count, offset=offset, push=[STORE])
    b.store(count=count, offset=offset, pop=[LOAD])
    return b.program()


def to_the_end(config: Config, beyond: Engine | None = None) -> Program:
    """Three rows from input to output, up to the last beat of both segments; the tile of ``beyond``, LOAD or STORE,
    ends one beat later, which is not legal."""
    b = Builder(config)
    count, stride = 8, 8 * config.act_unit_bytes // config.beat_bytes + 1
    first = (b.size - count * config.act_unit_bytes) // config.beat_bytes - 2 * stride
    tile = {"rows": 3, "sram_row": count, "stride": stride}
    b.load(Memory.ACT, [], [STORE], count, offset=first + (beyond == LOAD), **tile)
    b.store([LOAD], [], count, offset=first + (beyond == STORE), **tile)
    return b.program()


def token_ring(config: Config, rounds: int) -> Program:
    """A token goes round all engines, both ways, through all twelve queues; each engine is late in its turn."""
    b = Builder(config)
    orders = ([LOAD, GEMM, ALU, STORE], [LOAD, STORE, ALU, GEMM], [LOAD, ALU, GEMM, STORE], [LOAD, STORE, GEMM, ALU],
              [LOAD, GEMM, STORE, ALU], [LOAD, ALU, STORE, GEMM])  # fmt: skip
    b.load(Memory.ACT, count=8)
    for turn in range(rounds):
        order = orders[turn % len(orders)]
        for k, engine in enumerate(order):
            pop = [] if k == 0 else [order[k - 1]]
            b.wait(engine, 1 + 7 * (turn + k) % 11, pop=pop, push=[order[(k + 1) % 4]])
        b.wait(LOAD, 1, pop=[order[3]])
    b.wait(LOAD, 1, push=[STORE])
    b.store(count=8, pop=[LOAD])
    return b.program()


def token_traffic(config: Config, rounds: int) -> Program:
    """Through each of the twelve queues in turn: tokens come as often as they are taken, and each of the last
    ``rounds`` but one comes in the very cycle in which the one before it is taken."""
    b = Builder(config)
    period, lead = 32, 100  # cycles: longer than fetching what happens in them
    drain = {LOAD: LOAD_DEPTH, STORE: STORE_DEPTH, GEMM: 0, ALU: 0}  # what a WAIT takes longer than its cycles
    b.load(Memory.ACT, count=8)
    for source in Engine:
        for sink in others(source):
            b.wait(sink, 1, push=[source])  # both are free
            b.wait(source, lead, pop=[sink], push=[sink])  # pushes in r; from there on one every period
            for turn in range(rounds):
                b.wait(source, period - drain[source], push=[sink])
                # pops r + TOKEN_LATENCY, then r + 2, 3, ... periods
                b.wait(sink, (period if turn else 2 * period - TOKEN_LATENCY) - drain[sink], pop=[source])
            b.wait(sink, 1, pop=[source])
    b.wait(LOAD, 1, push=[STORE])
    b.store(count=8, pop=[LOAD])
    return b.program()


def hanging(config: Config, engine: Engine) -> Program:
    """Copies a little, then waits on ``engine`` for a token that nobody sends. Not legal."""
    b = Builder(config)
    b.load(Memory.ACT, count=8, push=[STORE])
    b.store(count=8, pop=[LOAD])
    b.wait(engine, 1, pop=[GEMM if engine != GEMM else ALU])
    return b.program()


def faulty(program: Program, code: FaultCode, choice: int) -> tuple[Program, int]:
    """A program with one instruction broken so that it faults, and that instruction's index. Not legal."""
    config = program.config
    instructions = decode(program.instructions, config)
    if code == FaultCode.ILLEGAL:
        size = instruction_width(config) // 8
        at = choice * 7919 % len(instructions)
        words = bytearray(program.instructions)
        words[(at + 1) * size - 1] |= 0x80  # above the fields of every format
        return dataclasses.replace(program, instructions=bytes(words)), at
    moves = [i for i, x in enumerate(instructions) if x.opcode in (Opcode.LOAD, Opcode.STORE)]
    at = moves[choice * 7919 % len(moves)]
    broken = {**instructions[at].fields, "offset": (1 << 28) - 1}
    instructions[at] = Instruction(instructions[at].opcode, broken)
    return dataclasses.replace(program, instructions=encode(instructions, config)), at
