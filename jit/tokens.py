"""No token queue holds more than it can: tokens that would not fit are taken early.

A token is popped by the instruction that needs it. Where a queue is full in program order, a WAIT of one cycle on
the consuming engine takes the oldest token at once, and the later instruction, which comes after that WAIT on its
engine, no longer pops. Program order stays a valid execution, so nothing can wait for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.isa.codec import Instruction
from tilewright.isa.spec import Engine, Opcode, others, token_bit


def bound_tokens(
    instructions: Sequence[Instruction], layers: Sequence[int], depth: int
) -> tuple[list[Instruction], list[int]]:
    """The instructions and their layers, with WAITs so that every queue holds at most ``depth`` tokens."""
    held: Counter[tuple[Engine, Engine]] = Counter()
    early: Counter[tuple[Engine, Engine]] = Counter()  #: taken before the instruction that pops them
    result: list[Instruction] = []
    owners: list[int] = []
    for instruction, layer in zip(instructions, layers, strict=True):
        asked, push = instruction["pop"], instruction["push"]
        if not asked and not push:
            result.append(instruction)
            owners.append(layer)
            continue
        engine, pop = instruction.engine, asked
        for other in others(engine) if asked else ():
            bit = token_bit(engine, other)
            if pop & bit and early[other, engine]:
                early[other, engine] -= 1
                pop &= ~bit
            elif pop & bit:
                held[other, engine] -= 1
        for other in others(engine) if push else ():
            if not push & token_bit(engine, other):
                continue
            if held[engine, other] == depth:
                taken = {"engine": int(other), "cycles": 1, "pop": token_bit(other, engine), "push": 0}
                result.append(Instruction(Opcode.WAIT, taken))
                owners.append(layer)
                early[engine, other] += 1
                held[engine, other] -= 1
            held[engine, other] += 1
        if pop != asked:
            instruction = Instruction(instruction.opcode, {**instruction.fields, "pop": pop})
        result.append(instruction)
        owners.append(layer)
    return result, owners
