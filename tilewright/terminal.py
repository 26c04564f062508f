"""Progress on the error stream, a bar on a terminal and now and then a line elsewhere; the console of results."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from tilewright.printable import printable
from tilewright.progress import hearing

QUIET_SECONDS = 2.0  #: work shorter than this says nothing where there is no terminal
LINE_SECONDS = 5.0  #: least time between lines where there is no terminal
PIPE_WIDTH = 120  #: columns of tables that go to a file or another program


class PrintableConsole(Console):
    """A console on which names from files are text, whatever is in them: of what controls a terminal it prints its own
    alone, and takes no brackets in names for markup."""

    def __init__(self, **named: Any) -> None:
        super().__init__(markup=False, emoji=False, **named)

    def render_str(self, text: str, **named: Any) -> Text:
        """Rich's text of a plain one, as wide as it will be."""
        return super().render_str(printable(text, keep="\n\t"), **named)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's segments; each cell of a table passes here before it is made as wide as its column."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))


def output_console() -> Console:
    """Where results are printed: as wide as the terminal, or wide enough where there is none."""
    console = PrintableConsole()
    return console if console.is_terminal and console.width > 0 else PrintableConsole(width=PIPE_WIDTH)


class _Bar(Progress):
    """A bar between what is being done, how far it is (the field ``count``) and the time; it vanishes when stopped."""

    below: RenderableType | None = None  #: drawn under it

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
        )  # fmt: skip
        super().__init__(*columns, TimeElapsedColumn(), console=console, transient=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.below is not None:
            yield self.below


class ProgressReporter:
    """Context manager; :meth:`update` takes what is being done, how far it is, and out of how much (0: unknown)."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or PrintableConsole(stderr=True)
        self._bar: _Bar | None = None
        self._task: TaskID | None = None
        self._hearing = ExitStack()
        self._start = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._hearing.enter_context(hearing(self.update))
        if self.console.is_terminal:
            self._bar = _Bar(self.console)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._hearing.close()
        if self._bar is not None:
            self._bar.stop()

    def update(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` of the step called ``what`` are finished."""
        what, count = printable(what), f"{done}/{total}" if total else ""
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(what, total=total or None, count=count)
            self._bar.update(self._task, description=what, completed=done, total=total or None, count=count)
            return
        now = time.monotonic()
        if now - self._start >= QUIET_SECONDS and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self.console.print(f"{what} {count}".strip(), highlight=False)
