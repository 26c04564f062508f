"""``tilewright inspect --placement``: what each operator costs here and there, the best cut, and what others lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.jit.place.energy import Power
from tilewright.jit.place.launches import launches
from tilewright.jit.place.placed import Placed
from tilewright.jit.place.problem import Part, Solution, members
from tilewright.jit.split.steps import Way

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
    best = _best(placed)
    where = {k: _place(part) for part in best.parts for k in members(part.operators)}
    for k, op in enumerate(costs.graph.ops):
        table.add_row(op.name, *_costs(placed, k), where[k])
    console.print(table)
    console.print()
    unit = "from one result to the next" if placed.objective == "throughput" else "an inference"
    power = None if costs.energies is None else costs.energies.power
    measure = f"cycles at {config.clock_mhz} MHz" if power is None else "microjoules"
    cores = f"{config.cores} core{'s' * (config.cores > 1)}"
    threads = f", {costs.jobs} threads of it" if costs.jobs > 1 else ""
    lines = [
        f"{costs.graph.name} for {placed.objective} on {cores} of {config.name} and this CPU{threads}, in {measure} "
        f"{unit}",
        *([] if power is None else _of_energy(power)),
        *(["  too many branches for all orders: operators are taken in the file's order"] if costs.in_a_row else []),
        *_described("best", best, placed),
        *([] if placed.exchanging is None else _with_barriers(placed)),
        *_described("next best", placed.second, placed),
        *_described("greedy", placed.greedy, placed),
        *(_described("pipeline", placed.pipeline, placed) if placed.objective == "throughput" else []),
        *([] if power is None else _doubts(placed, power)),
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _costs(placed: Placed, k: int) -> tuple[str, str, str]:
    """Of one operator: on a core, moving, on the CPU."""
    costs, mask = placed.costs, 1 << k
    time, moved, cpu = costs.core(mask), costs.problem.moved(mask), costs.problem.cpu[k]
    if costs.energies is None:
        return _cycles(None if time is None else time - moved), _cycles(None if time is None else moved), _cycles(cpu)
    whole, moving = costs.energies.core(mask), costs.energies.on_cpu(moved)
    return (
        _microjoules(None if whole is None else whole - moving), _microjoules(None if whole is None else moving),
        _microjoules(costs.energies.problem.cpu[k]),
    )  # fmt: skip


def _of_energy(power: Power) -> list[str]:
    """What the numbers are worth."""
    return [
        f"  by {power.table.source}, a model within a factor of {power.table.uncertainty:g} either way, and a CPU of "
        f"{power.host:g} W while it works, {power.idle:g} W while it waits"
    ]


def _doubts(placed: Placed, power: Power) -> list[str]:
    """Whether another placement were best if the model is as wrong as it may be."""
    lines, doubt = [], power.table.uncertainty
    for words, found in ((f"1/{doubt:g} of", placed.if_less), (f"{doubt:g} times", placed.if_more)):
        assert found is not None
        there = {k for part in found.parts if part.replicas for k in members(part.operators)}
        here = {k for part in placed.best.parts if part.replicas for k in members(part.operators)}
        names = ", ".join(placed.costs.graph.ops[k].name for k in sorted(there ^ here))
        other = f"elsewhere: {names}" if names else "the same" if found.parts == placed.best.parts else "cut elsewhere"
        lines.append(f"  if the accelerator took {words} that, the best would be {other}")
    return lines


def _best(placed: Placed) -> Solution:
    """The best of all, by barriers or by exchange."""
    found = [placed.best] if placed.exchanging is None else [placed.exchanging, placed.best]
    return min(found, key=lambda solution: solution.cost)


def _with_barriers(placed: Placed) -> list[str]:
    """The other way to go from part to part, and who has no choice."""
    if _best(placed) is not placed.exchanging:
        return _described("exchange", placed.exchanging, placed)
    return [
        *_described("barriers", placed.best, placed),
        f"{'':12}the host carries between launches: what a device does whose cores share no memory",
    ]


def _described(title: str, found: Solution | None, placed: Placed) -> list[str]:
    if found is None:
        return [f"{title:>10}  there is none"]
    best = _best(placed)
    loss = found.cost / max(best.cost, 1) - 1
    compared = "" if found is best else f", {loss:.1%} more than the best"
    if found is placed.exchanging:
        count = len(launches(placed.costs, found))
        compared += f", of {count} launch{'es' * (count != 1)} in which cores exchange through memory that they share"
    cost = _cycles(found.cost) if placed.costs.energies is None else _microjoules(found.cost)
    lines = [f"{_place(part)}: {_span(part, placed)}, {_own_cost(part, found, placed)}" for part in found.parts]
    return [f"{title:>10}  {cost}{compared}", *(f"{'':12}{line}" for line in (*lines, *_sum(found, placed)))]


def _span(part: Part, placed: Placed) -> str:
    ops = [placed.costs.graph.ops[k] for k in members(part.operators)]
    return ops[0].name if len(ops) == 1 else f"{ops[0].name} to {ops[-1].name} ({len(ops)} operators)"


def _times(part: Part, placed: Placed) -> tuple[int, int]:
    """Cycles of a part on cores, and on the CPU, which packs and unpacks too."""
    cpu = placed.costs.cpu_time(part)
    return (placed.costs.part_time(part) or 0) - cpu, cpu


def _own_cost(part: Part, found: Solution, placed: Placed) -> str:
    costs = placed.costs
    if costs.energies is not None:
        return _microjoules(costs.energies.of_part(part))
    cores, cpu = _times(part, placed)
    if not part.replicas:
        return _cycles(cpu)
    if placed.objective == "throughput":
        return f"{_cycles(-(-cores // part.replicas))}, and {_cycles(cpu)} of the CPU"
    return _cycles(cores if found is placed.exchanging else cores + cpu)


def _sum(found: Solution, placed: Placed) -> list[str]:
    """How the costs of the parts make the cost of the whole, where they do not just add up."""
    times = [(part.replicas, *_times(part, placed)) for part in found.parts]
    if placed.objective == "throughput":
        cpu = -(-sum(cpu for _, _, cpu in times) // placed.costs.jobs)
        if found is placed.pipeline:
            which = f"the slowest part on cores, {_cycles(max(-(-cores // max(n, 1)) for n, cores, _ in times))}"
        else:
            together = -(-sum(cores for _, cores, _ in times) // placed.costs.config.cores)
            which = f"the parts on cores together, {_cycles(together)}"
        return [f"the slower decides: {which}, or the CPU, {_cycles(cpu)}"]
    if found is not placed.exchanging:
        return []
    moved = found.cost - sum(cores if n else cpu for n, cores, cpu in times)
    return [f"CPU: moves tensors around the launches, {_cycles(moved)}"]


#: what of a part each of several cores computes
_WAYS: dict[Way, str] = {
    "rows": "rows", "channels": "channels", "inputs": "input channels, whose sums they exchange and add up"
}  # fmt: skip


def _place(part: Part) -> str:
    if not part.replicas:
        return "CPU"
    if part.way is not None:
        return f"{part.replicas} cores by {_WAYS[part.way]}"
    return "core" if part.replicas == 1 else f"{part.replicas} cores"


def _cycles(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _microjoules(nanojoules: int | None) -> str:
    return "-" if nanojoules is None else f"{nanojoules / 1000:,.2f}"
