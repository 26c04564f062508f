"""What each engine did when: derived from a program and the (dispatch, issue, retire) events of one run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.effects import TILES, micro_ops, row_beats, slots
from tilewright.isa.program import Program
from tilewright.isa.spec import UOP_MEMORY, Engine, Opcode, others
from tilewright.runtime.device_base import Events

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """Bytes over the bus and micro-ops of one inference, counted from the instructions."""

    read_bytes: int
    write_bytes: int
    uops_loaded: int  #: micro-ops that LOAD brings on chip
    uops_issued: int  #: micro-ops that GEMM and ALU execute


def count_traffic(program: Program) -> Traffic:
    """Count what a program moves: whole beats of its instructions and of every row, and micro-ops."""
    fields, beat = program.columns(), program.config.beat_bytes
    moved = fields.rows * row_beats(fields, program.config) * beat
    loads, stores = fields.opcode == Opcode.LOAD, fields.opcode == Opcode.STORE
    uops = loads & np.isin(fields.memory, list(UOP_MEMORY.values()))
    return Traffic(
        read_bytes=-(-len(program.instructions) // beat) * beat + int(moved[loads].sum()),
        write_bytes=int(moved[stores].sum()),
        uops_loaded=int((fields.rows * fields.cols)[uops].sum()),
        uops_issued=int(micro_ops(fields).sum()),
    )


def layers_of(program: Program) -> list[dict[str, Any]]:
    """The layers that the compiler recorded, with what they need; of a program written by hand its own parts, or one
    that stands for all, with the work of their instructions in the same terms."""
    recorded: list[dict[str, Any]] = program.meta.get("layers") or [{"name": "program"}]
    if all("array_cycles" in layer for layer in recorded):
        return recorded
    config, fields, owner = program.config, program.columns(), layer_of_instruction(program)
    ops, moved = micro_ops(fields), fields.rows * row_beats(fields, config) * config.beat_bytes
    loads, own = fields.opcode == Opcode.LOAD, len(program.instructions) // max(1, len(owner))
    gemm = fields.opcode == Opcode.GEMM
    work = {
        "macs": np.where(gemm & (fields.window == 0), ops * config.array_macs, 0),
        "array_cycles": np.where(gemm, ops, 0),
        "alu_cycles": np.where((fields.engine == Engine.ALU) & (fields.opcode != Opcode.WAIT), ops, 0),
        "read_bytes": np.where(loads, moved, 0) + own,
        "write_bytes": np.where(fields.opcode == Opcode.STORE, moved, 0),
    }
    sums = {key: np.bincount(owner, values, len(recorded)).astype(np.int64) for key, values in work.items()}
    of_layer = [{key: int(column[k]) for key, column in sums.items()} for k in range(len(recorded))]
    return [{"op": "", "place": "accelerator", **found, **layer} for layer, found in zip(recorded, of_layer)]


def layer_of_instruction(program: Program) -> Int64:
    """The layer index of every instruction; one of no layer (-1) takes that of the next that has one, or the last."""
    count = program.instruction_count
    owners = np.asarray(program.meta.get("instruction_layer") or [-1] * count, np.int64)
    known = np.nonzero(owners >= 0)[0]
    if known.size == 0:
        return np.zeros(count, np.int64)
    following = np.searchsorted(known, np.arange(count)).clip(max=known.size - 1)
    return owners[known[following]]


class Activity:
    """Occupation of the engines over the cycles of one run.

    Per instruction, as int64 arrays: ``engine``, ``layer``, ``begin`` (issue), ``end`` (first cycle after its
    service: the slots of GEMM and ALU, the retire of what LOAD and STORE run) and ``retire``.
    """

    def __init__(self, program: Program, events: Events, cycles: int) -> None:
        fields = program.columns()
        self.program, self.cycles = program, cycles
        self.opcode, self.engine = fields.opcode, fields.engine
        self.layer = layer_of_instruction(program)
        self.dispatch, self.begin, self.retire = events.dispatch, events.issue, events.retire
        self._pop, self._push = fields.pop, fields.push
        moves = np.isin(self.opcode, TILES)
        self.service = np.where(moves, self.retire - self.begin + 1, slots(fields, program.config))
        self.end = self.begin + self.service
        #: cycles of an engine that goes at half pace, or waits for the second half of a result
        self.paused = np.where(moves, 0, self.service - micro_ops(fields)).clip(min=0)

    def of_engine(self, engine: Engine) -> NDArray[np.intp]:
        """Indices of an engine's instructions, in program order."""
        return np.nonzero(self.engine == engine)[0]

    @cached_property
    def token_sources(self) -> list[tuple[int, ...]]:
        """For each instruction, the instructions whose pushes its pops consume (k-th push to k-th pop)."""
        sources: list[list[int]] = [[] for _ in range(len(self.opcode))]
        for consumer in Engine:
            for bit, producer in enumerate(others(consumer)):
                pops = np.nonzero((self.engine == consumer) & (self._pop >> bit & 1 == 1))[0]
                back = others(producer).index(consumer)
                pushes = np.nonzero((self.engine == producer) & (self._push >> back & 1 == 1))[0]
                for pop, push in zip(pops.tolist(), pushes.tolist()):
                    sources[pop].append(push)
        return [tuple(found) for found in sources]

    @cached_property
    def previous(self) -> Int64:
        """For each instruction, the one before it on its engine; -1 for the first."""
        result = np.full(len(self.opcode), -1, np.int64)
        for engine in Engine:
            members = self.of_engine(engine)
            result[members[1:]] = members[:-1]
        return result

    def spans(self, engine: Engine) -> tuple[NDArray[np.intp], Int64, Int64]:
        """(instructions, begin, end) without overlap, for drawing.

        LOAD and STORE work on several instructions at once; each is drawn from the end of the one before it.
        """
        members = self.of_engine(engine)
        begin, end = self.begin[members].copy(), self.end[members]
        begin[1:] = np.maximum(begin[1:], end[:-1])
        return members, begin, np.maximum(end, begin)

    def busy(self, engine: Engine) -> int:
        """Cycles in which the engine works, WAIT left out."""
        members, begin, end = self.spans(engine)
        return int((end - begin)[self.opcode[members] != Opcode.WAIT].sum())
