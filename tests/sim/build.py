"""Hand-made programs for the simulator's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.verification.random_program import random_config, random_program
from tilewright.config import Config
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.program import Program, Segment, SegmentKind
from tilewright.isa.spec import Engine as Engine
from tilewright.isa.spec import Opcode, token_bit

DEFAULT = Config()


def code(opcode: Opcode, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), **fields: int) -> Instruction:
    """An instruction whose tokens are given by engine."""
    engine = Instruction(opcode, fields).engine
    fields["pop"] = sum(token_bit(engine, other) for other in pop)
    fields["push"] = sum(token_bit(engine, other) for other in push)
    return Instruction(opcode, fields)


def wait(engine: Engine, cycles: int = 1, pop: Sequence[Engine] = (), push: Sequence[Engine] = ()) -> Instruction:
    """A WAIT."""
    return code(Opcode.WAIT, pop, push, engine=int(engine), cycles=cycles)


def program(instructions: Sequence[Instruction], config: Config = DEFAULT, *segments: bytes | int) -> Program:
    """A program over segments: bytes make a constant one, a size a scratch one."""
    made = []
    for number, content in enumerate(segments):
        data = content if isinstance(content, bytes) else None
        size = len(content) if isinstance(content, bytes) else content
        kind: SegmentKind = "scratch" if data is None else "constant"
        made.append(Segment(f"s{number}", kind, -(-size // config.beat_bytes) * config.beat_bytes, data))
    return Program(config, encode(instructions, config), tuple(made))


def random_case(seed: int, size: int = 30) -> tuple[np.random.Generator, Program]:
    """A random program on a random config, and the generator to go on drawing from."""
    rng = np.random.default_rng(seed)
    return rng, random_program(rng, random_config(rng), size)


def parameters(bias: int, multiplier: int, offset: int, shift: int, channels: int) -> bytes:
    """One prm entry with the same values in all channels."""
    entry: NDArray[np.int32] = np.array([[bias, multiplier, offset, shift]] * channels, "<i4")
    return entry.tobytes()
