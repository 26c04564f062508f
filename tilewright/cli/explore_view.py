"""The front of a sweep on the terminal while it grows; lines of progress where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tilewright.terminal import ProgressReporter

if TYPE_CHECKING:
    from tilewright.dse.search import Point

MOST_ROWS = 12  #: of the front on the terminal
FRONT_SECONDS = 0.5  #: least time between two looks at the front


class ExploreView(ProgressReporter):
    """Progress, and under it what :meth:`watch` is given. ``name`` turns a point into what its row is called."""

    def __init__(
        self, objectives: Sequence[str], name: Callable[[Point], str], console: Console | None = None
    ) -> None:  # fmt: skip
        super().__init__(console)
        self.objectives, self.name = tuple(objectives), name
        self._looked = float("-inf")

    def watch(self, points: Sequence[Point]) -> None:
        """Show the front of these points."""
        now = time.monotonic()
        if self._bar is not None and now - self._looked >= FRONT_SECONDS:
            self._looked = now
            self._bar.below = self.table(points)

    def table(self, points: Sequence[Point]) -> Table:
        """The front of these points: number, objectives, name; of a long one the first rows."""
        from tilewright.dse.evaluate import OBJECTIVES
        from tilewright.dse.search import front

        best = front(points, self.objectives)
        feasible = sum(p.feasible for p in points)
        table = Table(
            box=None, header_style="bold", pad_edge=False, title_justify="left",
            title=f"front of {len(points)} trials, {feasible} feasible: {len(best)} points",
        )  # fmt: skip
        table.add_column("trial", justify="right")
        for name in self.objectives:
            table.add_column(f"{name} ({OBJECTIVES[name].unit})", justify="right")
        table.add_column("config")
        table.add_column("cycles by")
        for point in best[:MOST_ROWS]:
            values = (f"{point.best_values[name]:,.6g}" for name in self.objectives)
            table.add_row(str(point.number), *values, self.name(point), "simulator" if point.simulated else "model")
        if len(best) > MOST_ROWS:
            table.add_row("...", *("" for _ in self.objectives), f"{len(best) - MOST_ROWS} more", "")
        return table
