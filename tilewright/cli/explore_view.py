"""The front of a sweep on the terminal while it grows; lines of progress where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tilewright.terminal import ProgressReporter, make_bar

if TYPE_CHECKING:
    from tilewright.dse.search import Point

MOST_ROWS = 12  #: of the front on the terminal
FRONT_SECONDS = 0.5  #: least time between two looks at the front


class ExploreView:
    """Context manager; :meth:`update` takes progress, :meth:`watch` all points so far.

    ``name`` turns a point into what its row is called.
    """

    def __init__(
        self, objectives: Sequence[str], name: Callable[[Point], str], console: Console | None = None
    ) -> None:  # fmt: skip
        self.console = console or Console(stderr=True)
        self.objectives, self.name = tuple(objectives), name
        self._lines = ProgressReporter(self.console)
        self._bar = make_bar(self.console)  # drawn above the table, as a part of it
        self._task = self._bar.add_task("", total=None, count="")
        self._table: Table | None = None
        self._live: Live | None = None
        self._looked = float("-inf")

    def __enter__(self) -> ExploreView:
        if self.console.is_terminal:
            self._live = Live(get_renderable=self._render, console=self.console, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` of the step called ``what`` are finished."""
        if self._live is None:
            self._lines.update(what, done, total)
            return
        count = f"{done}/{total}" if total else ""
        self._bar.update(self._task, description=what, completed=done, total=total or None, count=count)

    def watch(self, points: Sequence[Point]) -> None:
        """Show the front of these points."""
        now = time.monotonic()
        if self._live is None or now - self._looked < FRONT_SECONDS:
            return
        self._looked = now
        self._table = self.table(points)

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
            table.add_row(
                str(point.number), *values, Text(self.name(point)), "simulator" if point.simulated else "model"
            )
        if len(best) > MOST_ROWS:
            table.add_row("...", *("" for _ in self.objectives), f"{len(best) - MOST_ROWS} more", "")
        return table

    def _render(self) -> Group:
        return Group(self._bar) if self._table is None else Group(self._bar, self._table)
