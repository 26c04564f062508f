"""``tilewright serve``: the board's own command, options and help included, among the others."""

from __future__ import annotations

from typing import Annotated

import typer

PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("serve", context_settings=PASS_ON, add_help_option=False)(serve)


def serve(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Let other machines run programs on this one's accelerator (tilewright serve --help)."""
    from tilewright.runtime.remote.command import main

    raise typer.Exit(main(arguments or []))
