"""One program's part of a run: what the device counted for it, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Opcode
from tilewright.runtime.activity import Activity, Traffic, count_traffic, layers_of
from tilewright.runtime.attribution import Attribution, attribute
from tilewright.runtime.device_base import Counters

#: what sets a lower bound -> under which name the compiler records it of a layer
_NEEDS = {"array": "array_cycles", "alu": "alu_cycles", "read": "read_bytes", "write": "write_bytes"}
RESOURCE = {"array": "the array", "alu": "ALU", "read": "reading DRAM", "write": "writing DRAM"}  #: in words
MOST_CYCLES = 1 << 28  #: of an inference whose cycles are attributed one by one, in some 10 bytes each
TRACKS = (*(engine.name for engine in Engine), "layer")  #: of a timeline: the engines, and whose each cycle is


@dataclass(frozen=True)
class ProgramRun:
    """One program of the network and what the device counted for it, per inference.

    ``launch``: programs that ran together, each on a core of its own, have it in common; None: it ran alone.
    """

    program: Program
    counters: Counters
    launch: int | None = None

    @property
    def interval(self) -> float:
        """Cycles from one result to the next while all cores are busy."""
        found = self.counters.interval
        return self.counters.cycles if found is None else found

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes and micro-ops counted from the instructions."""
        return count_traffic(self.program)

    @cached_property
    def activity(self) -> Activity | None:
        """Engine occupation; None where the device gives no events, or of more cycles than can be told apart here."""
        if self.counters.events is None or self.counters.cycles > MOST_CYCLES:
            return None
        return Activity(self.program, self.counters.events, self.counters.cycles)

    @cached_property
    def attribution(self) -> Attribution | None:
        """Cycles by layer; None where the device gives no events."""
        return None if self.activity is None else attribute(self.activity, max(1, len(self.layers)))

    @cached_property
    def layers(self) -> list[dict[str, Any]]:
        """The layers that the compiler recorded, or the parts of a program written by hand."""
        return layers_of(self.program)

    @cached_property
    def lower_bounds(self) -> dict[str, int]:
        """Cycles that each of array, ALU, read and write channel works at least, over the layers."""
        return _needs_of(self.layers, self.program.config)


def busiest(program: Program) -> tuple[str, int]:
    """What of array, ALU, read and write channel must work longest for a program, in words, and for how many cycles."""
    work = _needs_of(layers_of(program), program.config)
    most = max(work, key=work.__getitem__)
    return RESOURCE[most], work[most]


def _needs_of(layers: Sequence[Mapping[str, Any]], config: Config) -> dict[str, int]:
    return needs({key: sum(layer.get(key, 0) for layer in layers) for key in _NEEDS.values()}, config)


def needs(layer: Mapping[str, Any], config: Config) -> dict[str, int]:
    """Cycles of array, ALU, read and write channel that a layer, or a sum of layers, cannot do without."""
    beats = {key: -(-layer.get(key, 0) // config.beat_bytes) for key in ("read_bytes", "write_bytes")}
    return {name: beats.get(key, layer.get(key, 0)) for name, key in _NEEDS.items()}


def launches(runs: Iterable[ProgramRun]) -> list[list[ProgramRun]]:
    """The programs that ran together, one launch after another."""
    found: dict[tuple[int, ...], list[ProgramRun]] = {}
    for number, run in enumerate(runs):
        found.setdefault((number, 0) if run.launch is None else (run.launch,), []).append(run)
    return list(found.values())


class Span(NamedTuple):
    """What a track shows from cycle ``begin`` to ``end`` of a run; ``layer`` counts over all programs.

    On an engine's track ``instruction`` is its number in its program, ``opcode`` its name, and ``times`` are its cycles
    of dispatch, issue and retire; on the track of layers they are -1, empty and empty.
    """

    track: int
    begin: int
    end: int
    layer: int
    instruction: int = -1
    opcode: str = ""
    times: tuple[int, ...] = ()


def spans(runs: Iterable[ProgramRun]) -> Iterator[Span]:
    """What there is to draw of programs that ran one after another, in order of time on each track."""
    start = layers = 0
    for run in runs:
        if (activity := run.activity) is not None and run.attribution is not None:
            for engine in Engine:
                for index, begin, end in zip(*(column.tolist() for column in activity.spans(engine))):
                    times = (activity.dispatch[index], activity.begin[index], activity.retire[index])
                    yield Span(
                        int(engine), start + begin, start + end, layers + int(activity.layer[index]), index,
                        Opcode(int(activity.opcode[index])).name, tuple(start + int(t) for t in times),
                    )  # fmt: skip
            for begin, end, layer in run.attribution.spans():
                yield Span(len(Engine), start + begin, start + end, layers + layer)
        layers += len(run.layers)
        start += run.counters.cycles


def recorded_layers(runs: Iterable[ProgramRun]) -> list[dict[str, Any]]:
    """The layers of all programs, as :class:`Span` numbers them."""
    return [layer for run in runs for layer in run.layers]
