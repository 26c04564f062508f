"""``tilewright models``: the public networks that the project is measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import FOLDER
from tilewright.fetch import MODELS, fetch_model
from tilewright.printable import say


def list_models() -> None:
    """List the networks that can be fetched."""
    width = max(map(len, MODELS))
    for name, model in MODELS.items():
        say(f"{name:{width}}  {model.size:>9,} bytes  {model.description}")


def fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names that `tilewright models list` shows, or: all.")
    ],
    directory: Annotated[Path, typer.Option("--directory", "-d", metavar="D", help="Where to put it."), FOLDER] = Path(
        "."
    ),
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="Take it from here instead.")] = None,
) -> None:
    """Download networks, checked against their checksums."""
    from tilewright.terminal import ProgressReporter

    for name in MODELS if names == ["all"] else names:
        with ProgressReporter() as progress:
            path = fetch_model(name, directory, base_url, progress.update)
        say(str(path))
