"""Programs that break the rules of encoding, segment table and tokens."""

from __future__ import annotations

import dataclasses

from tests.isa.build import ALU, GEMM, LOAD, STORE, TINY, Builder
from tests.isa.rules.cases import case
from tilewright.isa.program import Program, Segment
from tilewright.isa.verifier import Rule


@case(Rule.ENCODING)
def bits_above_the_fields(legal: bool) -> Program:
    b = Builder()
    b.wait(LOAD)
    program = b.program()
    data = program.instructions if legal else program.instructions[:-1] + b"\x80"
    return dataclasses.replace(program, instructions=data)


@case(Rule.ENCODING)
def whole_instructions(legal: bool) -> Program:
    b = Builder()
    b.wait(LOAD)
    program = b.program()
    return dataclasses.replace(program, instructions=program.instructions[: None if legal else -1])


def _segments(*segments: Segment) -> Program:
    return Program(TINY, b"", segments)


@case(Rule.SEGMENT_TABLE)
def too_many_segments(legal: bool) -> Program:
    return _segments(*(Segment(f"s{k}", "scratch", 64) for k in range(TINY.segments + (not legal))))


@case(Rule.SEGMENT_TABLE)
def segment_of_part_of_a_beat(legal: bool) -> Program:
    return _segments(Segment("s", "scratch", 64 if legal else 63))


@case(Rule.SEGMENT_TABLE)
def segments_of_one_name(legal: bool) -> Program:
    return _segments(Segment("s", "input", 64), Segment("t" if legal else "s", "output", 64))


@case(Rule.SEGMENT_TABLE)
def data_longer_than_the_segment(legal: bool) -> Program:
    return _segments(Segment("s", "constant", 4, bytes(4 if legal else 5)))


@case(Rule.SEGMENT_TABLE)
def data_in_an_input(legal: bool) -> Program:
    return _segments(Segment("s", "input", 4, None if legal else bytes(4)))


@case(Rule.SEGMENT_TABLE)
def inferences_overlap(legal: bool) -> Program:
    return _segments(Segment("s", "input", 8192, None, 8192 if legal else 4096))


@case(Rule.SEGMENT_TABLE)
def more_memory_than_there_is(legal: bool) -> Program:
    return _segments(Segment("s", "input", 1 << 31), Segment("t", "constant", (1 << 31) + (0 if legal else 4)))


@case(Rule.SEGMENT_TABLE)
def negative_segment(legal: bool) -> Program:
    return _segments(Segment("s", "input", 4 if legal else -4))


@case(Rule.SEGMENT_TABLE)
def repeat_stride_not_on_a_page(legal: bool) -> Program:
    return _segments(Segment("s", "input", 4, None, 4096 if legal else 4100))


@case(Rule.SEGMENT_TABLE)
def unknown_segment_kind(legal: bool) -> Program:
    return _segments(Segment("s", "scratch" if legal else "heap", 4))  # type: ignore[arg-type]


@case(Rule.TOKEN_UNDERFLOW)
def pop_before_push(legal: bool) -> Program:
    b = Builder()
    if legal:
        b.wait(LOAD, push=[GEMM])
    b.wait(GEMM, pop=[LOAD])
    if not legal:
        b.wait(LOAD, push=[GEMM])
    return b.program()


@case(Rule.TOKEN_OVERFLOW)
def more_tokens_than_the_depth(legal: bool) -> Program:
    config = TINY.replace(token_depth=3)
    b = Builder(config)
    tokens = 3 if legal else 4
    for _ in range(tokens):
        b.wait(STORE, push=[LOAD])
    for _ in range(tokens):
        b.wait(LOAD, pop=[STORE])
    return b.program()


@case(Rule.TOKEN_LEFTOVER)
def token_left_at_the_end(legal: bool) -> Program:
    b = Builder()
    b.wait(ALU, push=[GEMM])
    if legal:
        b.wait(GEMM, pop=[ALU])
    return b.program()
