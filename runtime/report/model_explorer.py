"""Node data for Model Explorer (the package ai-edge-model-explorer): what a run found, for each operator of the file.

Model Explorer draws ``.tflite`` and ``.onnx`` graphs, and colours their nodes by files of node data: a value for each
node, which is found by the name of its first output, or by its own name where the file has one (``.onnx``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.files import FileError
from tilewright.kinds import path_of

#: from few to many
_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8710a"}]
_COLOURS = {
    "accelerator": "#ceead6", "host": "#fef7e0", "interpreter": "#fad2cf",
    "proven": "#ceead6", "by construction": "#e6f4ea",
}  # fmt: skip
_OTHER = "#fef7e0"


SETS = ("cycles", "ratio", "place", "exact")


def model_explorer_file(path: str | Path, name: str) -> Path:
    """Where a set of data is written, of all that are written as ``path``."""
    path = path_of("path", path, error=FileError)
    return path.parent / f"{path.stem}-{name}.json"


def node_data(operators: Sequence[Mapping[str, Any]], layers: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sets of data by name: ``cycles``, ``ratio`` to the lower bound, ``place`` and ``exact``.

    ``operators``: of an artifact's options; ``layers``: of the report of its run.
    """
    cycles: defaultdict[str, int] = defaultdict(int)
    bounds: defaultdict[str, int] = defaultdict(int)
    for layer in layers:
        cycles[layer["name"]] += layer["cycles"] or 0
        bounds[layer["name"]] += layer["lower_bound_cycles"]
    named = {operator.get("title") or operator["name"]: operator for operator in operators}
    on_it = {title: op["name"] for title, op in named.items() if op["place"] == "accelerator" and cycles[op["name"]]}
    ratios = {title: cycles[name] / bounds[name] for title, name in on_it.items() if bounds[name]}
    sets = (
        _numbers("cycles", {title: cycles[name] for title, name in on_it.items()}),
        _numbers("cycles / lower bound", {title: round(value, 2) for title, value in ratios.items()}),
        _words("runs on", {title: op["place"] for title, op in named.items() if op["place"] != "none"}),
        _words("exactness", {title: op["exact"] for title, op in named.items() if op["place"] != "none"}),
    )
    return dict(zip(SETS, sets, strict=True))


def _numbers(name: str, values: Mapping[str, float]) -> dict[str, Any]:
    return {
        "name": name,
        "results": {title: {"value": value} for title, value in values.items()},
        "gradient": _GRADIENT,
    }


def _words(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    coloured = {title: {"value": value, "bgColor": _COLOURS.get(value, _OTHER)} for title, value in values.items()}
    return {"name": name, "results": coloured}
