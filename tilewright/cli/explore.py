"""``tilewright explore``: which accelerator for these networks on this board."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.config import load_config
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.cli.explore_view import ExploreView
    from tilewright.dse.networks import Network
    from tilewright.dse.search import Point, Search
    from tilewright.dse.space import Space

TRIALS = 200  #: points of a sweep without --trials
SHOWN = 20  #: points of the front that are printed


class ExploreProblem(TilewrightError):
    """A sweep that has nothing to explore or nothing to show."""


def _print_parameters(wanted: bool) -> None:
    if not wanted:
        return
    from rich.table import Table

    from tilewright.config import Config
    from tilewright.dse.evaluate import OBJECTIVES
    from tilewright.dse.space import describe_parameters
    from tilewright.terminal import output_console

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("parameter", "legal values", "pynq-z2", "varied by default"):
        table.add_column(title, overflow="fold")
    for row in describe_parameters(Config()):
        table.add_row(*row)
    console = output_console()
    console.print(table)
    console.print("\nobjectives: " + "; ".join(f"{n} ({o.unit}): {o.what}" for n, o in OBJECTIVES.items()))
    raise typer.Exit


def explore(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL[=WEIGHT]...", help="Quantised .tflite, QDQ .onnx or .pt2 files.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results.")],
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
    space: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with the values to try.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="P=V[,V]", help="Fix or narrow a parameter (also LOW..HIGH, all); repeatable."),
    ] = None,
    storage: Annotated[str | None, typer.Option(metavar="URL", help="Database (default: DIR/trials.db).")] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal sweeps.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Points proposed at a time; part of what a sweep is.")] = 32,
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
        Path | None, typer.Option(metavar="FILE", help="TOML file with energies per action of your own.")
    ] = None,
    _parameters: Annotated[
        bool,
        typer.Option(
            "--parameters", callback=_print_parameters, is_eager=True,
            help="List the space's parameters with their legal values, and the objectives.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """Search Configs for models on a board; the same command continues a sweep that was killed."""
    from tilewright.cli.explore_view import ExploreView
    from tilewright.dse.energy import load_table
    from tilewright.dse.evaluate import Evaluator
    from tilewright.dse.networks import split_weight
    from tilewright.dse.report import write_all
    from tilewright.dse.search import Search, import_optuna
    from tilewright.dse.space import point_name
    from tilewright.dse.workers import make_pool
    from tilewright.files import check_directory_writable, make_directory

    import_optuna()
    check_directory_writable(output)
    chosen = _space(board, space, set_ or [])
    objectives = tuple(part.strip() for part in objective.split(","))
    table = None if energy_table is None else load_table(energy_table)
    # wrong names are reported before the models are read
    evaluator = Evaluator([], board, objectives, clock, table)  # type: ignore[arg-type]
    if clock == "model" and "clock_mhz" in chosen.varied:
        raise ExploreProblem("clock_mhz varies, but --clock model sets it; use --clock config, or do not vary it")
    pool = make_pool(workers, scheduler)
    paths = [split_weight(text) for text in models]
    named = dict(_name_and_weight(text) for text in weight or [])
    with ExploreView(objectives, lambda p: point_name(chosen.base, p.params)) as view:
        networks: list[Network] = []
        for number, (path, factor) in enumerate(paths):
            view.update(f"importing {Path(path).name}", number, len(paths))
            networks += _networks(Path(path), factor, named)
        _check_names(networks, named)
        make_directory(output)
        evaluator.networks = networks
        where = storage or f"sqlite:///{output / 'trials.db'}"
        with pool:
            search = Search(chosen, evaluator, where, seed, sampler, batch, pool)
            try:
                wanted = trials or (chosen.size if sampler == "grid" else TRIALS)
                points, note = _sweep(search, wanted, simulate, synthesise, view)
            except KeyboardInterrupt as error:
                raise ExploreProblem(
                    f"interrupted; the trials so far are kept in {where}, and the same command continues"
                ) from error
        everything = search.points()
        if not points:
            raise ExploreProblem(_nothing(everything, board))
        files = write_all(output, search, points, everything, view.update)
    _summary(search, points, everything, note)
    for file in files:
        typer.echo(str(file))


def _space(board: str, file: Path | None, flags: list[str]) -> Space:
    from tilewright.dse.resources import BOARDS
    from tilewright.dse.space import load_space, make_space, parse_flag

    if board not in BOARDS:
        raise ExploreProblem(f"--board {board}: no such board; the boards are {', '.join(BOARDS)}")
    given = dict(parse_flag(text) for text in flags)
    base = load_config(board)
    return make_space(base, given) if file is None else load_space(file, base, given)


def _name_and_weight(text: str) -> tuple[str, float]:
    from tilewright.dse.networks import parse_weight

    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise ExploreProblem(
            f"--weight {text}: must be NAME=WEIGHT, the name being the model file's without its suffix"
        )
    return name, parse_weight(text, value)


def _networks(path: Path, factor: float, named: dict[str, float]) -> list[Network]:
    from tilewright.dse.networks import load_networks

    return load_networks(path, named.get(path.stem, factor))


def _check_names(networks: list[Network], named: dict[str, float]) -> None:
    """Weights must name networks, and names must differ."""
    stems = [network.model for network in networks]
    for name in named:
        if name not in stems:
            raise ExploreProblem(f"--weight {name}: no such network; there are {', '.join(dict.fromkeys(stems))}")
    for name, count in Counter(network.name for network in networks).items():
        if count > 1:
            raise ExploreProblem(f"{name}: {count} models have this name; rename a file, or give it once with a weight")


def _sweep(
    search: Search, trials: int, simulate: int, synthesise: int, view: ExploreView
) -> tuple[list[Point], str | None]:  # fmt: skip
    """All fidelities: the front by the best that was asked for, and why there is no synthesis if there is none."""
    from tilewright.dse.search import front
    from tilewright.hw.verilated.toolchain import ToolError

    everything = search.run(trials, view.update, view.watch)
    points = front(everything, search.evaluator.objectives)
    if simulate:
        points = search.confirm_front(simulate, view.update, watch=view.watch)
    if synthesise:
        try:
            points = search.confirm_front(synthesise, view.update, fidelity="synthesis", watch=view.watch)
        except ToolError as error:
            return points, f"nothing was synthesised: {error}"
    return points, None


def _nothing(everything: list[Point], board: str) -> str:
    """Why no point is left, by the reason met most often."""
    from tilewright.dse.report_data import reasons

    found = reasons(everything)
    text = f"none of {len(everything)} points can run on {board}"
    if not found:
        return f"{text}: there was no trial"
    reason, count = next(iter(found.items()))
    return f"{text}; {count} of them because of: {reason}"


def _summary(search: Search, points: list[Point], everything: list[Point], note: str | None) -> None:
    from tilewright.dse import clock
    from tilewright.dse.evaluate import OBJECTIVES

    for network in search.evaluator.networks:
        if network.host_ops:
            names = ", ".join(name for name, _ in network.host_ops[:4])
            more = f" and {len(network.host_ops) - 4} more" if len(network.host_ops) > 4 else ""
            typer.echo(f"{network.model}: time on the CPU is not counted: {names}{more}")
    if note is not None:
        typer.echo(note)
    feasible = sum(p.feasible for p in everything)
    typer.echo(f"{len(everything)} trials, {feasible} feasible, {len(points)} on the front")
    for point in points[:SHOWN]:
        values = ", ".join(f"{name} {value:,.6g} {OBJECTIVES[name].unit}" for name, value in point.best_values.items())
        how = "simulated" if point.simulated else "estimated"
        how += ", synthesised" if point.synthesised else ""
        typer.echo(f"  trial {point.number:<5} {values}  ({how})  {search.config(point).name}")
    if len(points) > SHOWN:
        typer.echo(f"  and {len(points) - SHOWN} more")
    best = search.config(points[0])
    expected = clock.estimate(best, search.evaluator.board)
    if best.clock_mhz > expected.high:
        typer.echo(
            f"the first is taken at {best.clock_mhz} MHz; the clock model expects {expected.mhz} "
            f"({expected.low} to {expected.high}), limited by {expected.path}: compare with --clock model"
        )
