"""``tilewright explore``: which accelerator for these networks on this board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.config import load_config
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.dse.evaluate import Network

EXAMPLE = "Example: tilewright explore resnet8.tflite kws.tflite --board pynq-z2 --trials 300 -o explored"


class ExploreProblem(TilewrightError):
    """A sweep that has nothing to explore or nothing to show."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("explore", epilog=EXAMPLE)(explore)


def explore(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Quantised .tflite or QDQ .onnx files.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results.")],
    board: Annotated[str, typer.Option(help="Board whose limits count; its preset is the base.")] = "pynq-z2",
    trials: Annotated[int, typer.Option(min=1, help="Points to evaluate in all, earlier runs included.")] = 200,
    objective: Annotated[str, typer.Option(help="What to minimise: latency, dsp, bram.")] = "latency,dsp",
    sampler: Annotated[str, typer.Option(help="nsga2, tpe, random or grid (exhaustive).")] = "nsga2",
    space: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with the values to try.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="P=V[,V]", help="Fix or narrow a parameter; repeatable.")
    ] = None,
    storage: Annotated[str | None, typer.Option(metavar="URL", help="Database (default: DIR/trials.db).")] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal sweeps.")] = 0,
    simulate: Annotated[int, typer.Option(min=0, help="Points of the front to compile and simulate.")] = 8,
) -> None:
    """Search Configs for models on a board; the same command continues a sweep that was killed."""
    from tilewright.dse.evaluate import Evaluator
    from tilewright.dse.report import write_all
    from tilewright.dse.search import Search, front, import_optuna
    from tilewright.dse.space import load_space, make_space, parse_flag
    from tilewright.progress import ProgressReporter
    from tilewright.runtime.files import check_directory_writable, make_directory

    import_optuna()
    check_directory_writable(output)
    flags = dict(parse_flag(text) for text in set_ or [])
    base = load_config(board)
    chosen = load_space(space, base, flags) if space is not None else make_space(base, flags)
    objectives = tuple(part.strip() for part in objective.split(","))
    Evaluator([], board, objectives)  # wrong names are told before the models are read
    with ProgressReporter() as progress:
        networks = []
        for number, path in enumerate(models):
            progress.update("importing", number, len(models))
            networks.append(_network(path))
        make_directory(output)
        evaluator = Evaluator(networks, board, objectives)
        search = Search(chosen, evaluator, storage or f"sqlite:///{output / 'trials.db'}", seed, sampler)
        everything = search.run(trials, progress.update)
        points = search.confirm_front(simulate, progress.update) if simulate else front(everything, objectives)
        everything = search.points()
        if not points:
            reasons = [p.reason or (p.simulated or {}).get("reason") for p in everything]
            first = next((r for r in reasons if r), "no trial")
            raise ExploreProblem(f"none of {len(everything)} points can run on {board}; the first: {first}")
        progress.update("writing", 0, 0)
        files = write_all(output, search, points, everything)
    feasible = sum(p.feasible for p in everything)
    typer.echo(f"{len(everything)} trials, {feasible} feasible, {len(points)} on the front")
    for point in points:
        values = ", ".join(f"{name} {value:,g}" for name, value in point.best_values.items())
        how = "simulated" if point.simulated else "estimated"
        typer.echo(f"  trial {point.number:<5} {values}  ({how})  {search.config(point).name}")
    for path in files:
        typer.echo(str(path))


def _network(path: Path) -> Network:
    """A model file as a network; its graph must be all the accelerator's or the host's own steps."""
    from tilewright.dse.evaluate import Network
    from tilewright.jit.importer import import_model

    model = import_model(path)
    if model.graph is None:
        names = ", ".join(f"{name} ({reason})" for name, reason in model.host_ops[:2])
        raise ExploreProblem(f"{path}: {names} would run on the CPU; the explorer needs a model all on the accelerator")
    return Network.of(model.graph, path.stem)
