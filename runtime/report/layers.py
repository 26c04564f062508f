"""The entries of a report: a layer each, as the compiler recorded it and as a run measured it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.config import Config
from tilewright.runtime.attribution import bound
from tilewright.runtime.records import BOUND
from tilewright.runtime.report.explain import why
from tilewright.runtime.report.run import ProgramRun, needs


def program_layers(run: ProgramRun, config: Config) -> list[dict[str, Any]]:
    """The layers of a program, with what a run took for each and why."""
    entries = []
    for index, layer in enumerate(run.layers):
        entry, found = layer_entry(layer), run.attribution
        if entry["place"] == "accelerator" and found is None:
            entry["cycles"] = None
        elif entry["place"] == "accelerator" and found is not None:
            cycles = entry["cycles"] = int(found.cycles[index])
            entry["lower_bound_cycles"] = found.lower_bound(index, *needs(entry, config).values())
            entry["lower_bound_ratio"] = ratio(cycles, entry["lower_bound_cycles"])
            entry["utilization"] = ratio(entry["useful"], cycles * config.array_macs)
            entry["cycles_by_cause"] = found.causes(index, -(-entry["useful"] // config.array_macs))
            entry["bound"] = bound(entry["cycles_by_cause"])
            entry["why"] = why(entry, config)
        entries.append(entry)
    return entries


def layer_entry(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer as the compiler recorded it, its measured values still empty."""
    alone = int(layer.get(BOUND, 0))
    known = {
        "name": layer["name"],
        "op": (layer.get("op", "").split() or [""])[-1],  # without the number that the importer may put before it
        "place": layer.get("place", "accelerator"),
        "cycles": 0,
        "lower_bound_cycles": alone,
        "alone_cycles": alone,
        "lower_bound_ratio": 0.0,
        "macs": int(layer.get("macs", 0)),
        "useful": int(layer.get("useful", layer.get("macs", 0))),
        "utilization": 0.0,
        "bound": None,
        "array_cycles": int(layer.get("array_cycles", 0)),
        "alu_cycles": int(layer.get("alu_cycles", 0)),
        "read_bytes": int(layer.get("read_bytes", 0)),
        "write_bytes": int(layer.get("write_bytes", 0)),
    }
    return known | {key: value for key, value in layer.items() if key not in known and key != BOUND}


def ratio(value: float, base: float) -> float:
    """0 of nothing."""
    return value / base if base else 0.0
