"""What a report shows of a sweep, as plain values: the front with its reasons, the other points, and what was asked."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.config import Config
from tilewright.dse import clock
from tilewright.dse.evaluate import OBJECTIVES, Evaluator
from tilewright.dse.networks import Network
from tilewright.dse.resources import limits, reported, uncertainty
from tilewright.dse.search import Point, Search
from tilewright.dse.whatif import advice, what_if
from tilewright.jit.cost.lower_bound import network_bound
from tilewright.jit.energy.model import sources, table_rows
from tilewright.progress import Progress, silent

#: points beside the front that a page holds; of more, these many evenly chosen ones
MOST_POINTS = 5000
MOST_REASONS = 30
#: a resource's name among the metrics -> in a synthesis report
REPORTED = {"dsp": "DSP", "bram": "BRAM", "lut": "LUT", "ff": "FF"}


def head(search: Search, everything: Sequence[Point]) -> dict[str, Any]:
    """What was explored, and how."""
    evaluator = search.evaluator
    errors = uncertainty(search.space.base.board)
    return {
        "board": evaluator.board,
        "limits": None if evaluator.board is None else limits(evaluator.board),
        "max_lut": evaluator.max_lut,
        "objectives": {name: OBJECTIVES[name].unit for name in evaluator.objectives},
        "clock": evaluator.clock_source,
        "networks": {n.name: n.weight for n in evaluator.networks},
        "on_the_cpu": {
            n.model: [{"operator": name, "reason": reason} for name, reason in n.host_ops]
            for n in evaluator.networks
            if n.host_ops
        },
        "sampler": search.sampler,
        "seed": search.seed,
        "trials": len(everything),
        "feasible": sum(p.feasible for p in everything),
        "space": search.space.to_dict()["varied"],
        "fixed_options": dict(search.space.fixed),
        "energy": {
            "uncertainty": evaluator.table.uncertainty, "table": evaluator.table.source,
            "sources": sources(evaluator.table), "pj": table_rows(search.space.base, evaluator.table),
        },
        "resource_error": {kind: round(error, 3) for kind, error in errors.items()},
        "infeasible": reasons(everything),
    }  # fmt: skip


def front_rows(search: Search, points: Sequence[Point], progress: Progress = silent) -> list[dict[str, Any]]:
    """One mapping per point of the front: values, cycles, parameters, resources, and why."""
    rows = []
    for number, point in enumerate(points):
        progress("explaining the front", number, len(points))
        rows.append(_row(search, point))
    return rows


def _row(search: Search, point: Point) -> dict[str, Any]:
    config, options = search.config(point), search.space.options(point.params)
    evaluator: Evaluator = search.evaluator
    used, layers = evaluator.used(config), evaluator.layers(config, options)
    spent = evaluator.spent(config, layers, options)
    neighbours = what_if(evaluator, config, options)
    cycles = (point.simulated or {}).get("cycles") or point.cycles
    metrics = evaluator.metrics(config, cycles, spent, evaluator.intervals(config, cycles, layers))
    board = evaluator.board
    return {
        "trial": point.number,
        "values": point.best_values,
        "estimated_values": point.values,
        "fidelity": "simulator" if point.simulated else "analytical",
        "cycles": cycles,
        "analytical_cycles": point.cycles,
        "parameters": point.params,
        "metrics": {**metrics, **point.best_values},
        "board": evaluator.unfit(config),
        "clock_model": dataclasses.asdict(clock.estimate(config, board)),
        "modules": {
            name: {kind: round(2 * n) / 2 if kind == "bram36" else round(n) for kind, n in found.items()}
            for name, found in used.modules.items()
        },
        "synthesis": _synthesis(point, config),
        "layers": {
            name: [
                {"layer": l.name, "bound": l.bound, "array": l.array, "alu": l.alu, "bus": l.bus} for l in found.layers
            ]
            for name, found in layers.items()
        },
        "bounds": {network.name: _bounds(network, config) for network in evaluator.networks},
        "engines": {name: found.busy for name, found in layers.items()},
        "spilled": {name: list(found.spilled) for name, found in layers.items() if found.spilled},
        "energy": {name: {k: round(v, 4) for k, v in found.by.items()} for name, found in spent.items()},
        "what_if": neighbours,
        "advice": advice(neighbours, evaluator.objectives[0]),
        "config": config.to_dict(),
        "toml": config.to_toml(),
    }


def _bounds(network: Network, config: Config) -> dict[str, Any]:
    """The lower bound of a network and of its layers (``docs/numbers.md``), the same as in the report of a run."""
    bounds = network.bounds(config)
    layers = [
        {
            "layer": name, "alone_cycles": bound.cycles(config), "array_cycles": bound.array_cycles,
            "alu_cycles": bound.alu_cycles, "read_bytes": bound.read_bytes, "write_bytes": bound.write_bytes,
        }
        for name, bound in bounds
    ]  # fmt: skip
    return {"lower_bound_cycles": network_bound([bound for _, bound in bounds], config), "layers": layers}


def _synthesis(point: Point, config: Config) -> dict[str, float] | None:
    """Counts by Yosys: this sweep's, or those of a kept report of exactly this Config; None without either."""
    if point.synthesised and point.synthesised.get("metrics"):
        return dict(point.synthesised["metrics"])
    report = reported(config)
    return None if report is None else {name: float(report[key]) for name, key in REPORTED.items()}


def other_points(everything: Sequence[Point], front: Sequence[Point]) -> tuple[list[dict[str, Any]], int]:
    """Points with values that are not on the front, at most :data:`MOST_POINTS`, and how many there are."""
    shown = {p.number for p in front}
    others = [p for p in everything if p.number not in shown and p.values]
    step = max(1, -(-len(others) // MOST_POINTS))
    return [
        {
            "trial": p.number, "parameters": p.params, "metrics": {**p.metrics, **p.best_values},
            "fidelity": "simulator" if p.simulated else "analytical",
            "reason": p.reason or (p.simulated or {}).get("reason"),
        }
        for p in others[::step]
    ], len(others)  # fmt: skip


def reasons(points: Iterable[Point]) -> dict[str, int]:
    """How many points each kind of reason excludes, the most frequent first; the first of a kind stands for it.

    Reasons are of a kind if they differ in numbers only: which layer, how much is missing.
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for point in points:
        reason = point.reason or (point.simulated or {}).get("reason") or (point.synthesised or {}).get("reason")
        if reason:
            kind = re.sub(r"\d[\d.,]*", "#", reason)
            first.setdefault(kind, reason)
            counts[kind] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {first[kind]: count for kind, count in ordered[:MOST_REASONS]}
