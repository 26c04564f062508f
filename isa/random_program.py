"""Seeded random legal programs, for tests of the simulator, the RTL, the HLS model and the verifier.

Programs use every opcode, flag, memory, loop, wrap region and token queue; they are legal by construction
(``docs/isa.md`` lists the rules). Sizes are small: tens of instructions, a few thousand cycles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import encode
from tilewright.isa.program import Program, Segment
from tilewright.isa.random_config import random_config
from tilewright.isa.random_instructions import KIND_WEIGHTS, Proposals
from tilewright.isa.random_order import TokenOrder
from tilewright.isa.random_state import INPUT, OUTPUT, SCRATCH, Proposal, State
from tilewright.isa.spec import Engine

__all__ = ["random_config", "random_program", "random_segments"]

ATTEMPTS = 10  #: proposals of one kind before another kind is drawn
EXTRA_TOKENS = 0.08  #: probability of a token that nothing needs, per instruction and other engine


def random_segments(rng: np.random.Generator, program: Program) -> list[NDArray[np.uint8]]:
    """Buffers for a program's segments: constants as given, everything else random bytes."""
    buffers = [rng.integers(0, 256, s.size).astype(np.uint8) for s in program.segments]
    for segment, buffer in zip(program.segments, buffers):
        if segment.data is not None:
            buffer[:] = np.frombuffer(segment.data.ljust(segment.size, b"\0"), np.uint8)
    return buffers


def random_program(rng: np.random.Generator, config: Config, size: int) -> Program:
    """A legal program of about ``size`` instructions; set-up and WAITs that carry tokens come on top."""
    state = State(config, rng)
    order = TokenOrder(config, rng)
    proposals = Proposals(state)
    set_up = proposals.set_up()
    for index in rng.permutation(len(set_up)):
        _emit(state, order, set_up[index])
    kinds, weights = list(KIND_WEIGHTS), np.array(list(KIND_WEIGHTS.values()), float)
    made = 0
    while made < size:
        kind = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
        for _ in range(ATTEMPTS):
            proposal = proposals.propose(kind)
            if proposal is not None and state.readable(proposal):
                _emit(state, order, proposal)
                made += 1
                break
    beat = config.beat_bytes
    constants = bytes(state.blob)
    segments = (
        Segment("constants", "constant", -(-len(constants) // beat) * beat, constants),
        Segment("input", "input", state.beats[INPUT] * beat),
        Segment("output", "output", state.beats[OUTPUT] * beat),
        Segment("scratch", "scratch", state.beats[SCRATCH] * beat),
    )
    return Program(config, encode(order.finish(), config), segments)


def _emit(state: State, order: TokenOrder, p: Proposal) -> None:
    """Append a proposal behind the tokens and WAITs that it needs."""
    need = np.zeros(4, np.int64)
    for touch in p.touches:
        need = np.maximum(need, state.history[touch.memory].needs(touch))
    pops, waited = order.require(p.engine, need)
    if p.engine == Engine.ALU:
        state.slot += waited
        missing = max(state.missing_distance(p), 0)
        if missing:
            order.wait(Engine.ALU, missing)
            state.slot += missing
        state.run_vectors(p)
    index = order.append(p.opcode, p.engine, p.fields, pops, EXTRA_TOKENS)
    for touch in p.touches:
        state.history[touch.memory].record(p.engine, index, touch)
    if p.uops is not None:
        memory, first, values = p.uops
        state.uops[memory][first : first + len(values)] = values
