"""A placement problem, and what a solution says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import TilewrightError
from tilewright.jit.split.steps import Way

UNBOUNDED = 1 << 60  #: above every time, in cycles


class PlacementError(TilewrightError):
    """There is no placement, or the graph is too wide to look at all of them."""


class Part(NamedTuple):
    """Operators that run together, as a bit mask: on ``replicas`` cores, which take turns, or on the CPU (0).

    With a ``way`` the cores work at the same time on one inference, each on some of its rows or channels, or on some of
    the channels that a convolution reads.
    """

    operators: int
    replicas: int
    way: Way | None = None


@dataclass(frozen=True)
class Problem:
    """Operators 0 to n - 1 in an order in which they can run; all costs are integers of one unit of time.

    ``needs``: for each operator the operators whose results it reads, as a bit mask. ``cpu``: each one's time on the
    CPU, None where it cannot run there. ``core``: the time that a set of operators (a bit mask) takes on a core with
    everything in it that comes and goes, None where they cannot run there as one; ``moved``: how much of that is the
    CPU's, which packs and unpacks; ``least``: what ``core`` is never below, found with less work. ``split``: the parts
    as which several cores can share a set, with their times, where those may be less than the second number.
    """

    needs: tuple[int, ...]
    cpu: tuple[int | None, ...]
    core: Callable[[int], int | None]
    split: Callable[[int, int], Mapping[Part, int]] = lambda mask, most: {}
    moved: Callable[[int], int] = lambda mask: 0
    least: Callable[[int], int] = lambda mask: 0

    @property
    def everything(self) -> int:
        """The mask of all operators."""
        return (1 << len(self.needs)) - 1


@dataclass(frozen=True)
class Solution:
    """``parts`` in an order in which they can run; ``cost`` by the objective that it was found for."""

    parts: tuple[Part, ...]
    cost: int


def members(mask: int) -> Iterator[int]:
    """The operators of a bit mask, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def joined(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with neighbours on the CPU made one."""
    result: list[Part] = []
    for part in parts:
        if result and not part.replicas and not result[-1].replicas:
            part = Part(part.operators | result.pop().operators, 0)
        result.append(part)
    return tuple(result)
