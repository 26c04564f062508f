"""What a schedule is made of: the actions, the policy that chose them, and the error that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.jit.kernels.base import PlaceError


@dataclass(frozen=True)
class Policy:
    """What the scheduler prefers; the compiler tries several and keeps the fastest program."""

    deep: bool = True  #: of the tasks that can start now, take the one furthest down the network
    constant_share: float = 0.5  #: share of the bus that constants may take while inputs also wait
    slack: int | None = None  #: rows that act holds of each tensor beyond the least; None: all rows if they fit


@dataclass(frozen=True)
class LoadChunk:
    """Load a node's constants to ``wgt`` and ``prm`` from these entries on."""

    node: int
    chunk: int
    wgt: int
    prm: int


@dataclass(frozen=True)
class LoadRow:
    """Load row ``row`` (padding counted) of an input tensor."""

    tensor: str
    row: int


@dataclass(frozen=True)
class RunTask:
    """Run a node's task with its accumulators at ``acc``."""

    node: int
    task: int
    acc: int


@dataclass(frozen=True)
class StoreRow:
    """Store row ``row`` (unpadded) of an output or spilled tensor."""

    tensor: str
    row: int


Action = LoadChunk | LoadRow | RunTask | StoreRow


class ScheduleError(PlaceError):
    """The schedule ran out of a memory; ``memory`` and ``tensors`` say which and who held it."""

    def __init__(self, message: str, memory: str, tensors: list[str]) -> None:
        super().__init__(message)
        self.memory = memory
        self.tensors = tensors
