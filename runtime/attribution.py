"""Which layer each cycle belongs to, and what the cycles without array work waited for.

``docs/reports.md`` states the rules for readers of reports. In short: a cycle belongs to the layer whose GEMM
instruction executes in it; an idle cycle of GEMM belongs to a layer without GEMM instructions if ALU works for
it then, otherwise to the layer whose GEMM instruction comes next, and after the last one to the layer of the
instruction that retires last. So the cycles of the layers add up to the cycles of the program.

What an idle cycle waited for is found by walking back from the late instruction: it waited for the last of its tokens,
for its engine or for its dispatch; a token comes from an instruction that may itself have been late, and so on until
the gap is explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.spec import Engine, Opcode
from tilewright.isa.timing import DISPATCH_LATENCY, TOKEN_LATENCY
from tilewright.runtime.activity import Activity

#: what a layer's cycles went to: three kinds of array work, five of waiting for something
CAUSES = ("compute", "padding", "half-pace", "load", "store", "alu", "fetch", "latency")
ARRAY_CAUSES = CAUSES[:3]
ARRAY_BOUND = 0.85  #: share of a layer's cycles from which on it is bound by the array

_ARRAY, _PACE, _LOAD, _STORE, _ALU, _FETCH, _LATENCY = range(7)  # columns of Attribution.table
_CAUSE_OF_ENGINE = {Engine.LOAD: _LOAD, Engine.GEMM: _ARRAY, Engine.ALU: _ALU, Engine.STORE: _STORE}


@dataclass(frozen=True)
class Attribution:
    """``owner``: the layer of every cycle; ``table``: cycles by layer and what happened in them, shape (layers, 7):
    array at full pace, its second cycles at half pace, then :data:`CAUSES` from ``load`` on.

    ``served``: of each engine, cycles by layer in which it worked for that layer in a cycle of that layer.
    """

    owner: NDArray[np.int64]
    table: NDArray[np.int64]
    served: dict[Engine, NDArray[np.int64]]

    @property
    def cycles(self) -> NDArray[np.int64]:
        """Cycles of each layer; they add up to the program's."""
        return self.table.sum(axis=1)

    def spans(self) -> list[tuple[int, int, int]]:
        """Runs of cycles of one layer: (begin, end, layer), in order of time."""
        if self.owner.size == 0:
            return []
        edges = np.concatenate([[0], np.nonzero(np.diff(self.owner))[0] + 1, [self.owner.size]])
        return [(b, e, int(self.owner[b])) for b, e in zip(edges[:-1].tolist(), edges[1:].tolist())]

    def causes(self, layer: int, useful: int) -> dict[str, int]:
        """A layer's cycles by cause. ``useful``: cycles that its multiplications would fill the array for."""
        array, *rest = self.table[layer].tolist()
        compute = min(useful, array)
        return dict(zip(CAUSES, (compute, array - compute, *rest), strict=True))

    def lower_bound(self, layer: int, array: int, alu: int, read: int, written: int) -> int:
        """Cycles that a layer must have had, of so many that it needs of array, ALU, read and write channel: what of
        them was not served in other layers' cycles. Never more than its cycles."""
        needs = {Engine.GEMM: array, Engine.ALU: alu, Engine.LOAD: read, Engine.STORE: written}
        return max(min(need, int(self.served[engine][layer])) for engine, need in needs.items())


def bound(causes: Mapping[str, int]) -> str:
    """What bounds a layer of these cycles by cause: where the array works at least 85 % of them, what most of its
    work is; otherwise what is waited for most."""
    total, array = sum(causes.values()), sum(causes[name] for name in ARRAY_CAUSES)
    if total == 0:
        return "alu"
    some = ARRAY_CAUSES if array >= ARRAY_BOUND * total else CAUSES[len(ARRAY_CAUSES) :]
    return max(some, key=causes.__getitem__)


def attribute(activity: Activity, layers: int) -> Attribution:
    """Attribute every cycle of a run to one of ``layers`` layers and to a cause."""
    cycles = activity.cycles
    gemm = activity.of_engine(Engine.GEMM)
    working = gemm[activity.opcode[gemm] == Opcode.GEMM]
    idle = _uncovered(activity.begin[working], activity.end[working], cycles)
    last = int(np.argmax(activity.retire)) if len(activity.retire) else 0
    ends = activity.end[working].clip(max=cycles)
    owner = np.repeat(activity.layer[working], np.diff(ends, prepend=0))
    tail = activity.layer[last] if len(activity.layer) else 0
    owner = np.concatenate([owner, np.full(cycles - len(owner), tail, np.int64)])
    cause = np.zeros(cycles, np.int64)
    _blame_gaps(activity, working, last, cause)
    _give_to_vector_layers(activity, idle, set(activity.layer[working].tolist()), owner, cause)
    cause[idle & (cause == _ARRAY)] = _LATENCY
    columns = _LATENCY + 1
    table = np.bincount(owner * columns + np.where(idle, cause, _ARRAY), minlength=layers * columns)
    table = table.reshape(layers, columns)
    slow = np.bincount(activity.layer[working], activity.paused[working], layers).astype(np.int64)
    table[:, _PACE] = slow.clip(max=table[:, _ARRAY])
    table[:, _ARRAY] -= table[:, _PACE]
    return Attribution(owner, table, {engine: _served(activity, engine, owner, layers) for engine in Engine})


def _served(activity: Activity, engine: Engine, owner: NDArray[np.int64], layers: int) -> NDArray[np.int64]:
    """Cycles by layer in which an engine works for it and which are its own."""
    members, begin, end = activity.spans(engine)
    works = np.isin(activity.opcode[members], (Opcode.WAIT, Opcode.FILL), invert=True)
    begin, end = begin[works].clip(max=len(owner)), end[works].clip(max=len(owner))
    gaps = begin - np.concatenate([[0], end[:-1]])
    labels = np.column_stack([np.full(len(begin), -1), activity.layer[members][works]])
    worked = np.repeat(labels.ravel(), np.column_stack([gaps, end - begin]).ravel())
    own = owner[: len(worked)]
    return np.bincount(own[worked == own], minlength=layers)


def _uncovered(begin: NDArray[np.int64], end: NDArray[np.int64], cycles: int) -> NDArray[np.bool_]:
    """True for every cycle that lies in none of the spans."""
    edges = np.zeros(cycles + 1, np.int64)
    np.add.at(edges, begin.clip(max=cycles), 1)
    np.add.at(edges, end.clip(max=cycles), -1)
    return np.cumsum(edges[:-1]) == 0


def _give_to_vector_layers(
    activity: Activity,
    idle: NDArray[np.bool_],
    array_layers: set[int],
    owner: NDArray[np.int64],
    cause: NDArray[np.int64],
) -> None:
    """Idle cycles of GEMM in which ALU works for a layer that has no GEMM instructions go to that layer."""
    alu = activity.of_engine(Engine.ALU)
    for index in alu[activity.opcode[alu] != Opcode.WAIT].tolist():
        layer = int(activity.layer[index])
        if layer not in array_layers:
            span = slice(int(activity.begin[index]), int(activity.end[index]))
            owner[span][idle[span]] = layer
            cause[span][idle[span]] = _ALU


def _blame_gaps(activity: Activity, working: NDArray[np.intp], last: int, cause: NDArray[np.int64]) -> None:
    """Write the cause of every idle cycle of GEMM into ``cause``: walk back from each instruction that was late."""
    if len(activity.retire) == 0:
        return
    gap_begin = 0
    for index in working.tolist():
        issue = int(activity.begin[index])
        if issue > gap_begin:
            _walk_back(activity, index, gap_begin, cause)
        gap_begin = int(activity.end[index])
    end = min(int(activity.retire[last]) + 1, activity.cycles)
    if end > gap_begin:
        cause[end:] = _LATENCY
        _paint_service(activity, last, end, gap_begin, cause)
        _walk_back(activity, last, gap_begin, cause)


def _paint_service(activity: Activity, index: int, until: int, earliest: int, cause: NDArray[np.int64]) -> None:
    """An awaited instruction: its engine's cause while it is served, latency while it drains, up to ``until``."""
    begin, served = int(activity.begin[index]), int(activity.end[index])
    engine = Engine(int(activity.engine[index]))
    waits = activity.opcode[index] == Opcode.WAIT
    cause[max(min(served, until), earliest) : max(until, earliest)] = _LATENCY
    kind = _LATENCY if waits or engine == Engine.GEMM else _CAUSE_OF_ENGINE[engine]
    cause[max(begin, earliest) : max(min(served, until), earliest)] = kind


def _walk_back(activity: Activity, index: int, earliest: int, cause: NDArray[np.int64]) -> None:
    """Explain cycles ``earliest .. issue of index`` by following the constraint that bound at each step."""
    while (issue := int(activity.begin[index])) > earliest:
        awaited, ready = -1, int(activity.dispatch[index]) + DISPATCH_LATENCY
        for source in activity.token_sources[index]:
            arrival = int(activity.retire[source]) + TOKEN_LATENCY
            if arrival >= ready:
                awaited, ready = source, arrival
        previous = int(activity.previous[index])
        if previous >= 0 and ready < issue:
            awaited = previous  # its engine was not free before
        if awaited < 0:
            cause[earliest:issue] = _FETCH  # not dispatched earlier
            return
        _paint_service(activity, awaited, issue, earliest, cause)
        index = awaited
