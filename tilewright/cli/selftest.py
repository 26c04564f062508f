"""``tilewright selftest``: the options in front of ``tilewright.runtime.selftest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: tilewright selftest --overlay tilewright-pynq-z2.bit --artifact resnet8.twa"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("selftest", epilog=EXAMPLE)(selftest)


def selftest(
    device: Annotated[str, typer.Option("--device", help="pynq; rtl, the board's driver on RTL; sim.")] = "pynq",
    overlay: Annotated[
        Path | None, typer.Option("--overlay", metavar="FILE", help="The .bit file, or a folder of them.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="NAME|FILE", help="Preset or .toml; default: the overlay's own.")
    ] = None,
    artifact: Annotated[
        Path | None, typer.Option("--artifact", metavar="A.twa", help="A compiled network to run at the end.")
    ] = None,
    x: Annotated[Path | None, typer.Option("--input", metavar="X.npy", help="Its inputs; default: random.")] = None,
    expected: Annotated[
        Path | None, typer.Option("--expected", metavar="Y.npy", help="Its outputs; default: the simulator's.")
    ] = None,
) -> None:
    """Check board, overlay and driver, step by step, and say what is wrong; exit 1 if something is."""
    from tilewright.runtime import selftest as part

    if not part.print_findings(part.selftest(device, overlay, config, artifact, x, expected), typer.echo):
        raise typer.Exit(1)
