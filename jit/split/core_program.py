"""One core's program out of several that it would be launched with one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.effects import dram_end
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.isa.spec import FORMAT_OF, Engine, Memory, Opcode, token_bit
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.jit.errors import PlaceError
from tilewright.jit.split.scatter import PAD, SKIPPED, tiles_of
from tilewright.runtime.records import BOUND

CONSTANTS, INPUT, SCRATCH, SHARED = range(4)  #: segments of the program
LOAD, GEMM, ALU, STORE = Engine


class Place(NamedTuple):
    """Bytes of an input or output segment of a program, and where they lie instead.

    ``units``: of each unit its number in shared memory, or what :mod:`tilewright.jit.split.scatter` has, padding being
    ``pad``. None: all in order, from byte ``begin`` of the inputs on.
    """

    segment: int
    offset: int
    size: int
    units: NDArray[np.int64] | None = None
    begin: int = 0
    pad: int = 0


class CoreProgram:
    """Takes programs in one after another. Between two of them all engines wait for each other, as between launches."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._code: list[Instruction] = []
        self._owners: list[int] = []  #: the layer of each
        self._constants = bytearray()
        self._scratch = self._bound = 0
        self._layers: list[dict[str, Any]] = []
        self._name = ""

    def part(self, program: Program, places: Sequence[Place], hears: int, rings: int) -> None:
        """Append a program whose inputs and outputs are at ``places``. Before it cores are heard, after it rung at.

        Raises :class:`PlaceError` where it moves them in another way than by whole units.
        """
        self._between(hears)
        bases = self._bases(program)
        owners = program.meta.get("instruction_layer") or [-1] * program.instruction_count
        for instruction, owner in zip(decode(program.instructions, self._config), owners, strict=True):
            moves = instruction.opcode in (Opcode.LOAD, Opcode.STORE)
            moved = self._moved(instruction, bases, places) if moves else [instruction]
            self._code += moved
            self._owners += [owner + len(self._layers) if owner >= 0 else -1] * len(moved)
        self._layers += program.meta.get("layers", [])
        self._bound += program.meta.get(BOUND, 0)
        self._name = self._name or program.meta.get("name", "")
        if rings:
            self._wait(STORE, ring=rings)

    def program(self, inputs: int, shared: int) -> Program:
        """The whole, with so many bytes of inputs and of memory that all cores share."""
        constants, scratch = max(len(self._constants), PAGE), max(self._scratch, PAGE)
        inputs, shared = max(inputs, PAGE), max(shared, PAGE)
        segments = (
            Segment("constants", "constant", constants, bytes(self._constants)),
            Segment("input", "input", inputs, repeat_stride=inputs),
            Segment("scratch", "scratch", scratch),
            Segment("exchange", "shared", shared, repeat_stride=shared),
        )
        meta = {
            "name": self._name, "layers": self._layers, BOUND: self._bound, "instruction_layer": self._owners,
        }  # fmt: skip
        return Program(self._config, encode(self._code, self._config), segments, meta)

    def _bases(self, program: Program) -> dict[int, tuple[int, int]]:
        """Segment and first beat of what a part brings along: its constants, and scratch, where all use the same."""
        beat, scratch = self._config.beat_bytes, 0
        bases: dict[int, tuple[int, int]] = {}
        for number, segment in enumerate(program.segments):
            if segment.kind == "constant":
                bases[number] = CONSTANTS, len(self._constants) // beat
                data = segment.data or b""
                self._constants += data + bytes(whole_pages(segment.size) - len(data))
            elif segment.kind == "scratch":
                bases[number] = SCRATCH, scratch // beat
                scratch += whole_pages(segment.size)
        self._scratch = max(self._scratch, scratch)
        return bases

    def _moved(
        self, instruction: Instruction, bases: dict[int, tuple[int, int]], places: Sequence[Place]
    ) -> list[Instruction]:
        """A LOAD or STORE as it is where the bytes lie now."""
        row, beat = instruction.row, self._config.beat_bytes
        if row.segment in bases:
            segment, base = bases[row.segment]
            return [_with(instruction, segment=segment, offset=row.offset + base)]
        first, end = row.offset * beat, int(dram_end(row, self._config)) * beat
        for place in places:
            if place.segment == row.segment and place.offset <= first and end <= place.offset + place.size:
                if place.units is None:
                    return [_with(instruction, segment=INPUT, offset=(first - place.offset + place.begin) // beat)]
                return self._scattered(instruction, place, place.units)
        raise PlaceError(f"bytes {first} to {end} of segment {row.segment} are of no tensor")

    def _scattered(self, instruction: Instruction, place: Place, units: NDArray[np.int64]) -> list[Instruction]:
        """Tiles of what the instruction moves, as it lies in shared memory; padding is filled in."""
        row, beats = instruction.row, self._config.act_unit_bytes // self._config.beat_bytes
        first, stride = row.offset - place.offset // self._config.beat_bytes, row.stride if row.rows > 1 else 0
        if row.memory not in (Memory.ACT, Memory.ACC8) or first % beats or stride % beats:
            raise PlaceError("a LOAD or STORE moves parts of units")
        places = row.sram + np.add.outer(np.arange(row.rows) * row.sram_row, np.arange(row.cols) * row.sram_col)
        if row.memory == Memory.ACT:
            places %= row.wrap_size
        across = np.add.outer(first // beats + np.arange(row.rows) * (stride // beats), np.arange(row.cols))
        if instruction.opcode == Opcode.LOAD and (units[across] == SKIPPED).any():
            raise PlaceError("a LOAD reads units that another core stores")
        if len(np.unique(places)) < places.size:
            raise PlaceError("a LOAD or STORE has a unit twice, and its order would be lost")
        filled = Memory.ACT if row.memory == Memory.ACT else Memory.ACC
        made: list[Instruction] = []
        tiles = tiles_of(row, units, first // beats, stride // beats)
        for tile in sorted(tiles, key=lambda tile: tile.first >= 0):  # a FILL waits for the LOADs before it
            fields = {"sram": tile.sram, "sram_row": tile.sram_row, "rows": tile.rows, "cols": tile.cols}
            if tile.first >= 0:
                fields |= {"segment": SHARED, "offset": tile.first * beats, "stride": tile.stride * beats}
                made.append(_with(instruction, pop=0, push=0, trace=0, **fields))
            elif tile.first == PAD:
                kept = {f.name for f in FORMAT_OF[Opcode.FILL].fields} & set(instruction.fields)
                same = {name: instruction.fields[name] for name in kept}
                made.append(Instruction(Opcode.FILL, {**same, **fields, "memory": int(filled), "value": place.pad}))
        made = made or [Instruction(Opcode.WAIT, {"engine": int(instruction.engine)})]
        made[0] = _with(made[0], pop=row.pop)
        made[-1] = _with(made[-1], push=row.push, trace=row.trace)
        return made

    def _between(self, hears: int) -> None:
        """Hear; and behind other programs wait first until all that they do is done."""
        if not self._code:
            if hears:
                self._wait(LOAD, hear=hears)
            return
        for engine in (LOAD, GEMM, ALU):
            self._wait(engine, push=token_bit(engine, STORE))
        every = sum(token_bit(STORE, engine) for engine in (LOAD, GEMM, ALU))
        self._wait(STORE, pop=every, push=token_bit(STORE, LOAD))
        both = token_bit(LOAD, GEMM) | token_bit(LOAD, ALU)
        self._wait(LOAD, pop=token_bit(LOAD, STORE), push=both, hear=hears)
        self._wait(GEMM, pop=token_bit(GEMM, LOAD))
        self._wait(ALU, cycles=ALU_DISTANCE, pop=token_bit(ALU, LOAD))

    def _wait(self, engine: Engine, **fields: int) -> None:
        self._code.append(Instruction(Opcode.WAIT, {"engine": int(engine), **fields}))
        self._owners.append(-1)


def reads(program: Program, segment: int) -> bool:
    """Whether a program loads from a segment."""
    loads = (row for row in decode(program.instructions, program.config) if row.opcode == Opcode.LOAD)
    return any(row.fields["segment"] == segment for row in loads)


def _with(instruction: Instruction, **fields: int) -> Instruction:
    return replace(instruction, fields={**instruction.fields, **fields})
