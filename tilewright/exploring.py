"""``explore``: from model files to the accelerators worth building for them, as ``tilewright explore`` does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.files import name_of
from tilewright.printable import in_html
from tilewright.progress import Progress, silent

if TYPE_CHECKING:
    from tilewright.dse.networks import Network
    from tilewright.dse.search import Point, Search
    from tilewright.dse.space import Space

TRIALS = 200  #: points of a sweep of which nobody says how many
_IN_A_CELL = 12  #: points that a notebook shows


class ExploreProblem(TilewrightError):
    """A sweep that has nothing to explore or nothing to show."""


@dataclass(frozen=True, repr=False)
class Exploration:
    """What a sweep found: ``points``, its front, the best by the first objective first; ``everything``, all trials;
    ``files``, written to its folder. ``note`` says what was asked for and could not be done."""

    search: Search
    points: list[Point]
    everything: list[Point]
    files: list[Path]
    note: str | None = None

    @property
    def best(self) -> Config:
        """The Config of the front's first point, for :func:`tilewright.compile` and the board's build."""
        return self.search.config(self.points[0])

    @property
    def configs(self) -> list[Config]:
        """The Configs of the front, in the order of ``points``."""
        return [self.search.config(point) for point in self.points]

    def __repr__(self) -> str:
        names = ", ".join(network.name for network in self.search.evaluator.networks)
        return f"<Exploration of {names}: {len(self.everything)} trials, {len(self.points)} on the front>"

    def _repr_html_(self) -> str:
        from tilewright.dse.evaluate import OBJECTIVES

        objectives = self.search.evaluator.objectives
        head = "".join(f"<th>{name} ({OBJECTIVES[name].unit})</th>" for name in objectives)
        rows = "".join(
            "<tr>" + "".join(f"<td>{point.best_values[name]:,.6g}</td>" for name in objectives)
            + f"<td>{in_html(config.name)}</td><td>{'simulated' if point.simulated else 'estimated'}</td></tr>"
            for point, config in list(zip(self.points, self.configs, strict=True))[:_IN_A_CELL]
        )  # fmt: skip
        return f"<p>{in_html(repr(self)[1:-1])}</p><table><tr>{head}<th>config</th><th></th></tr>{rows}</table>"


def explore(
    models: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    board: str = "pynq-z2",
    trials: int | None = None,
    objective: str | Sequence[str] = ("latency", "dsp"),
    weights: Mapping[str, float] | None = None,
    clock: str = "config",
    sampler: str = "nsga2",
    space: str | Path | None = None,
    values: Sequence[str] = (),
    storage: str | None = None,
    seed: int = 0,
    batch: int = 32,
    max_lut: float = 80.0,
    workers: int | None = None,
    scheduler: str | None = None,
    simulate: int = 8,
    synthesise: int = 0,
    energy_table: str | Path | None = None,
    progress: Progress = silent,
    watch: Callable[[list[Point]], None] | None = None,
) -> Exploration:
    """Search Configs for models on a board; the same call continues a sweep that was cut short.

    ``models``: files, each possibly ``FILE=WEIGHT``; ``output``: the folder for the results. The rest are the options
    of ``tilewright explore`` by their names (``docs/explorer.md``); ``weights`` is ``--weight`` and ``values`` are the
    ``--set`` (``["block_in=8,16"]``). ``watch`` gets all points so far, batch by batch. Raises :class:`ExploreProblem`
    and what the parts raise: wrong names before any model is read.
    """
    from tilewright.dse.arguments import check_arguments
    from tilewright.dse.evaluate import Evaluator
    from tilewright.dse.networks import split_weight
    from tilewright.dse.proposals import check_sampler
    from tilewright.dse.report import FILES, write_all
    from tilewright.dse.search import Search, import_optuna
    from tilewright.dse.trials import check_storage
    from tilewright.dse.workers import make_pool
    from tilewright.files import check_directory_writable, check_writable, directory_for
    from tilewright.jit.energy.model import load_table
    from tilewright.jit.source.kinds import check_model_file

    # what is wrong with names and numbers is said before a model is read, which may take minutes
    check_arguments({
        "models": models, "output": output, "board": board, "trials": trials, "objective": objective,
        "weights": weights, "clock": clock, "sampler": sampler, "space": space, "values": values, "storage": storage,
        "seed": seed, "batch": batch, "max_lut": max_lut, "workers": workers, "scheduler": scheduler,
        "simulate": simulate, "synthesise": synthesise, "energy_table": energy_table, "progress": progress,
        "watch": watch,
    })  # fmt: skip
    max_lut, seed, batch = float(max_lut), int(seed), int(batch)  # NumPy's are no JSON
    folder = Path(output)
    import_optuna()
    check_directory_writable(folder)
    chosen = sweep_space(board, space, values)
    check_sampler(chosen, sampler, batch)
    table = None if energy_table is None else load_table(Path(energy_table))
    objectives = (objective,) if isinstance(objective, str) else tuple(objective)
    evaluator = Evaluator([], board, objectives, clock, table, max_lut)  # type: ignore[arg-type]
    if clock == "model" and "clock_mhz" in chosen.varied:
        raise ExploreProblem("clock_mhz varies, but --clock model sets it; use --clock config, or do not vary it")
    pool = make_pool(workers, scheduler)
    given = [models] if isinstance(models, str | Path) else list(models)
    paths = [(Path(path), factor) for path, factor in (split_weight(str(each)) for each in given)]
    named = dict(weights or {})
    _check_weights([name_of(path) for path, _ in paths], named)
    for path, _ in paths:
        check_model_file(path)
    with directory_for(folder):
        where = storage or f"sqlite:///{folder / 'trials.db'}"
        check_storage(where)
        for name in FILES:
            check_writable(folder / name)
        evaluator.networks = _networks(paths, named, progress)
        with pool:
            search = Search(chosen, evaluator, where, seed, sampler, batch, pool)
            try:
                wanted = trials or (chosen.size if sampler == "grid" else TRIALS)
                points, note = _sweep(search, wanted, simulate, synthesise, progress, watch)
            except KeyboardInterrupt as error:
                raise ExploreProblem(
                    f"interrupted; the trials so far are kept in {search.trials.shown}, and the same command continues"
                ) from error
        everything = search.points()
        if not points:
            raise ExploreProblem(_nothing(everything, board))
        files = write_all(folder, search, points, everything, progress)
    return Exploration(search, points, everything, files, note)


def _networks(paths: Sequence[tuple[Path, float]], named: Mapping[str, float], progress: Progress) -> list[Network]:
    """The networks of these files, weights as given by name or with the file; their names must differ."""
    from tilewright.dse.networks import load_networks

    networks: list[Network] = []
    for number, (path, factor) in enumerate(paths):
        progress(f"importing {path.name}", number, len(paths))
        networks += load_networks(path, named.get(name_of(path), factor))
    for name, count in Counter(network.name for network in networks).items():
        if count > 1:
            raise ExploreProblem(f"{name}: {count} models have this name; rename a file, or give it once with a weight")
    return networks


def sweep_space(board: str, file: str | Path | None, flags: Sequence[str]) -> Space:
    """The Configs to try: the board's preset, and what the options vary. Raises :class:`ExploreProblem`."""
    from tilewright.dse.resources import BOARDS
    from tilewright.dse.space import load_space, make_space, parse_flag
    from tilewright.hw.parts import unknown_board

    if board not in BOARDS:
        raise ExploreProblem(f"--board {unknown_board(board)}")
    given = dict(parse_flag(text) for text in flags)
    base = load_config(board)
    return make_space(base, given) if file is None else load_space(Path(file), base, given)


def _check_weights(stems: Sequence[str], named: Mapping[str, float]) -> None:
    """Weights must name networks."""
    for name in named:
        if name not in stems:
            raise ExploreProblem(f"--weight {name}: no such network; there are {', '.join(dict.fromkeys(stems))}")


def _sweep(
    search: Search, trials: int, simulate: int, synthesise: int, progress: Progress,
    watch: Callable[[list[Point]], None] | None,
) -> tuple[list[Point], str | None]:  # fmt: skip
    """All fidelities: the front by the best that was asked for, and why there is no synthesis if there is none."""
    from tilewright.dse.search import front
    from tilewright.hw.verilated.toolchain import ToolError

    everything = search.run(trials, progress, watch)
    points = front(everything, search.evaluator.objectives)
    if simulate:
        points = search.confirm_front(simulate, progress, watch=watch)
    if synthesise:
        try:
            points = search.confirm_front(synthesise, progress, fidelity="synthesis", watch=watch)
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
