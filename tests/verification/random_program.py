"""Seeded random legal programs, for tests of the simulator, the RTL, the HLS model and the verifier.

Programs use every opcode, flag, memory, loop, wrap region and token queue; they are legal by construction
(``docs/isa.md`` lists the rules). Sizes are small: tens of instructions, a few thousand cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.verification.random_config import random_config
from tests.verification.random_instructions import KIND_WEIGHTS, Proposals
from tests.verification.random_order import TokenOrder
from tests.verification.random_state import INPUT, OUTPUT, SCRATCH, Proposal, State
from tilewright.config import Config
from tilewright.isa.codec import encode
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import Engine

__all__ = ["DENSE", "LATE", "TRAFFIC", "GrowingProgram", "Style", "random_config", "random_program", "random_segments"]

ATTEMPTS = 10  #: proposals of one kind before another kind is drawn
LONGEST_HOLD = 500  #: cycles for which dispatch is held up at most; most instructions take less


@dataclass(frozen=True)
class Style:
    """How a random program is drawn. ``name``: for reports.

    ``weights``: of the kinds of :data:`KIND_WEIGHTS`. ``extra_tokens``: probability of a token that nothing needs, per
    instruction and other engine. ``held``: probability that an instruction is dispatched late, see
    :meth:`GrowingProgram.hold_dispatch`.
    """

    name: str
    weights: Mapping[str, int]
    extra_tokens: float
    held: float = 0.0


#: instructions follow each other closely: engines and tokens are what they wait for
DENSE = Style("dense", KIND_WEIGHTS, extra_tokens=0.08)
#: the same with many more tokens and WAITs
TRAFFIC = Style("traffic", {**KIND_WEIGHTS, "alu": 8, "wait": 4}, extra_tokens=0.25)
#: half of the instructions find all engines idle and their tokens waiting
LATE = Style("late", TRAFFIC.weights, TRAFFIC.extra_tokens, held=0.5)


def random_segments(rng: np.random.Generator, program: Program) -> list[NDArray[np.uint8]]:
    """Buffers for a program's segments: constants as given, everything else random bytes."""
    buffers = [rng.integers(0, 256, s.size).astype(np.uint8) for s in program.segments]
    for segment, buffer in zip(program.segments, buffers):
        if segment.data is not None:
            buffer[:] = np.frombuffer(segment.data.ljust(segment.size, b"\0"), np.uint8)
    return buffers


def random_program(rng: np.random.Generator, config: Config, size: int, style: Style = DENSE) -> Program:
    """A legal program of about ``size`` instructions; set-up and WAITs that carry tokens come on top."""
    growing = GrowingProgram(rng, config, style)
    growing.set_up()
    growing.grow(style.weights, size)
    return growing.finish()


class GrowingProgram:
    """A random program in the making: set up once, grown in any number of phases, then finished."""

    def __init__(self, rng: np.random.Generator, config: Config, style: Style = DENSE) -> None:
        self.rng, self.config, self.style = rng, config, style
        self.state = State(config, rng)
        self.order = TokenOrder(config, rng)
        self.proposals = Proposals(self.state)

    def set_up(self) -> None:
        """Write every working area and every group of micro-ops once, in random order."""
        made = self.proposals.set_up()
        for index in self.rng.permutation(len(made)):
            self.emit(made[index])

    def grow(self, weights: Mapping[str, int], size: int) -> None:
        """Append ``size`` instructions of the kinds of :data:`KIND_WEIGHTS`, drawn by weight."""
        kinds, chances = list(weights), np.array(list(weights.values()), float)
        made = 0
        while made < size:
            kind = kinds[int(self.rng.choice(len(kinds), p=chances / chances.sum()))]
            for _ in range(ATTEMPTS):
                proposal = self.proposals.propose(kind)
                if proposal is not None and self.state.readable(proposal):
                    self.emit(proposal)
                    made += 1
                    break

    def emit(self, p: Proposal) -> None:
        """Append a proposal behind the tokens and WAITs that it needs."""
        state, order, engine = self.state, self.order, p.instruction.engine
        need = np.zeros(4, np.int64)
        for access in p.accesses:
            need = np.maximum(need, state.history_of(access).needs(access))
        pops, waited = order.require(engine, need)
        if engine == Engine.ALU:
            state.slot += waited
            missing = max(state.missing_distance(p), 0)
            if missing:
                order.wait(Engine.ALU, missing)
                state.slot += missing
            state.run_vectors(p)
        if self.style.held and state.chance(self.style.held):
            self.hold_dispatch(engine)
        index = order.append(p.instruction, pops, self.style.extra_tokens)
        for access in p.accesses:
            state.history_of(access).record(engine, index, access)
        if p.uops is not None:
            memory, addresses, values = p.uops
            state.uops[memory][addresses] = values

    def hold_dispatch(self, engine: Engine) -> None:
        """Let the next instruction, one of ``engine``, be dispatched late: the queue of another engine fills up first.

        It gets as many WAITs as it holds and two more; the last of them has no place until the first is over.
        """
        other = Engine.GEMM if engine == Engine.ALU else Engine.ALU
        self.order.wait(other, self.state.integer(1, LONGEST_HOLD))
        for _ in range(self.config.queue_depth + 1):
            self.order.wait(other, 1)

    def finish(self) -> Program:
        """The program, all tokens taken."""
        state, beat = self.state, self.config.beat_bytes
        constants = bytes(state.blob)
        segments = (
            Segment("constants", "constant", -(-len(constants) // beat) * beat, constants),
            Segment("input", "input", state.beats[INPUT] * beat),
            Segment("output", "output", state.beats[OUTPUT] * beat),
            Segment("scratch", "scratch", state.beats[SCRATCH] * beat),
        )
        return Program(self.config, encode(self.order.finish(), self.config), segments)
