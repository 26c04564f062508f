"""Token queues: counts in program order, and vector clocks for happens-before.

A clock is one number per engine: how many instructions of the program (index + 1 of the last one) that
engine has retired before this one issues. It follows from three facts: an engine issues and retires in
order; a push happens at retire; the k-th pop of a queue takes the token of the k-th push.
"""

from __future__ import annotations

from collections import deque

from tilewright.config import Config
from tilewright.isa.codec import Table
from tilewright.isa.spec import Engine, others, token_bit
from tilewright.isa.verify.errors import Describer, Rule, VerifyError

Clock = tuple[int, int, int, int]  #: per engine: index + 1 of the last instruction known to have retired

_OTHERS = {int(e): [(token_bit(e, o), int(o)) for o in others(e)] for e in Engine}
_START: Clock = (0, 0, 0, 0)


def clocks(table: Table, config: Config, describe: Describer) -> list[Clock]:
    """The clock of every instruction of a decoded program.

    Raises :class:`VerifyError` if program order is not a valid execution: a pop before its push, more than
    ``token_depth`` tokens in a queue, or tokens left at the end.
    """
    queues: dict[tuple[int, int], deque[tuple[int, Clock]]] = {
        (int(a), int(b)): deque() for a in Engine for b in others(a)
    }
    current = [_START] * len(Engine)
    result: list[Clock] = []
    for index, (engine, pop, push) in enumerate(table[["engine", "pop", "push"]].tolist()):
        clock = current[engine]
        if pop:
            for bit, other in _OTHERS[engine]:
                if pop & bit:
                    queue = queues[other, engine]
                    if not queue:
                        raise describe.error(
                            Rule.TOKEN_UNDERFLOW, index,
                            f"pops a token from {_name(other)}, but every token pushed earlier is taken",
                        )  # fmt: skip
                    a, b = clock, queue.popleft()[1]
                    clock = (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
            current[engine] = clock
        result.append(clock)
        if push:
            done = list(clock)
            done[engine] = index + 1
            token: Clock = (done[0], done[1], done[2], done[3])
            for bit, other in _OTHERS[engine]:
                if push & bit:
                    queue = queues[engine, other]
                    queue.append((index, token))
                    if len(queue) > config.token_depth:
                        raise describe.error(
                            Rule.TOKEN_OVERFLOW, index,
                            f"pushes token {len(queue)} to {_name(other)}; token_depth is {config.token_depth}",
                        )  # fmt: skip
    for (source, target), queue in queues.items():
        if queue:
            index = queue[0][0]
            raise VerifyError(
                Rule.TOKEN_LEFTOVER,
                f"{describe.name(index)}: {Rule.TOKEN_LEFTOVER}: its token from {_name(source)} to {_name(target)} is "
                f"never popped ({len(queue)} left in that queue at the end)",
                index,
            )
    return result


def _name(engine: int) -> str:
    return Engine(engine).name.lower()
