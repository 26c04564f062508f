"""A small program builder for tests: instructions in order, micro-ops and constants packed into one segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.config import PRESETS, Config
from tilewright.isa.codec import Instruction, encode, encode_uops
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import Engine, Memory, Opcode, entry_bytes, token_bit

LOAD, GEMM, ALU, STORE = Engine.LOAD, Engine.GEMM, Engine.ALU, Engine.STORE
TINY = PRESETS["tiny"]
#: a core with two memory ports
PAIRED = TINY.replace(name="paired", axi_ports=2, block_in=8, block_out=8)

#: segment numbers of every built program
CONSTANT, INPUT, OUTPUT, SCRATCH = range(4)


def mask(engine: Engine, others: Sequence[Engine]) -> int:
    """The pop or push mask of an engine's instruction."""
    return sum(token_bit(engine, other) for other in others)


class Builder:
    """Collects instructions; ``program()`` encodes them. Segments: constant, input, output, scratch."""

    def __init__(self, config: Config = TINY, size: int = 16384) -> None:
        self.config, self.size = config, size
        self.instructions: list[Instruction] = []
        self._constant = bytearray()

    def constant(self, data: bytes) -> int:
        """Append to the constant segment, beat-aligned; returns the beat offset."""
        beat = self.config.beat_bytes
        start = len(self._constant)
        self._constant += data + bytes(-len(data) % beat)
        return start // beat

    def add(
        self, opcode: Opcode, runs_on: Engine, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), **fields: int
    ) -> int:
        """Append an instruction; returns its index."""
        header = {"pop": mask(runs_on, pop), "push": mask(runs_on, push)}
        self.instructions.append(Instruction(opcode, {**header, **fields}))
        return len(self.instructions) - 1

    def _wrap(self, fields: dict[str, int]) -> dict[str, int]:
        return {"wrap_base": 0, "wrap_size": self.config.act_units, **fields}

    def load(
        self, memory: Memory, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int
    ) -> int:
        """LOAD of ``count`` entries in one row, from the input segment unless ``segment`` is given."""
        base = {"memory": int(memory), "segment": INPUT, "cols": count, "sram_col": 1}
        return self.add(Opcode.LOAD, LOAD, pop, push, **self._wrap({**base, **fields}))

    def fill(
        self, memory: Memory, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int
    ) -> int:
        """FILL of ``count`` entries in one row."""
        return self.add(
            Opcode.FILL, LOAD, pop, push, **self._wrap({"memory": int(memory), "cols": count, "sram_col": 1, **fields})
        )

    def store(self, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int) -> int:
        """STORE of ``count`` units in one row, to the output segment unless ``segment`` is given."""
        base = {"segment": OUTPUT, "cols": count, "sram_col": 1}
        return self.add(Opcode.STORE, STORE, pop, push, **self._wrap({**base, **fields}))

    def uops(
        self,
        engine: Engine,
        uops: Sequence[Mapping[str, int]],
        at: int = 0,
        pop: Sequence[Engine] = (),
        push: Sequence[Engine] = (),
    ) -> int:
        """LOAD of micro-ops (padded to whole beats) from the constant segment."""
        memory = Memory.UOP_GEMM if engine == GEMM else Memory.UOP_ALU
        per_beat = max(1, self.config.beat_bytes // entry_bytes(self.config, memory))
        padded = list(uops) + [{}] * (-len(uops) % per_beat)
        offset = self.constant(encode_uops(padded, engine, self.config))
        return self.load(memory, pop, push, count=len(padded), segment=CONSTANT, offset=offset, sram=at)

    def gemm(self, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int) -> int:
        """GEMM over ``count`` micro-ops."""
        return self.add(Opcode.GEMM, GEMM, pop, push, **self._wrap({"uop_count": count, **fields}))

    def alu(self, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int) -> int:
        """ALU over ``count`` micro-ops."""
        return self.add(Opcode.ALU, ALU, pop, push, uop_count=count, **fields)

    def requantize(self, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int) -> int:
        """REQUANTIZE over ``count`` micro-ops."""
        return self.add(Opcode.REQUANTIZE, ALU, pop, push, **self._wrap({"uop_count": count, "hi": 127, **fields}))

    def rescale(self, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), count: int = 1, **fields: int) -> int:
        """RESCALE over ``count`` micro-ops."""
        return self.add(Opcode.RESCALE, ALU, pop, push, **self._wrap({"uop_count": count, **fields}))

    def wait(
        self, engine: Engine, cycles: int = 1, pop: Sequence[Engine] = (), push: Sequence[Engine] = (), **fields: int
    ) -> int:
        """WAIT on an engine."""
        return self.add(Opcode.WAIT, engine, pop, push, engine=int(engine), cycles=cycles, **fields)

    def program(self, *more: Segment) -> Program:
        """The encoded program."""
        beat = self.config.beat_bytes
        size = max(len(self._constant), beat)
        segments = (
            Segment("constants", "constant", size, bytes(self._constant)),
            Segment("x", "input", self.size),
            Segment("y", "output", self.size),
            Segment("spill", "scratch", self.size),
            *more,
        )
        return Program(self.config, encode(self.instructions, self.config), segments)


def compute(config: Config = TINY, units: int = 8) -> Builder:
    """One GEMM and one ALU micro-op of zeros, act, wgt, acc and prm filled; all engines may start."""
    b = Builder(config)
    b.uops(GEMM, [{}])
    b.uops(ALU, [{}])
    b.load(Memory.PRM, count=4)
    b.load(Memory.WGT, count=2)
    b.fill(Memory.ACT, count=units)
    b.fill(Memory.ACC, count=units, push=[GEMM, ALU, STORE])
    for engine in (GEMM, ALU, STORE):
        b.wait(engine, pop=[LOAD])
    return b
