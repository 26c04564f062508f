"""``tilewright compare``: judges a report by an earlier one, for a CI job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import READ, WRITTEN
from tilewright.comparing import MOST_PERCENT
from tilewright.files import check_writable, write_atomic
from tilewright.printable import say


def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD.json", help="The report to judge by."), READ],
    new: Annotated[Path, typer.Argument(metavar="NEW.json", help="The report that is judged."), READ],
    most: Annotated[
        float, typer.Option(metavar="PERCENT", min=0, help="Growth of cycles that is accepted.")
    ] = MOST_PERCENT,
    markdown: Annotated[
        Path | None, typer.Option(metavar="M.md", help="Write verdict and changed layers."), WRITTEN
    ] = None,
) -> None:
    """Compare two reports of one model.

    Exit 1 if cycles grew by more than 1 % or an output integer differs.
    """
    from tilewright.comparing import compare as judged

    if markdown is not None:
        check_writable(markdown)
    found = judged(old, new, most)
    if markdown is not None:
        write_atomic(markdown, found.markdown())
    before, now = found.old["cycles"], found.new["cycles"]
    say(f"{found.new['model']} on {found.new['config']}: {before:,} -> {now:,} cycles ({found.growth:+.2%})")
    for name, a, b in found.layers():
        say(f"  {name}: {a:,} -> {b:,}")
    for note in found.notes:
        say(f"note: {note}")
    for fault in found.faults:
        say(f"worse: {fault}")
    if found.faults:
        raise typer.Exit(1)
