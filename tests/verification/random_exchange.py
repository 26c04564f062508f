"""Random legal programs for the cores of one design, which exchange units through shared memory and ring doorbells.

Each core moves units from its input through act to the shared segment and rings those that are to read them; they hear,
now or later, and move them on to their outputs. Now and then all cores wait for all, and places in shared memory are
used anew. Between moves engines rest for random times, so that who comes first is left to chance.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import DOORBELL_DEPTH, Engine, Memory, Opcode, token_bit

INPUT, OUTPUT, SHARED = range(3)
PLACES = 6  #: of tiles in shared memory
TILE = 12  #: most units of a tile
LOAD, STORE = Engine.LOAD, Engine.STORE


def random_exchange(rng: np.random.Generator, config: Config, moves: int) -> list[Program]:
    """A program for each core; about ``moves`` exchanges and as many moves of a core on its own."""
    return _Exchange(rng, config).programs(moves)


class _Core:
    """One program in the making: tiles go through two halves of act in turns."""

    def __init__(self, config: Config, number: int) -> None:
        self.config, self.number = config, number
        self.code: list[Instruction] = []
        self.outputs = 0  #: beats
        self._moves = self._open = 0  #: of all, those whose token STORE has sent LOAD and that it has not taken
        self.beats = config.act_unit_bytes // config.beat_bytes  #: of a unit

    def wait(self, engine: Engine, cycles: int, **fields: int) -> None:
        self.code.append(Instruction(Opcode.WAIT, {"engine": int(engine), "cycles": cycles, **fields}))

    def move(self, units: int, rows: int, source: tuple[int, int], target: tuple[int, int]) -> None:
        """Rows of units from (segment, beat) to (segment, beat), each row after the other."""
        half = self.config.act_units // 2
        tile = {
            "rows": rows, "cols": units, "sram_col": 1, "sram_row": units, "stride": units * self.beats,
            "wrap_base": self._moves % 2 * half, "wrap_size": half,
        }  # fmt: skip
        most = min(2, self.config.token_depth)
        pop = token_bit(LOAD, STORE) if self._open == most else 0
        push, back = token_bit(LOAD, STORE), token_bit(STORE, LOAD)
        into, out = ({"segment": segment, "offset": beat} for segment, beat in (source, target))
        self.code += [
            Instruction(Opcode.LOAD, {"memory": int(Memory.ACT), "pop": pop, "push": push, **tile, **into}),
            Instruction(Opcode.STORE, {"pop": back, "push": back, **tile, **out}),
        ]
        self._moves += 1
        self._open = min(self._open + 1, most)

    def keep(self, units: int, rows: int, source: tuple[int, int]) -> None:
        """Move a tile to a place of its own among the outputs."""
        self.move(units, rows, source, (OUTPUT, self.outputs))
        self.outputs += units * rows * self.beats

    def settle(self) -> None:
        """All moves before are done."""
        for _ in range(self._open):
            self.wait(LOAD, 1, pop=token_bit(LOAD, STORE))
        self._open = 0

    def order_rings(self) -> None:
        """What rings from here on rings after all that LOAD has read."""
        self.wait(LOAD, 1, push=token_bit(LOAD, STORE))
        self.wait(STORE, 1, pop=token_bit(STORE, LOAD))

    def program(self, shared: int) -> Program:
        self.settle()
        beat = self.config.beat_bytes
        sizes = (2 * TILE * self.beats, max(self.outputs, 1), shared)
        segments = (
            Segment("x", "input", sizes[0] * beat), Segment("y", "output", sizes[1] * beat),
            Segment("exchange", "shared", sizes[2] * beat),
        )  # fmt: skip
        return Program(self.config, encode(self.code, self.config), segments)


class _Exchange:
    def __init__(self, rng: np.random.Generator, config: Config) -> None:
        self.rng, self.config = rng, config
        self.cores = [_Core(config, number) for number in range(config.cores)]
        self.place = TILE * self.cores[0].beats  #: beats of a tile's place
        self.used = 0
        #: by (from, at): the tiles that were rung and not heard
        self.waiting: dict[tuple[int, int], deque[tuple[int, int, int]]] = {}
        self.rung: dict[tuple[int, int], int] = {}

    def programs(self, moves: int) -> list[Program]:
        for _ in range(moves):
            self._pause()
            self._send()
            for key in list(self.waiting):
                while self.waiting[key] and self.rng.random() < 0.4:
                    self._hear(*key)
            self._alone()
        self._meet()
        return [core.program(PLACES * self.place) for core in self.cores]

    def _shape(self) -> tuple[int, int]:
        units = int(self.rng.integers(1, TILE + 1))
        return units, int(self.rng.integers(1, TILE // units + 1))

    def _source(self, units: int, rows: int) -> tuple[int, int]:
        return INPUT, int(self.rng.integers(0, (2 * TILE - units * rows) + 1)) * self.cores[0].beats

    def _pause(self) -> None:
        core = self.cores[int(self.rng.integers(len(self.cores)))]
        core.wait(LOAD if self.rng.random() < 0.5 else STORE, int(self.rng.integers(1, 200)))

    def _alone(self) -> None:
        units, rows = self._shape()
        core = self.cores[int(self.rng.integers(len(self.cores)))]
        core.keep(units, rows, self._source(units, rows))

    def _send(self) -> None:
        """A core moves a tile to shared memory and rings some of the others."""
        most = max(self.rung.values(), default=0)
        if self.used == PLACES or most == DOORBELL_DEPTH - 1:
            self._meet()
        sender = int(self.rng.integers(len(self.cores)))
        targets = [c for c in range(len(self.cores)) if c != sender and self.rng.random() < 0.7]
        units, rows = self._shape()
        core, beat = self.cores[sender], self.used * self.place
        core.move(units, rows, self._source(units, rows), (SHARED, beat))
        self.used += 1
        if targets:
            core.wait(STORE, int(self.rng.integers(1, 4)), ring=sum(1 << c for c in targets))
        for target in targets:
            key = sender, target
            self.waiting.setdefault(key, deque()).append((units, rows, beat))
            self.rung[key] = self.rung.get(key, 0) + 1

    def _hear(self, source: int, at: int) -> None:
        """A core hears one other, or at once another one too, and takes what they sent."""
        sources = [source, *(s for s, t in self.waiting if t == at and s != source and self.waiting[s, t])][:2]
        core = self.cores[at]
        core.wait(LOAD, int(self.rng.integers(1, 4)), hear=sum(1 << s for s in sources))
        for s in sources:
            units, rows, beat = self.waiting[s, at].popleft()
            core.keep(units, rows, (SHARED, beat))

    def _meet(self) -> None:
        """Everybody takes what waits, and waits for everybody: then all places are free."""
        for key in list(self.waiting):
            while self.waiting[key]:
                self._hear(*key)
        everybody = (1 << len(self.cores)) - 1
        for c, core in enumerate(self.cores):
            core.settle()
            core.order_rings()
            core.wait(STORE, 1, ring=everybody & ~(1 << c), push=token_bit(STORE, LOAD))
            core.wait(LOAD, 1, hear=everybody & ~(1 << c), pop=token_bit(LOAD, STORE))
        self.used, self.rung = 0, {}
