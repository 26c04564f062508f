"""``python -m tests.fuzz networks|files``: random networks and damaged files against the reference interpreters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from tests.fuzz.campaign import RESULTS, Summary, Task, finished, run_campaign
from tests.fuzz.cases import OUTCOMES
from tests.fuzz.readers.campaign import attack
from tests.fuzz.readers.formats import FORMATS
from tests.fuzz.seeds import RANDOM
from tilewright.arguments import UsageProblem, refuse_vain
from tilewright.config import load_config
from tilewright.errors import TilewrightError
from tilewright.files import check_directory_writable
from tilewright.printable import say
from tilewright.terminal import ProgressReporter, output_console

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def networks(
    frontend: Annotated[Literal["tflite", "onnx"], typer.Argument(help="Kind of model files.")],
    seeds: Annotated[
        str, typer.Option(metavar="A:B", help="Seeds from A to B - 1; the same seed, the same network.")
    ] = "0:100",
    config: Annotated[
        str, typer.Option(metavar="NAME|FILE|random", help="Preset, .toml file, or one of each seed's own.")
    ] = "pynq-z2",
    size: Annotated[
        Literal["small", "full", "large"], typer.Option(help="Up to 400 thousand or 20 million MACs, or large images.")
    ] = "full",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Results go here; a run resumes from them.")
    ] = Path("fuzz"),
    shrink: Annotated[bool, typer.Option(help="Make the first failing network of each kind small.")] = True,
    shrink_seconds: Annotated[float | None, typer.Option(min=1.0, help="Longest time for one of them (60).")] = None,
) -> None:
    """Compare random networks with the reference interpreter.

    Every integer. Exit status 1 if one gives wrong integers, is refused, or ends in a traceback.
    """
    refuse_vain((shrink_seconds, shrink, "--shrink-seconds: nothing is made small with --no-shrink; leave one out"))
    low, high = parse_range(seeds)
    if config != RANDOM:
        load_config(config)
    check_directory_writable(output)
    tasks = [Task(frontend, seed, config, size) for seed in range(low, high)]
    known = finished(output)
    summary = Summary()
    for task in tasks:
        if task.key in known:
            summary.add(known[task.key])
    done = sum(summary.outcomes.values())
    with ProgressReporter() as progress:
        for result in run_campaign(tasks, output, jobs, (shrink_seconds or 60.0) if shrink else 0.0):
            summary.add(result)
            done += 1
            progress.update(f"{frontend} networks, {summary.failed} failed", done, len(tasks))
    print_summary(summary)
    say(f"results in {output / RESULTS}")
    if shrink and summary.failed:
        say(f"minimal networks in {output / 'minimal'}")
    if summary.failed:
        raise typer.Exit(1)


@app.command()
def files(
    formats: Annotated[list[str] | None, typer.Argument(help="tflite, onnx, twa, ... (default: all)")] = None,
    minutes: Annotated[float, typer.Option(min=0.01, help="Processor time for each format.")] = 1.0,
    first: Annotated[int, typer.Option(min=0, help="First seed; the same seed, the same file.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Files that are not survived stay here.")
    ] = Path("attack"),
) -> None:
    """Read damaged files of every format.

    Models, artifacts, programs, text, arrays, a server's messages: each must be read, or refused in words. Exit status
    1 if one ends in a traceback, a hang, the end of the process, or in other integers than the reference's.
    """
    chosen = formats or list(FORMATS)
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise UsageProblem(f"{unknown[0]}: no such format; the formats are {', '.join(FORMATS)}")
    failed = 0
    for name in chosen:
        with ProgressReporter() as progress:
            result = attack(name, first, 60 * minutes, output, progress.update)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(result.outcomes.items()))
        say(f"{name:10} {result.cases:7,} files: {counts}")
        for seed, message in list(result.failures.items())[:20]:
            say(f"    seed {seed}: {message}")
        failed += len(result.failures)
    if failed:
        raise typer.Exit(1)


def parse_range(text: str) -> tuple[int, int]:
    """``A:B`` as numbers. Raises :class:`UsageProblem`."""
    low, separator, high = text.partition(":")
    if not (separator and low.isdigit() and high.isdigit() and int(low) < int(high)):
        raise UsageProblem(f"--seeds {text}: must be A:B, two numbers of which the first is smaller")
    return int(low), int(high)


def print_summary(summary: Summary) -> None:
    """Tables of outcomes, operators and classes of failures."""
    console = output_console()
    total = sum(summary.outcomes.values())
    console.print(f"{total:,} networks in {summary.seconds:,.0f} s:", highlight=False)
    for kind in OUTCOMES:
        count = summary.outcomes[kind]
        console.print(f"  {kind:26} {count:6,}  {count / max(total, 1):6.1%}", highlight=False)
    if summary.network_macs:
        share = summary.macs / summary.network_macs
        placed = f"{share:.1%} of the MACs on the accelerator; {summary.on_host:,} with operators on the CPU"
        console.print(f"of those that ran, {placed}", highlight=False)
    table = Table("operator", *OUTCOMES, box=None, pad_edge=False)
    for name in sorted(summary.operators):
        counts = summary.operators[name]
        table.add_row(name, *(f"{counts[kind]:,}" if counts[kind] else "" for kind in OUTCOMES))
    console.print(table)
    if summary.failures:
        table = Table("networks", "seeds", "failure", box=None, pad_edge=False)
        for failure, seeds in sorted(summary.failures.items(), key=lambda item: -len(item[1])):
            shown = ", ".join(map(str, sorted(seeds)[:4])) + (", ..." if len(seeds) > 4 else "")
            table.add_row(f"{len(seeds):,}", shown, failure)
        console.print(table)


if __name__ == "__main__":
    try:
        app()
    except TilewrightError as error:
        sys.exit(f"{error}")
