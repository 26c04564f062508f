"""``compare``: whether a model got slower, or gives other integers, from one report's JSON form to another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from tilewright.errors import TilewrightError
from tilewright.files import read_bytes
from tilewright.kinds import path_of
from tilewright.ranges import real
from tilewright.schema import Count, Holds, SchemaError, conform

FORMAT = 2  #: of the reports that are written now
#: by format of older reports that are understood too, what they call a key
_OLDER = {
    1: {"floor_cycles": "lower_bound_cycles", "floor_ratio": "lower_bound_ratio", "floors": "lower_bounds"},
}  # fmt: skip
MOST_PERCENT = 1.0  #: by which cycles may grow
_WORST = 10  #: layers that are named


class CompareError(TilewrightError):
    """A file that is no report, or two that cannot be compared; says why."""


class _Layer(TypedDict):
    name: str
    cycles: Count | None


class _Report(TypedDict):
    format: Count
    model: str
    config: str
    config_parameters: dict[str, Any]
    cycles: Count
    inferences: Count
    digests: dict[str, str]
    layers: tuple[Annotated[dict[str, Any], Holds(_Layer)], ...]


@dataclass(frozen=True)
class Comparison:
    """What changed. ``faults``: why the new report is worse, nothing if it is not; ``notes``: what else to know."""

    old: dict[str, Any]
    new: dict[str, Any]
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def growth(self) -> float:
        """By which share cycles grew; negative where they fell."""
        return _growth(self.old["cycles"], self.new["cycles"])

    def layers(self) -> list[tuple[str, int, int]]:
        """Name, old and new cycles of the layers that changed, most first; one that is missing has 0."""
        sides = [_layer_cycles(report) for report in (self.old, self.new)]
        rows = [(name, sides[0].get(name, 0), sides[1].get(name, 0)) for name in dict.fromkeys([*sides[1], *sides[0]])]
        return sorted((r for r in rows if r[1] != r[2]), key=lambda row: -abs(row[2] - row[1]))[:_WORST]

    def markdown(self) -> str:
        """The verdict, and the layers that changed, for a comment or a job's summary."""
        old, new = self.old["cycles"], self.new["cycles"]
        mark = "worse" if self.faults else "as good"
        title = f"**{self.new['model']} on {self.new['config']}: {mark}**"
        lines = [f"{title}, {old:,} -> {new:,} cycles ({self.growth:+.2%})", ""]
        lines += [f"- {text}" for text in (*self.faults, *self.notes)]
        if rows := self.layers():
            lines += ["", "| layer | before | now | change |", "|---|---:|---:|---:|"]
            lines += [
                f"| {name.replace('|', ' ')} | {a:,} | {b:,} | {_growth(a, b):+.1%} |" if a
                else f"| {name.replace('|', ' ')} | - | {b:,} | new |" for name, a, b in rows
            ]  # fmt: skip
        return "\n".join(lines) + "\n"


def compare(old: str | Path, new: str | Path, most_percent: float = MOST_PERCENT) -> Comparison:
    """Judge the report at ``new`` by the one at ``old``: JSON files of ``tilewright run --report`` or ``save_json``.

    It is worse if cycles grew by more than ``most_percent``, or if equal inputs gave other outputs. Raises
    :class:`CompareError` for files that are no reports with cycles, and for reports on different inputs.
    """
    most_percent = real("most_percent", most_percent, 0, of="%", error=CompareError)
    before, now = load_report(old), load_report(new)
    if before["digests"]["inputs"] != now["digests"]["inputs"]:
        raise CompareError(
            f"{new}: ran on other inputs than {old}; give both runs the same --input, or the same --seed"
        )
    faults, notes = [], []
    growth = _growth(before["cycles"], now["cycles"])
    if 100 * growth > most_percent:
        faults.append(f"cycles grew by {growth:.2%}, more than {most_percent:g} %")
    if before["digests"]["outputs"] != now["digests"]["outputs"]:
        faults.append(f"the outputs of the {now['inferences']:,} inputs are not those of before")
    if before["model"] != now["model"]:
        notes.append(f"the model was called {before['model']}")
    changed = {
        name: (before["config_parameters"].get(name), value)
        for name, value in now["config_parameters"].items()
        if before["config_parameters"].get(name) != value
    }
    notes += [f"{name} was {was}, and is {value}" for name, (was, value) in changed.items()]
    return Comparison(before, now, tuple(faults), tuple(notes))


def load_report(path: str | Path) -> dict[str, Any]:
    """A report's JSON form, checked as far as a comparison needs it. Raises :class:`CompareError`."""
    path = path_of("report", path, error=CompareError)
    try:
        data = json.loads(read_bytes(path))
        conform(Annotated[dict[str, Any], Holds(_Report)], data, "report")
    except (ValueError, RecursionError, SchemaError) as error:
        raise CompareError(f"{path}: not a report of tilewright run --report with cycles: {error}") from error
    if data["format"] not in (FORMAT, *_OLDER):
        understood = ", ".join(map(str, (*_OLDER, FORMAT)))
        raise CompareError(
            f"{path}: a report of format {data['format']}; this version of Tilewright compares {understood}"
        )
    if missing := {"inputs", "outputs"} - data["digests"].keys():
        raise CompareError(f"{path}: has no digest of {', '.join(sorted(missing))}")
    names = _OLDER.get(data["format"], {})
    layers = [_renamed(layer, names) for layer in data["layers"]]
    return _renamed(data, names) | {"layers": layers}


def _renamed(entry: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entry.items()}


def _layer_cycles(report: dict[str, Any]) -> dict[str, int]:
    return {layer["name"]: layer["cycles"] or 0 for layer in report["layers"]}


def _growth(before: int, now: int) -> float:
    return (now - before) / before if before else float(now > 0)
