"""Token queues and doorbells: counts, and vector clocks for happens-before, of the programs of all cores.

A clock is one number per engine of every core: how many instructions of its program (index + 1 of the last one) that
engine has retired before this one issues. It follows from four facts: an engine issues and retires in order; a push
happens at retire; the k-th pop of a queue takes the token of the k-th push; the k-th time that a core hears another
takes the k-th doorbell that rang. With one core the order of its program is the order in which all can run; with
several it is any in which nobody hears what has not rung: what hears waits for one core alone, so one is as good as
another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.config import Config
from tilewright.isa.codec import Table
from tilewright.isa.spec import DOORBELL_DEPTH, Engine, others, token_bit
from tilewright.isa.verify.errors import Describer, Rule

Clock = tuple[int, ...]  #: per engine of every core: index + 1 of the last instruction known to have retired
Turn = tuple[int, int, int]  #: a core, its first instruction, and the one after its last

ENGINES = len(Engine)
_OTHERS = {int(e): [(token_bit(e, o), int(o)) for o in others(e)] for e in Engine}
_LOAD, _STORE = int(Engine.LOAD), int(Engine.STORE)


@dataclass
class Order:
    """``clocks``: of the instructions of each core; ``turns``: an order in which all of them can run."""

    clocks: list[list[Clock]]
    turns: list[Turn] = field(default_factory=list)


def ordered(tables: Sequence[Table], config: Config, describe: Sequence[Describer]) -> Order:
    """The order of decoded programs, the k-th on core k.

    Reports a pop before its push, more than ``token_depth`` tokens in a queue, and tokens left at the end; raises
    :class:`VerifyError` for a doorbell that never rings, that nobody hears, or too many of them.
    """
    bells = _Bells(describe)
    cores = [_Core(c, table, config, describe[c], bells) for c, table in enumerate(tables)]
    order = Order([core.clocks for core in cores])
    while not all(core.ended for core in cores):
        before = len(order.turns)
        for c, core in enumerate(cores):
            first = len(core.clocks)
            core.run()
            if len(core.clocks) > first:
                order.turns.append((c, first, len(core.clocks)))
        if len(order.turns) == before:
            raise _deadlock(cores, describe)
    for core in cores:
        core.check_leftover()
    bells.check_leftover()
    return order


def _deadlock(cores: Sequence[_Core], describe: Sequence[Describer]) -> Exception:
    stuck = next(core for core in cores if not core.ended)
    index = len(stuck.clocks)
    other = cores[stuck.unheard]
    where = "has ended" if other.ended else f"waits at {describe[other.number].name(len(other.clocks))}"
    return describe[stuck.number].error(
        Rule.DOORBELL_DEADLOCK, index, f"hears core {other.number}, which rings no more: it {where}"
    )


class _Bells:
    """What has rung, by (from, at): of those not yet heard what their WAITs tell; and which WAITs heard."""

    def __init__(self, describe: Sequence[Describer]) -> None:
        self._describe = describe
        self.rung: dict[tuple[int, int], deque[tuple[int, Clock]]] = {}
        self._count: dict[tuple[int, int], int] = {}
        self._heard: dict[tuple[int, int], list[int]] = {}

    def cores(self, core: int, engine: int, index: int, mask: int, needs: int, verb: str) -> list[int]:
        """The cores of a mask. Raises :class:`VerifyError` if one cannot be meant, or another engine is asked."""
        found = [c for c in range(mask.bit_length()) if mask >> c & 1]
        describe = self._describe[core]
        if engine != needs:
            raise describe.error(Rule.DOORBELL, index, f"only a WAIT on {Engine(needs).name} can {verb} a core")
        for c in found:
            if c == core or c >= len(self._describe):
                there = "itself" if c == core else f"core {c}, and the launch has {len(self._describe)}"
                raise describe.error(Rule.DOORBELL, index, f"{verb}s {there}")
        return found

    def hear(self, source: int, core: int, index: int) -> Clock:
        """Take the next doorbell, which is there."""
        self._heard.setdefault((source, core), []).append(index)
        return self.rung[source, core].popleft()[1]

    def ring(self, core: int, target: int, index: int, clock: Clock, token: Clock) -> None:
        """A doorbell; in any order that keeps to tokens and doorbells, few enough wait to be heard."""
        key = core, target
        self.rung.setdefault(key, deque()).append((index, token))
        self._count[key] = self._count.get(key, 0) + 1
        certain = bisect_left(self._heard.get(key, []), clock[target * ENGINES + _LOAD])
        if self._count[key] - certain > DOORBELL_DEPTH:
            raise self._describe[core].error(
                Rule.DOORBELL_OVERFLOW, index,
                f"rings core {target}, which may not have heard {self._count[key] - certain - 1} doorbells before; at "
                f"most {DOORBELL_DEPTH} are kept",
            )  # fmt: skip

    def check_leftover(self) -> None:
        """Raise :class:`VerifyError` if a doorbell was not heard."""
        for (source, target), waiting in self.rung.items():
            if waiting:
                raise self._describe[source].error(
                    Rule.DOORBELL_LEFTOVER, waiting[0][0], f"core {target} never hears its doorbell"
                )


class _Core:
    """One program on its way: ``clocks`` of the instructions so far; ``unheard``, the core that it waits for."""

    def __init__(self, number: int, table: Table, config: Config, describe: Describer, bells: _Bells) -> None:
        self.number, self.clocks = number, list[Clock]()
        self.unheard = -1
        self._describe, self._bells, self._depth = describe, bells, config.token_depth
        self._rows: list[tuple[int, ...]] = table[["engine", "pop", "push", "hear", "ring"]].tolist()
        self._queues: dict[tuple[int, int], deque[tuple[int, Clock]]] = {
            (int(a), int(b)): deque() for a in Engine for b in others(a)
        }
        start: Clock = (0,) * (ENGINES * len(bells._describe))
        self._current = [start] * ENGINES

    @property
    def ended(self) -> bool:
        """Whether all instructions have their clock."""
        return len(self.clocks) == len(self._rows)

    def run(self) -> None:
        """Go on to the end, or to what hears a doorbell that has not rung."""
        current, result = self._current, self.clocks
        base = self.number * ENGINES
        for index in range(len(result), len(self._rows)):
            engine, pop, push, hear, ring = self._rows[index]
            clock = current[engine]
            if hear:
                sources = self._bells.cores(self.number, engine, index, hear, _LOAD, "hear")
                missing = [source for source in sources if not self._bells.rung.get((source, self.number))]
                if missing:
                    self.unheard = missing[0]
                    return
                for source in sources:
                    clock = _later(clock, self._bells.hear(source, self.number, index))
            if pop:
                for bit, other in _OTHERS[engine]:
                    if pop & bit:
                        queue = self._queues[other, engine]
                        if queue:
                            clock = _later(clock, queue.popleft()[1])
                        else:
                            what = f"pops a token from {_name(other)}, but every token pushed earlier is taken"
                            self._describe.report(Rule.TOKEN_UNDERFLOW, index, what)
            current[engine] = clock
            result.append(clock)
            if push or ring:
                done = base + engine
                token = (*clock[:done], index + 1, *clock[done + 1 :])
                if push:
                    self._push(index, engine, push, token)
                for target in self._bells.cores(self.number, engine, index, ring, _STORE, "ring") if ring else ():
                    self._bells.ring(self.number, target, index, clock, token)

    def _push(self, index: int, engine: int, push: int, token: Clock) -> None:
        for bit, other in _OTHERS[engine]:
            if push & bit:
                queue = self._queues[engine, other]
                queue.append((index, token))
                if len(queue) > self._depth:
                    self._describe.report(
                        Rule.TOKEN_OVERFLOW, index,
                        f"pushes token {len(queue)} to {_name(other)}; token_depth is {self._depth}",
                    )  # fmt: skip

    def check_leftover(self) -> None:
        """Report tokens that were not popped."""
        for (source, target), queue in self._queues.items():
            if queue:
                self._describe.report(
                    Rule.TOKEN_LEFTOVER, queue[0][0],
                    f"its token from {_name(source)} to {_name(target)} is never popped ({len(queue)} left in that "
                    "queue at the end)",
                )  # fmt: skip


def _later(a: Clock, b: Clock) -> Clock:
    if len(a) == ENGINES:  # of one core: by far the most
        return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])
    return tuple(map(max, a, b))


def _name(engine: int) -> str:
    return Engine(engine).name.lower()
