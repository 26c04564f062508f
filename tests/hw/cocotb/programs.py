"""Directed programs for the benches; all are legal unless their name says otherwise."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.isa.build import ALU, GEMM, LOAD, STORE, Builder
from tilewright.config import Config
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.random_engine import random_engine_program
from tilewright.isa.registers import FaultCode
from tilewright.isa.spec import Engine, Memory, Opcode, instruction_width

__all__ = ["copying", "faulty", "hanging", "reading_and_writing", "token_ring"]


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
