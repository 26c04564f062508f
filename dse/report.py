"""What a sweep leaves behind: front as JSON, CSV, pictures and one HTML page, and the winner as TOML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.dse.report_data import front_rows, head, other_points
from tilewright.dse.report_page import render_page
from tilewright.dse.report_pictures import front_picture, history_picture
from tilewright.dse.search import Point, Search
from tilewright.files import write_files
from tilewright.progress import Progress, silent

#: what :func:`write_all` writes
FILES = ("front.json", "front.csv", "report.html", "front.png", "history.png", "best.toml")


def write_all(
    folder: Path, search: Search, points: Sequence[Point], everything: Sequence[Point], progress: Progress = silent
) -> list[Path]:
    """Write all files of a sweep to ``folder``, all of them or none; returns their paths.

    ``points``: the front, best first; ``everything``: all trials. Raises :class:`FileError` naming the file.
    """
    objectives = search.evaluator.objectives
    rows, asked = front_rows(search, points, progress), head(search, everything)
    others, count = other_points(everything, points)
    kept = [{name: value for name, value in row.items() if name != "toml"} for row in rows]
    contents: dict[str, str | bytes] = {
        "front.json": json.dumps({**asked, "front": kept}, indent=1) + "\n",
        "front.csv": _csv(search, rows),
        "report.html": render_page(asked, rows, others, count),
        "front.png": front_picture(objectives, points, everything),
        "history.png": history_picture(objectives, everything),
        "best.toml": search.config(points[0]).to_toml(),
    }
    return write_files(folder, {name: contents[name] for name in FILES})


def _csv(search: Search, rows: list[dict[str, Any]]) -> str:
    """One line per point of the front: objectives first, then the other metrics, cycles and parameters."""
    text = io.StringIO()
    names, networks = list(search.evaluator.objectives), [n.name for n in search.evaluator.networks]
    others = [name for name in rows[0]["metrics"] if name not in names] if rows else []
    varied = list(search.space.varied)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "fidelity", *names, *others, *(f"cycles {n}" for n in networks), *varied])
    for row in rows:
        table.writerow(
            [row["trial"], row["fidelity"], *(row["values"][n] for n in names), *(row["metrics"][n] for n in others),
             *(row["cycles"][n] for n in networks), *(row["parameters"][n] for n in varied)]
        )  # fmt: skip
    return text.getvalue()
