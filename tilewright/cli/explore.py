"""``tilewright explore``: which accelerator for these networks on this board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.arguments import refuse_vain
from tilewright.cli.paths import FOLDER, READ
from tilewright.exploring import Exploration, ExploreProblem
from tilewright.printable import say

SHOWN = 20  #: points of the front that are printed


def _print_parameters(wanted: bool) -> None:
    if not wanted:
        return
    from rich.table import Table

    from tilewright.config import DEFAULT_CONFIG, PRESETS
    from tilewright.dse.evaluate import OBJECTIVES
    from tilewright.dse.space import describe_parameters
    from tilewright.terminal import output_console

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("parameter", "legal values", DEFAULT_CONFIG, "varied by default"):
        table.add_column(title, overflow="fold")
    for row in describe_parameters(PRESETS[DEFAULT_CONFIG]):
        table.add_row(*row)
    console = output_console()
    console.print(table)
    console.print("\nobjectives: " + "; ".join(f"{n} ({o.unit}): {o.what}" for n, o in OBJECTIVES.items()))
    raise typer.Exit


def explore(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL[=WEIGHT]...", help="Quantised .tflite, QDQ .onnx or .pt2 files."), READ
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results."), FOLDER],
    board: Annotated[str, typer.Option(help="Board whose limits count; its preset is the base.")] = "pynq-z2",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Points to evaluate in all, earlier runs included (200; grid: all).")
    ] = None,
    objective: Annotated[
        str, typer.Option(help="One or more of latency, throughput, energy, area, dsp, bram, lut, ff.")
    ] = "latency,dsp",
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="NAME=W", help="How often a network runs, relative to others; repeatable."),
    ] = None,
    clock: Annotated[
        str, typer.Option(help="Clock of a point: config (its clock_mhz) or model (what the clock model expects).")
    ] = "config",
    sampler: Annotated[str, typer.Option(help="nsga2, tpe, random or grid (exhaustive).")] = "nsga2",
    space: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with the values to try."), READ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="P=V[,V]", help="Fix or narrow a parameter (also LOW..HIGH, all); repeatable."),
    ] = None,
    storage: Annotated[str | None, typer.Option(metavar="URL", help="Database (default: DIR/trials.db).")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds give equal sweeps (0).")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Points proposed at a time; part of what a sweep is.")] = 32,
    max_lut: Annotated[
        float, typer.Option(metavar="PERCENT", min=1, max=100, help="Share of the board's LUTs that a point may take.")
    ] = 80.0,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Worker processes (default: one per core; 0: none).")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers evaluate the points.")
    ] = None,
    simulate: Annotated[int, typer.Option(min=0, help="Points of the front to simulate, besides the base Config.")] = 8,
    synthesise: Annotated[
        int, typer.Option(min=0, help="Points of the front to synthesise with Yosys (minutes each).")
    ] = 0,
    energy_table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with energies per action of your own."), READ
    ] = None,
    _parameters: Annotated[
        bool,
        typer.Option(
            "--parameters", callback=_print_parameters, is_eager=True,
            help="List the space's parameters with their legal values, and the objectives.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """Search Configs for models on a board.

    The same command continues a sweep that was killed.
    """
    from tilewright.cli.explore_view import ExploreView
    from tilewright.dse.space import point_name
    from tilewright.exploring import explore as sweep
    from tilewright.exploring import sweep_space

    refuse_vain((seed, sampler != "grid", "--seed: a grid has all points; leave it out, or take another --sampler"))
    base = sweep_space(board, space, set_ or []).base
    objectives = tuple(part.strip() for part in objective.split(","))
    with ExploreView(objectives, lambda p: point_name(base, p.params)) as view:
        found = sweep(
            models, output, board=board, trials=trials, objective=objectives,
            weights=dict(_name_and_weight(text) for text in weight or []), clock=clock, sampler=sampler, space=space,
            values=set_ or [], storage=storage, seed=seed or 0, batch=batch, max_lut=max_lut, workers=workers,
            scheduler=scheduler, simulate=simulate, synthesise=synthesise,
            energy_table=energy_table, progress=view.update, watch=view.watch,
        )  # fmt: skip
    _summary(found)


def _name_and_weight(text: str) -> tuple[str, float]:
    from tilewright.dse.networks import parse_weight

    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise ExploreProblem(
            f"--weight {text}: must be NAME=WEIGHT, the name being the model file's without its suffix"
        )
    return name, parse_weight(text, value)


def _summary(found: Exploration) -> None:
    from tilewright.dse import clock
    from tilewright.dse.evaluate import OBJECTIVES

    search, points, everything, note = found.search, found.points, found.everything, found.note
    for network in search.evaluator.networks:
        if network.host_ops:
            names = ", ".join(name for name, _ in network.host_ops[:4])
            more = f" and {len(network.host_ops) - 4} more" if len(network.host_ops) > 4 else ""
            say(f"{network.model}: time on the CPU, and of recurrent layers, is not counted: {names}{more}")
    if note is not None:
        say(note)
    feasible = sum(p.feasible for p in everything)
    say(f"{len(everything)} trials, {feasible} feasible, {len(points)} on the front")
    for point in points[:SHOWN]:
        values = ", ".join(f"{name} {value:,.6g} {OBJECTIVES[name].unit}" for name, value in point.best_values.items())
        how = "simulated" if point.simulated else "estimated"
        how += ", synthesised" if point.synthesised else ""
        say(f"  trial {point.number:<5} {values}  ({how})  {search.config(point).name}")
    if len(points) > SHOWN:
        say(f"  and {len(points) - SHOWN} more")
    for name in search.evaluator.objectives:
        changes = [p.best_values[name] / p.values[name] - 1 for p in points if not p.simulated and p.values[name]]
        if any(changes):
            worst = max(changes, key=abs)
            say(f"estimated {name} is shown {worst:+.1%}: as far as an estimate was too good where it was simulated")
    best = search.config(points[0])
    expected = clock.estimate(best, search.evaluator.board)
    if best.clock_mhz > expected.high:
        say(
            f"the first is taken at {best.clock_mhz} MHz; the clock model expects {expected.mhz} "
            f"({expected.low} to {expected.high}), limited by {expected.path}: compare with --clock model"
        )
    for file in found.files:
        say(str(file))
