"""``tilewright inspect --placement``: what each operator costs here and there, the best cut, and what others lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.jit.place.placed import Placed
from tilewright.jit.place.problem import Part, Solution, members

if TYPE_CHECKING:
    from rich.console import Console


def print_placement(placed: Placed, console: Console) -> None:
    """Print the operators with their costs and their part, then the placements."""
    from rich.table import Table
    from rich.text import Text

    costs, config = placed.costs, placed.costs.config
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("operator", overflow="ellipsis", no_wrap=True, max_width=36)
    for column in ("on a core", "moved", "on this CPU", "runs"):
        table.add_column(column, justify="right", no_wrap=True)
    where = {k: _place(part) for part in placed.best.parts for k in members(part.operators)}
    for k, op in enumerate(costs.graph.ops):
        part, time, cpu = costs.part(1 << k), costs.core(1 << k), costs.problem.cpu[k]
        moved = sum(costs.moved(part)) if part is not None and time is not None else None
        alone = None if time is None or moved is None else time - moved
        table.add_row(Text(op.name), *map(_cycles, (alone, moved, cpu)), where[k])
    console.print(table)
    console.print()
    unit = "an inference" if placed.objective == "latency" else "from one result to the next"
    cores = f"{config.cores} core{'s' * (config.cores > 1)}"
    threads = f", {costs.jobs} threads of it" if costs.jobs > 1 else ""
    lines = [
        f"{costs.graph.name} for {placed.objective} on {cores} of {config.name} and this CPU{threads}, in cycles at "
        f"{config.clock_mhz} MHz {unit}",
        *(["  too many branches for all orders: operators are taken in the file's order"] if costs.in_a_row else []),
        *_described("best", placed.best, placed),
        *_described("next best", placed.second, placed),
        *_described("greedy", placed.greedy, placed),
        *(_described("pipeline", placed.pipeline, placed) if placed.objective == "throughput" else []),
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _described(title: str, found: Solution | None, placed: Placed) -> list[str]:
    if found is None:
        return [f"{title:>10}  there is none"]
    loss = found.cost / max(placed.best.cost, 1) - 1
    compared = "" if found is placed.best else f", {loss:.1%} more than the best"
    return [f"{title:>10}  {found.cost:,}{compared}", *(f"{'':12}{_part(part, placed)}" for part in found.parts)]


def _part(part: Part, placed: Placed) -> str:
    ops = [placed.costs.graph.ops[k] for k in members(part.operators)]
    span = ops[0].name if len(ops) == 1 else f"{ops[0].name} to {ops[-1].name} ({len(ops)} operators)"
    return f"{_place(part)}: {span}, {_cycles(placed.costs.part_time(part))}"


def _place(part: Part) -> str:
    if not part.replicas:
        return "CPU"
    if part.axis is not None:
        return f"{part.replicas} cores by {part.axis}"
    return "core" if part.replicas == 1 else f"{part.replicas} cores"


def _cycles(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
