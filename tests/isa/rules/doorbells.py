"""Pairs of programs, for two cores at the same time, that break the rules of doorbells and of shared memory."""

from __future__ import annotations

from tests.isa.build import LOAD, STORE, TINY, Builder
from tests.isa.rules.cases import joint
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import DOORBELL_DEPTH, Memory
from tilewright.isa.verifier import Rule

TWO = TINY.replace(cores=2)
SHARED = 4  #: number of the shared segment of :func:`exchange`
SHARES = Segment("exchange", "shared", 64)


def _two() -> tuple[Builder, Builder]:
    return Builder(TWO), Builder(TWO)


def _programs(*builders: Builder) -> list[Program]:
    return [builder.program(SHARES) for builder in builders]


def _writes(b: Builder, offset: int = 0) -> None:
    """A unit for the others to read."""
    b.fill(Memory.ACT, push=[STORE])
    b.store(pop=[LOAD], segment=SHARED, offset=offset)


@joint(Rule.DOORBELL)
def rings_itself(legal: bool) -> list[Program]:
    one, other = _two()
    one.wait(STORE, ring=2 if legal else 1)
    other.wait(LOAD, hear=1)
    return _programs(one, other)


@joint(Rule.DOORBELL)
def hears_a_core_without_a_program(legal: bool) -> list[Program]:
    one, other = Builder(TINY.replace(cores=3)), Builder(TINY.replace(cores=3))
    one.wait(LOAD, hear=2 if legal else 4)
    other.wait(STORE, ring=1)
    return _programs(one, other)


@joint(Rule.DOORBELL)
def hears_on_an_engine_that_cannot(legal: bool) -> list[Program]:
    one, other = _two()
    one.wait(STORE, ring=2)
    other.wait(LOAD if legal else STORE, hear=1)
    return _programs(one, other)


@joint(Rule.DOORBELL)
def rings_on_an_engine_that_cannot(legal: bool) -> list[Program]:
    one, other = _two()
    one.wait(STORE if legal else LOAD, ring=2)
    other.wait(LOAD, hear=1)
    return _programs(one, other)


@joint(Rule.DOORBELL)
def more_programs_than_cores(legal: bool) -> list[Program]:
    one, other = _two()
    return _programs(one, other) if legal else _programs(one, other, other)


@joint(Rule.DOORBELL_DEADLOCK)
def each_hears_before_it_rings(legal: bool) -> list[Program]:
    one, other = _two()
    for k, b in enumerate((one, other)):
        mask = 2 >> k
        if legal:
            b.wait(STORE, ring=mask, push=[LOAD])
            b.wait(LOAD, hear=mask, pop=[STORE])
        else:
            b.wait(LOAD, hear=mask, push=[STORE])
            b.wait(STORE, ring=mask, pop=[LOAD])
    return _programs(one, other)


@joint(Rule.DOORBELL_DEADLOCK)
def hears_more_than_rings(legal: bool) -> list[Program]:
    one, other = _two()
    one.wait(STORE, ring=2)
    other.wait(LOAD, hear=1)
    if not legal:
        other.wait(LOAD, hear=1)
    return _programs(one, other)


@joint(Rule.DOORBELL_OVERFLOW)
def runs_ahead_of_who_should_hear(legal: bool) -> list[Program]:
    """So many rings may be kept; one more needs a word that the other has heard."""
    one, other = _two()
    for _ in range(DOORBELL_DEPTH):
        one.wait(STORE, ring=2)
    if legal:
        one.wait(LOAD, hear=2, push=[STORE])
    one.wait(STORE, ring=2, pop=[LOAD] if legal else [])
    for k in range(DOORBELL_DEPTH + 1):
        answers = legal and k == 0
        other.wait(LOAD, hear=1, push=[STORE] if answers else [])
        if answers:
            other.wait(STORE, ring=1, pop=[LOAD])
    return _programs(one, other)


@joint(Rule.DOORBELL_LEFTOVER)
def nobody_hears(legal: bool) -> list[Program]:
    one, other = _two()
    one.wait(STORE, ring=2)
    if legal:
        other.wait(LOAD, hear=1)
    return _programs(one, other)


@joint(Rule.SEGMENT_TABLE)
def shared_by_different_sizes(legal: bool) -> list[Program]:
    one, other = _two()
    return [one.program(SHARES), other.program(Segment("exchange", "shared", 64 if legal else 128))]


@joint(Rule.RACE_RAW)
def reads_what_another_core_may_not_have_written(legal: bool) -> list[Program]:
    one, other = _two()
    _writes(one)
    one.wait(STORE, ring=2)
    if not legal:
        other.load(Memory.ACT, segment=SHARED)
    other.wait(LOAD, hear=1)
    if legal:
        other.load(Memory.ACT, segment=SHARED)
    return _programs(one, other)


@joint(Rule.RACE_RAW)
def rings_before_it_has_written(legal: bool) -> list[Program]:
    one, other = _two()
    if legal:
        _writes(one)
    one.wait(STORE, ring=2)
    if not legal:
        _writes(one)
        one.wait(STORE, ring=2)
    other.wait(LOAD, hear=1)
    other.load(Memory.ACT, segment=SHARED)
    if not legal:
        other.wait(LOAD, hear=1)
    return _programs(one, other)


@joint(Rule.RACE_WAR)
def overwrites_what_another_core_may_yet_read(legal: bool) -> list[Program]:
    one, other = _two()
    _writes(one)
    one.wait(STORE, ring=2)
    other.wait(LOAD, hear=1)
    other.load(Memory.ACT, segment=SHARED, push=[STORE])
    other.wait(STORE, ring=1, pop=[LOAD])
    if not legal:
        _writes(one)
    one.wait(LOAD, hear=2)
    if legal:
        _writes(one)
    return _programs(one, other)


@joint(Rule.RACE_WAW)
def both_write(legal: bool) -> list[Program]:
    one, other = _two()
    _writes(one)
    _writes(other, offset=4 if legal else 0)
    return _programs(one, other)


@joint(Rule.UNINITIALISED)
def reads_what_nobody_writes(legal: bool) -> list[Program]:
    one, other = _two()
    _writes(one)
    one.wait(STORE, ring=2)
    other.wait(LOAD, hear=1)
    other.load(Memory.ACT, segment=SHARED, offset=0 if legal else 4)
    return _programs(one, other)
