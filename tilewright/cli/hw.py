"""``tilewright hw``: the hardware as Verilog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import FOLDER, READ
from tilewright.config import load_config
from tilewright.files import check_directory_writable
from tilewright.printable import say

ConfigOption = Annotated[str, typer.Option(metavar="NAME|FILE", help="Preset or .toml file."), READ]


def verilog(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the files."), FOLDER],
    config: ConfigOption = "pynq-z2",
    lint: Annotated[bool, typer.Option("--lint", help="Run verilator --lint-only -Wall; exit 1 on a warning.")] = False,
) -> None:
    """Write a config as Verilog.

    Beside it a JSON of its ports and memories, and the lint waivers.
    """
    from tilewright.hw import verilog as writer

    chosen = load_config(config)
    check_directory_writable(output)
    for path in writer.write_verilog(chosen, output):
        say(str(path))
    if lint:
        warnings = writer.lint(output)
        for line in warnings:
            say(line)
        say(f"lint: {len(warnings)} warnings")
        if warnings:
            raise typer.Exit(1)
