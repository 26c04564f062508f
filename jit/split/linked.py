"""Launches made one: what the host carried between them goes through memory that cores share, in order of doorbells.

A launch computes a part, in one program or in pieces on cores of their own; between two of them the host only unpacks,
joins, cuts, pads and packs. Those who make a tensor can as well store their units of it where the next part looks for
them, which fills in padding itself. So a core's programs become one, part after part: behind each part it rings those
that will read what it has stored, and before each it hears those that it reads from, of their last part that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program, whole_pages
from tilewright.isa.verifier import VerifyError, verify_together
from tilewright.jit.errors import PlaceError
from tilewright.jit.split.core_program import INPUT, SHARED, CoreProgram, Place, reads
from tilewright.jit.split.scatter import PAD, SKIPPED
from tilewright.runtime.steps import CutStep, JoinStep, LaunchStep, PackStep, Step, TensorSpec, UnpackStep

_CORES = 64  #: more than any design has
Linked = tuple[list[Step], list[Program]]


class _Apart(Exception):
    """What a part reads or gives is not whole units of a tensor."""


class Piece(NamedTuple):
    """A tensor that a program reads or gives: where it begins in which whole tensor, and the whole one's shape."""

    whole: str
    origin: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass
class _Part:
    """A launch with the host's steps around it."""

    before: list[CutStep | PackStep]
    launch: LaunchStep
    after: list[UnpackStep | JoinStep] = field(default_factory=list)

    @property
    def packs(self) -> list[PackStep]:
        return [step for step in self.before if isinstance(step, PackStep)]

    @property
    def unpacks(self) -> list[UnpackStep]:
        return [step for step in self.after if isinstance(step, UnpackStep)]

    def given(self) -> dict[str, Piece]:
        """What its programs give, by tensor."""
        joins = {name: (join, k) for join in self.after if isinstance(join, JoinStep)
                 for k, name in enumerate(join.inputs)}  # fmt: skip
        found = {}
        for step in self.unpacks:
            join, k = joins.get(step.tensor, (None, 0))
            shape, origin = step.tensor_shape, (0,) * len(step.tensor_shape)
            found[step.tensor] = (
                Piece(step.tensor, origin, shape) if join is None else Piece(join.output, join.origins[k], join.shape)
            )
        return found

    def taken(self, step: PackStep) -> Piece:
        """What a program reads, of the tensor that the host would cut it from."""
        for cut in self.before:
            if isinstance(cut, CutStep) and cut.output == step.tensor:
                return Piece(cut.input, cut.begin, ())
        return Piece(step.tensor, (0,) * 4, ())


def linked(steps: Sequence[Step], programs: Sequence[Program], kept: Sequence[TensorSpec], config: Config) -> Linked:
    """The steps and programs with launches made one wherever nothing but the moving of whole units is between them.

    ``kept``: tensors that are wanted of the steps in the end. The same programs where there is nothing to link, or
    what is linked would not be legal.
    """
    made = _Made(list(programs), config)
    wanted = {tensor.name for tensor in kept}
    position = 0
    while position < len(steps):
        parts, end = _parts(steps, position)
        if not parts:
            made.steps.append(steps[position])
            position += 1
            continue
        read = wanted | {name for step in steps[end:] for name in _reads(step)}
        while parts:
            count = made.chain(parts, read)
            parts = parts[count:]
        position = end
    return made.steps, made.programs


def _parts(steps: Sequence[Step], position: int) -> tuple[list[_Part], int]:
    """The launches from a step on between which the host only moves, and the step behind them."""
    parts: list[_Part] = []
    before: list[CutStep | PackStep] = []
    start = end = position
    for number in range(start, len(steps)):
        step = steps[number]
        if isinstance(step, CutStep | PackStep):
            before.append(step)
        elif isinstance(step, LaunchStep):
            parts.append(_Part(before, step))
            before = []
        elif isinstance(step, UnpackStep | JoinStep) and parts and not before:
            parts[-1].after.append(step)
        else:
            break
        if parts and not before:
            end = number + 1
    return parts, end


def _reads(step: Step) -> tuple[str, ...]:
    """The tensors that a step takes from the environment."""
    if isinstance(step, PackStep):
        return (step.tensor,)
    if isinstance(step, UnpackStep | LaunchStep):
        return ()
    many: tuple[str, ...] | None = getattr(step, "inputs", None)
    return many if many is not None else (str(getattr(step, "input", "")),)


@dataclass
class _Made:
    """The steps and programs so far."""

    old: list[Program]
    config: Config
    steps: list[Step] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)

    def chain(self, parts: Sequence[_Part], read: set[str]) -> int:
        """Append as many parts as can be one launch, at least the first; how many."""
        chain = _Chain(self.old, self.config)
        count = 0
        try:
            for part in parts:
                chain.add(part)
                count += 1
        except _Apart:
            pass
        while count > 1:
            later = {name for part in parts[count:] for step in (*part.before, *part.after) for name in _reads(step)}
            try:
                made = chain.programs(count)
                verify_together(made)
            except (PlaceError, VerifyError):  # then fewer, in the end none
                count -= 1
                continue
            self._append(chain, made, parts[:count], read | later)
            return count
        self._keep(parts[0])
        return 1

    def _keep(self, part: _Part) -> None:
        """A launch as it was."""
        number = {old: len(self.programs) + k for k, old in enumerate(part.launch.programs)}
        self.programs += [self.old[old] for old in part.launch.programs]
        first, *others = number.values()
        for step in (*part.before, part.launch, *part.after):
            if isinstance(step, PackStep | UnpackStep):
                self.steps.append(replace(step, program=number[step.program]))
            elif isinstance(step, LaunchStep):
                self.steps.append(LaunchStep(first, tuple(others)))
            else:
                self.steps.append(step)

    def _append(self, chain: _Chain, made: list[Program], parts: Sequence[_Part], read: set[str]) -> None:
        first = len(self.programs)
        self.programs += made
        packs = chain.packs[: len(parts)]
        outside = {pack.tensor for part in packs for pack in part}
        for part in parts:
            self.steps += [s for s in part.before if isinstance(s, CutStep) and s.output in outside]
        self.steps += [replace(pack, program=first + pack.program) for part in packs for pack in part]
        self.steps.append(LaunchStep(first, tuple(range(first + 1, first + len(made)))))
        for whole in dict.fromkeys(piece.whole for part in parts for piece in part.given().values()):
            if whole in read:
                self.steps.append(replace(chain.unpack(whole), program=first))


@dataclass
class _Whole:
    """A tensor in shared memory: its image, the number of its first unit, and who stores each of them."""

    shape: tuple[int, ...]
    image: tuple[int, int, int]  #: rows, columns, units
    first: int
    makers: NDArray[np.int64]  #: (rows, columns, units): part and core as one number, -1 for nobody

    def units(self) -> NDArray[np.int64]:
        """The numbers of all units, shape (rows, columns, units)."""
        return np.arange(self.makers.size).reshape(self.image) + self.first

    def box(self, origin: tuple[int, ...], shape: tuple[int, ...], lanes: int) -> tuple[slice, slice, slice]:
        """Which of them are the piece of an image that begins at ``origin``."""
        top, left, channel = (*origin[1:],) if len(self.shape) == 4 else (0, 0, origin[-1])
        if channel % lanes or shape[3] % lanes:
            raise _Apart
        found = zip((top, left, channel // lanes), (shape[1], shape[2], shape[3] // lanes))
        rows, columns, units = (slice(begin, begin + size) for begin, size in found)
        return rows, columns, units


class _Chain:
    """Parts on their way to one launch. ``packs``: of each part, the host's, as of the programs by core."""

    def __init__(self, programs: Sequence[Program], config: Config) -> None:
        self._old, self._config = programs, config
        self._parts: list[_Part] = []
        self._wholes: dict[str, _Whole] = {}
        self._size = 0  #: units
        self._pieces: set[str] = set()  #: tensors of single programs, which are parts of others
        self._places: list[list[list[Place]]] = []  #: by part and core
        self._needs: list[list[dict[int, int]]] = []  #: by part and core: of which core which part must have ended
        self._inputs = [0] * config.cores  #: bytes, by core
        self.packs: list[list[PackStep]] = []

    def add(self, part: _Part) -> None:
        """Raises :class:`_Apart` if it cannot follow the others."""
        programs = part.launch.programs
        places, needs = [list[Place]() for _ in programs], [dict[int, int]() for _ in programs]
        packs: list[PackStep] = []
        if len(programs) > self._config.cores:
            raise _Apart
        for step in part.packs:
            core, taken = programs.index(step.program), part.taken(step)
            if taken.whole in self._pieces:
                raise _Apart
            if taken.whole in self._wholes:
                places[core].append(self._taken(step, taken, needs[core], core))
                continue
            begin = self._inputs[core]
            places[core].append(Place(step.segment, step.offset, step.size, begin=begin))
            packs.append(replace(step, program=core, offset=begin, segment=INPUT))
            self._inputs[core] += whole_pages(step.size)
        given = part.given()
        for unpack in part.unpacks:
            core = programs.index(unpack.program)
            maker, program = len(self._parts) * _CORES + core, self._old[unpack.program]
            places[core].append(self._given(unpack, given[unpack.tensor], maker, reads(program, unpack.segment)))
        self._parts.append(part)
        self._places.append(places)
        self._needs.append(needs)
        self._pieces |= {name for name, piece in given.items() if name != piece.whole}
        self.packs.append(packs)

    def _taken(self, step: PackStep, taken: Piece, needs: dict[int, int], core: int) -> Place:
        """Where a program's input lies in shared memory; ``needs`` gets whose it is."""
        lanes, whole = self._config.lanes, self._wholes[taken.whole]
        plain = step.layout == "rows" and step.permutation is None and step.value_offset == 0 and step.batch == 1
        if not plain or step.units * lanes != step.shape[3]:
            raise _Apart
        box = whole.box(taken.origin, step.shape, lanes)
        for maker in np.unique(whole.makers[box]).tolist():
            if maker < 0:
                raise _Apart
            number, other = divmod(maker, _CORES)
            if other != core:
                needs[other] = max(number, needs.get(other, -1))
        top, left, bottom, right = step.padding
        units = np.pad(whole.units()[box], ((top, bottom), (left, right), (0, 0)), constant_values=PAD)
        return Place(step.segment, step.offset, step.size, units.ravel(), pad=step.pad_value)

    def _given(self, step: UnpackStep, piece: Piece, maker: int, again: bool) -> Place:
        """Where a program's output lies in shared memory; what another core stores as well is left to that one, or,
        if the program reads its output ``again``, has a place of its own."""
        lanes = self._config.lanes
        plain = step.permutation is None and step.value_offset == 0 and step.dtype == "int8" and step.batch == 1
        if not plain or step.units * lanes != step.shape[3]:
            raise _Apart
        if piece.whole not in self._wholes:
            rows, columns, channels = _image(piece.shape)
            if channels % lanes:
                raise _Apart
            image = rows, columns, channels // lanes
            self._wholes[piece.whole] = _Whole(piece.shape, image, self._size, np.full(image, -1))
            self._reserve(math.prod(image))
        whole = self._wholes[piece.whole]
        box = whole.box(piece.origin, step.shape, lanes)
        free = whole.makers[box] < 0
        units = np.where(free, whole.units()[box], SKIPPED)
        if again:
            others = int(np.count_nonzero(~free))
            units[~free] = np.arange(others) + self._size
            self._reserve(others)
        whole.makers[box] = np.where(free, maker, whole.makers[box])
        return Place(step.segment, step.offset, step.size, units.ravel())

    def _reserve(self, units: int) -> None:
        """Room for so many more units, in whole pages."""
        page = PAGE // self._config.act_unit_bytes
        self._size += -(-units // page) * page

    def unpack(self, name: str) -> UnpackStep:
        """All of a tensor, from shared memory."""
        whole = self._wholes[name]
        rows, columns, units = whole.image
        shape = 1, rows, columns, units * self._config.lanes
        offset = whole.first * self._config.act_unit_bytes
        return UnpackStep(name, SHARED, shape, whole.shape, self._config.lanes, units, offset=offset)

    def programs(self, count: int) -> list[Program]:
        """One for each core, of the first ``count`` parts."""
        cores = max(len(part.launch.programs) for part in self._parts[:count])
        rings, hears = _doorbells(self._needs[:count], cores)
        result = []
        for core in range(cores):
            made = CoreProgram(self._config)
            for number, part in enumerate(self._parts[:count]):
                if core < len(part.launch.programs):
                    program = self._old[part.launch.programs[core]]
                    made.part(program, self._places[number][core], hears[number][core], rings[number][core])
            inputs = sum(whole_pages(p.size) for packs in self.packs[:count] for p in packs if p.program == core)
            result.append(made.program(inputs, self._size * self._config.act_unit_bytes))
        return result


def _doorbells(needs: Sequence[Sequence[dict[int, int]]], cores: int) -> tuple[list[list[int]], list[list[int]]]:
    """By part and core: whom a core rings after a part, and whom it hears before one. What it has heard it knows."""
    rings, hears = ([[0] * cores for _ in needs] for _ in range(2))
    known = [dict[int, int]() for _ in range(cores)]
    for number, of_part in enumerate(needs):
        for core, of_core in enumerate(of_part):
            for maker, last in of_core.items():
                if last > known[core].get(maker, -1):
                    known[core][maker] = last
                    rings[last][maker] |= 1 << core
                    hears[number][core] |= 1 << maker
    return rings, hears


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Rows, columns and channels. Raises :class:`_Apart` for what is no image and no vector."""
    if len(shape) == 4 and shape[0] == 1:
        return shape[1], shape[2], shape[3]
    if len(shape) == 2 and shape[0] == 1:
        return 1, 1, shape[1]
    raise _Apart
