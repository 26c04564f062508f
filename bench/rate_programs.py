"""Small programs that show one rate each: instructions back to back on one engine, or one long transfer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.isa.build import ALU, CONSTANT, GEMM, LOAD, STORE, Builder
from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import AluOp, Engine, Memory, entry_bytes
from tilewright.isa.verifier import verify

INSTRUCTIONS = 8  #: back to back
SETTLED = 2000  #: cycles after which everything is fetched, queued and loaded, and all tokens are there


@dataclass(frozen=True)
class RateProgram:
    """A program and the indices of the instructions that are measured."""

    program: Program
    measured: tuple[int, ...]


def back_to_back(config: Config, engine: Engine, add: Callable[[Builder, int], int]) -> RateProgram:
    """``add(builder, k)`` appends the k-th measured instruction, which pops a token of LOAD's and pushes none.

    acc, a parameter entry, weights and half of act are loaded or filled before.
    """
    builder = Builder(config, size=config.act_bytes)
    builder.load(Memory.WGT, count=1)
    builder.load(Memory.PRM, segment=CONSTANT, offset=builder.constant(bytes(config.prm_entry_bytes)))
    builder.fill(Memory.ACC, count=config.acc_units)
    builder.fill(Memory.ACT, count=config.act_units // 2)
    count = max(1, config.beat_bytes // entry_bytes(config, Memory.UOP_GEMM))
    builder.uops(GEMM, [{"dst": 0, "src": 0, "wgt": 0}] * count)
    builder.uops(ALU, [{}])
    for _ in range(INSTRUCTIONS):
        builder.wait(LOAD, push=[engine])
    builder.wait(engine, SETTLED + config.acc_units + config.act_units)
    measured = tuple(add(builder, k) for k in range(INSTRUCTIONS))
    program = builder.program()
    verify(program)
    return RateProgram(program, measured)


def gemm(config: Config, count: int) -> RateProgram:
    """Dense GEMMs of ``count`` micro-ops."""

    def add(builder: Builder, k: int) -> int:
        return builder.gemm(
            pop=[LOAD], inner=count, dst=k * config.out_units * count, dst_inner=config.out_units,
            src_inner=config.in_units,
        )  # fmt: skip

    return back_to_back(config, GEMM, add)


def alu(config: Config, count: int, operand: str) -> RateProgram:
    """ALU additions over ``count`` vectors; operand: ``immediate``, ``other bank`` or ``same bank``."""
    vector = config.out_units

    def add(builder: Builder, k: int) -> int:
        source: Any = {"immediate": {"use_imm": 1, "imm": 3}, "other bank": {"src": config.acc_bank_units},
                  "same bank": {"src": config.acc_bank_units // 2, "pace": 1}}[operand]  # fmt: skip
        steps: Any = {} if operand == "immediate" else {"src_inner": vector}
        return builder.alu(
            pop=[LOAD], function=int(AluOp.ADD), inner=count, dst=(k % 2) * vector * count, dst_inner=vector, **steps,
            **source,
        )  # fmt: skip

    return back_to_back(config, ALU, add)


def requantize(config: Config, count: int) -> RateProgram:
    """Requantisations of ``count`` vectors."""
    vector = config.out_units

    def add(builder: Builder, k: int) -> int:
        return builder.requantize(
            pop=[LOAD], inner=count, dst_inner=vector, src_inner=vector, rounding=int(Rounding.SINGLE), lo=-128
        )

    return back_to_back(config, ALU, add)


def transfer(config: Config, engine: Engine) -> RateProgram:
    """One LOAD or STORE of the whole of act, alone on the bus."""
    builder = Builder(config, size=config.act_bytes)
    units = config.act_units
    builder.wait(LOAD, SETTLED)
    if engine == LOAD:
        measured = builder.load(Memory.ACT, count=units)
    else:
        builder.fill(Memory.ACT, count=units, push=[STORE])
        measured = builder.store(pop=[LOAD], count=units)
    program = builder.program()
    verify(program)
    return RateProgram(program, (measured,))
