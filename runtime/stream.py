"""Streams: inferences that follow on each other, each of which finds the states that the last one left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.progress import Advance
from tilewright.runtime.artifact import Artifact, accelerator_layers
from tilewright.runtime.interpreters import Interpreter
from tilewright.runtime.one_process import refuse_copy
from tilewright.runtime.report.report import Report

_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"


class StreamError(TilewrightError):
    """A stream cannot go on, or an artifact cannot be run as one; says why and what to do."""


@dataclass
class Kept:
    """What one inference leaves to the next: tensors of programs by name, and interpreters by the number of their step.

    ``under_way``: an inference has begun and not ended.
    """

    tensors: dict[str, NDArray[Any]]
    interpreters: dict[int, Interpreter] = field(default_factory=dict)
    under_way: bool = False

    def check_ended(self, name: str) -> None:
        """Raise :class:`StreamError` if the last inference of the model of that name has not ended."""
        if self.under_way:
            raise StreamError(
                f"{name}: an inference of this stream has not ended, so it has no state to go on from; reset it"
            )


class Stream:
    """Inferences of one :class:`~tilewright.runtime.executable.Executable` that follow on each other
    (:meth:`~tilewright.runtime.executable.Executable.stream`).

    The first begins with reset states, every other one with those that the last one left: what one interpreter gives
    that is invoked again and again. States are the stream's own, so any number of streams go on side by side; between
    calls it holds nothing of the device. Of several threads that run one stream each has a whole call to itself.
    """

    def __init__(self, artifact: Artifact, run: Callable[..., tuple[Any, Report]]) -> None:
        self.artifact, self._run = artifact, run
        self.reset()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_copy(f"a stream of {self.artifact.name}", "begin another", StreamError)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.reset()

    def __call__(self, x: Any) -> Any:
        """``run`` without the report."""
        return self.run(x)[0]

    def run(
        self, x: Any, *, progress: Advance | None = None, keep_intermediates: str | Path | None = None
    ) -> tuple[Any, Report]:
        """The next N inferences, one after another.

        Arguments and result as in :meth:`~tilewright.runtime.executable.Executable.run`. Raises
        :class:`InputError`, which leaves the stream as it was, :class:`DeviceFault`, and :class:`StreamError` after a
        run that has failed, until :meth:`reset`.
        """
        return self._run(x, progress=progress, keep_intermediates=keep_intermediates, kept=self._kept)

    def reset(self) -> None:
        """Forget all states: the next inference begins as the first did."""
        self._kept = Kept(reset_states(self.artifact, 1))


def check_streams(artifact: Artifact) -> None:
    """Raise :class:`StreamError` for programs of LSTMs that were written before those gave their states back."""
    operators = (layer.get("op", "").split() for layer in accelerator_layers(artifact))
    if not artifact.states and any(_LSTM in words for words in operators):
        raise StreamError(
            f"{artifact.name}: its LSTM begins every inference afresh, as earlier versions compiled it; "
            "compile the model again"
        )


def reset_states(artifact: Artifact, inferences: int) -> dict[str, NDArray[Any]]:
    """The tensors that programs find in an inference that follows on none: (inferences, *shape), read-only."""
    return {
        state.name: np.broadcast_to(np.array(state.zero_point, state.dtype), (inferences, *state.shape))
        for state in artifact.states
    }
