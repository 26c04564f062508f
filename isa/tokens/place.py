"""Tokens for a whole program, from whatever wrote it: assembly text, the builder, a generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.codec import Instruction, decode
from tilewright.isa.effects import effects
from tilewright.isa.program import Program, check_program
from tilewright.isa.spec import Fields, Opcode
from tilewright.isa.tokens.hazards import HazardTracker
from tilewright.isa.uops import UopMemories
from tilewright.isa.verifier import find_errors
from tilewright.isa.verify.errors import IllegalProgram

TRACKED = ("output", "scratch", "shared")  #: kinds of segments in which a LOAD may have to wait for a STORE


def place_tokens(program: Program, name: str = "program", places: Sequence[str] = ()) -> Program:
    """The program with the tokens that it needs, and with WAITs where ALU would read too early or a queue overflow.

    Tokens that it has are dropped. Raises :class:`IllegalProgram` for one that breaks a rule whatever the tokens, with
    ``name`` for the program and ``places`` for its instructions.
    """
    if errors := find_errors(program, in_order=True):
        raise IllegalProgram(name, errors, places)
    placed, owners = with_owners(program)
    if errors := find_errors(placed):
        raise IllegalProgram(name, errors, [places[owner] for owner in owners] if places else ())
    return placed


def with_owners(program: Program) -> tuple[Program, list[int]]:
    """:func:`place_tokens` of a program that breaks no rule in order, and for each instruction of the result the one
    given that it is, or before which it was put."""
    check_program(program)
    config, segments = program.config, program.segments
    loads = program.table()
    loaded = set(loads["segment"][loads["opcode"] == Opcode.LOAD].tolist())
    first, beats = {}, 0  #: by segment, the number of its first beat among all that are tracked
    for number, segment in enumerate(segments):
        if segment.kind in TRACKED and number in loaded:
            first[number], beats = beats, beats + segment.size // config.beat_bytes
    tracker, uops = HazardTracker(config, beats), UopMemories(config, segments)
    for number, instruction in enumerate(decode(program.instructions, config)):
        plain = Instruction(
            instruction.opcode, {k: v for k, v in instruction.fields.items() if k not in ("pop", "push")}
        )
        row = plain.row
        tracker.add(plain, uops.step(row), number, _beats(row, first, program))
    code, owners = tracker.finish()
    meta, of_layer = program.meta, program.meta.get("instruction_layer")
    if of_layer:
        meta = {**meta, "instruction_layer": [of_layer[owner] for owner in owners]}
    return dataclasses.replace(program, instructions=code, meta=meta), owners


def _beats(row: Fields, first: dict[int, int], program: Program) -> NDArray[np.int64] | None:
    """Beats of tracked segments that an instruction moves, numbered through all of them."""
    if row.opcode not in (Opcode.LOAD, Opcode.STORE) or row.segment not in first:
        return None
    access = next(a for a in effects(row, None, program.config) if a.memory is None)
    return access.addresses() + first[row.segment]
