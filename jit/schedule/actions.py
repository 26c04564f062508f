"""What a schedule is made of: the actions, and the error that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.jit.errors import PlaceError


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
