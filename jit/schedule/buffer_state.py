"""Buffers while a schedule is made: what has become of each, and where in act there is a good place for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.config import Config
from tilewright.isa.spec import Engine
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.schedule.memory import Pool


@dataclass(eq=False)
class BufferState:
    """A buffer on its way: which nodes write and read it (``consumers``: node and input; ``readers``: the engines),
    and how many of its rows are there."""

    buffer: Buffer
    producers: list[int]
    consumers: list[tuple[int, int]]
    readers: frozenset[Engine]
    loaded: bool
    stored: bool
    source: str | None = None  #: for the copy of a spilled tensor: the tensor stored in DRAM
    rows_ready: int = 0  #: rows (with padding) that program order has produced
    times: list[float] = field(default_factory=list)
    completed: dict[int, int] = field(default_factory=dict)
    complete: int = 0  #: unpadded rows that every producer has written
    behind: int = 0  #: producers that have written no more than these
    waiting: int = 0  #: consumers that are not done
    live: bool = False
    dead: bool = False
    unstored: list[int] = field(default_factory=list)  #: rows (padding counted) from which on STORE has yet to come


def find_place(state: BufferState, others: Iterable[BufferState], act: Pool, config: Config) -> int | None:
    """The free position in act that shares fewest banks with buffers of other readers or writers."""
    size, best = state.buffer.size, None
    bank = config.act_bank_units
    align = config.act_row_units
    live = [other for other in others if other.live and not other.dead]
    starts = {b * bank for b in range(config.act_banks)} | {low for low, _ in act.ranges()}
    for start in sorted(-(-s // align) * align for s in starts):
        if act.is_free(start, size):
            cost = sum(_conflict(state, other) for other in live if _share(start, size, other.buffer, bank))
            if best is None or cost < best[0]:
                best = (cost, start)
    return None if best is None else best[1]


def _share(start: int, size: int, other: Buffer, bank: int) -> bool:
    """Whether a bank holds something of both."""
    first, last = start // bank, (start + size - 1) // bank
    return other.base // bank <= last and (other.base + other.size - 1) // bank >= first


def _conflict(state: BufferState, other: BufferState) -> int:
    return (other.readers != state.readers) + 2 * (other.loaded != state.loaded)
