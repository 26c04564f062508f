"""The front and the course of a sweep as PNG pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from tilewright.dse.evaluate import OBJECTIVES, cost
from tilewright.dse.search import Point

_FRONT, _OTHER = "#c0392b", "#a9b8cc"


def front_picture(objectives: Sequence[str], points: Sequence[Point], everything: Sequence[Point]) -> bytes:
    """The first objective over each of the others, one panel each (over the trials where there is but one)."""
    pyplot = _pyplot()
    others = [p for p in everything if p.feasible]
    first, rest = objectives[0], list(objectives[1:]) or ["trial"]
    figure, panels = pyplot.subplots(1, len(rest), figsize=(6.5 * len(rest), 5), squeeze=False)
    for axes, name in zip(panels[0], rest, strict=True):
        axes.scatter(
            [_value(p, name) for p in others], [_value(p, first) for p in others], s=10, color=_OTHER, label="feasible"
        )
        ordered = sorted(points, key=lambda p: _value(p, name))
        # what the front reaches: a point's value holds up to the next one, seen from the side that costs less
        steps = "steps-pre" if name in OBJECTIVES and OBJECTIVES[name].maximise else "steps-post"
        axes.plot(
            [_value(p, name) for p in ordered], [_value(p, first) for p in ordered],
            "o-" if len(objectives) == 2 else "o", drawstyle=steps, color=_FRONT, label="front",
        )  # fmt: skip
        axes.set(xlabel=_label(name), ylabel=_label(first))
        axes.grid(color="#e6e9ee")
        axes.legend()
    return _png(pyplot, figure)


def history_picture(objectives: Sequence[str], everything: Sequence[Point]) -> bytes:
    """The best value of each objective so far, over the trials."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(len(objectives), 1, figsize=(7, 2.4 * len(objectives)), squeeze=False, sharex=True)
    feasible = sorted((p for p in everything if p.feasible), key=lambda p: p.number)
    for axes, name in zip(panels[:, 0], objectives, strict=True):
        best: list[float] = []
        for point in feasible:
            value = _value(point, name)
            best.append(value if not best or cost(name, value) < cost(name, best[-1]) else best[-1])
        axes.plot([p.number for p in feasible], [_value(p, name) for p in feasible], ".", color=_OTHER, markersize=3)
        axes.step([p.number for p in feasible], best, where="post", color=_FRONT)
        axes.set(ylabel=_label(name))
        axes.grid(color="#e6e9ee")
    panels[-1, 0].set(xlabel="trial")
    return _png(pyplot, figure)


def _value(point: Point, name: str) -> float:
    return float(point.number) if name == "trial" else point.best_values[name]


def _label(name: str) -> str:
    return name if name == "trial" else f"{name} ({OBJECTIVES[name].unit})"


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _png(pyplot: Any, figure: Any) -> bytes:
    stream = io.BytesIO()
    figure.tight_layout()
    figure.savefig(stream, format="png", dpi=120)
    pyplot.close(figure)
    return stream.getvalue()
