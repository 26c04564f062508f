"""``tilewright hw``: the hardware as Verilog, checked against the simulator."""

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


def differential(
    configs: Annotated[int, typer.Option(min=1, help="Random configs to build.")] = 5,
    programs: Annotated[int, typer.Option(min=1, help="Random programs on each.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="First seed of configs and programs.")] = 0,
) -> None:
    """Compare simulator and RTL on random programs.

    Bytes, times and counters; exit 1 on a difference.
    """
    from tilewright.terminal import ProgressReporter
    from tilewright.verification.differential import differential as compare

    total, done, found = configs * programs, 0, []
    with ProgressReporter() as progress:
        for config_seed in range(seed, seed + configs):
            progress.update(f"building config {config_seed}", done, total)
            for difference in compare(config_seed, range(seed, seed + programs)):
                done += 1
                progress.update(f"config {config_seed}", done, total)
                if difference is not None:
                    found.append(difference)
                    say(str(difference))
    say(f"{total} programs on {configs} configs: {len(found)} differences")
    if found:
        raise typer.Exit(1)
