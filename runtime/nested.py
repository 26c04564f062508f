"""Launches inside a host step: CPU parts of a network call back into the runtime for its accelerator parts.

While :func:`collecting` is active, every :func:`tilewright.runtime.run_bytes` adds its report to the collection, so
that the report of the whole network counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.runtime.device import Device
from tilewright.runtime.report import ProgramRun, Report


@dataclass(eq=False)
class Nested:
    """Reports of the launches made inside, by artifact, in order of first use; all on ``device``."""

    device: Device
    reports: dict[str, list[Report]] = field(default_factory=dict)

    def add(self, artifact: str, report: Report) -> None:
        """Note one launch of the artifact with this hash."""
        self.reports.setdefault(artifact, []).append(report)

    def runs(self, inferences: int) -> list[ProgramRun]:
        """The program runs of one inference: each artifact as often as it was called per inference."""
        return [
            run
            for reports in self.reports.values()
            for _ in range(max(1, len(reports) // inferences))
            for run in reports[0].runs
        ]

    @property
    def launch_seconds(self) -> float:
        """Seconds spent in the device."""
        return sum(report.timings.launch_s for reports in self.reports.values() for report in reports)


_ACTIVE: list[Nested] = []


@contextmanager
def collecting(device: Device) -> Iterator[Nested]:
    """Collect the launches made in the body."""
    nested = Nested(device)
    _ACTIVE.append(nested)
    try:
        yield nested
    finally:
        _ACTIVE.pop()


def innermost() -> Nested | None:
    """The innermost active collection."""
    return _ACTIVE[-1] if _ACTIVE else None
