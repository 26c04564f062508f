"""What a sweep leaves behind: front as JSON, CSV, picture and one HTML page, and the winner as TOML."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.dse.evaluate import OBJECTIVES, Evaluator
from tilewright.dse.resources import limits, reported, resources
from tilewright.dse.search import Point, Search
from tilewright.errors import TilewrightError
from tilewright.jit.kernels.base import PlaceError
from tilewright.runtime.files import write_with

#: buffers and widths whose next larger value each point of the front is asked about
WHAT_IF = ("act_bytes", "wgt_bytes", "acc_bytes", "prm_entries", "axi_bits", "block_in", "block_out")
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}summary{cursor:pointer;font-weight:600;margin-top:.6rem}
circle.front{fill:#c33}circle.other{fill:#aac}pre{background:#f5f5f5;padding:.6rem;overflow:auto}"""


def front_rows(search: Search, points: Iterable[Point]) -> list[dict[str, Any]]:
    """One mapping per point of the front: values, cycles, parameters, resources, and why."""
    return [_row(search, point) for point in points]


def _row(search: Search, point: Point) -> dict[str, Any]:
    config = search.config(point)
    used, evaluator = resources(config), search.evaluator
    layers = {
        name: [{"layer": l.name, "bound": l.bound, "array": l.array, "alu": l.alu, "bus": l.bus} for l in found.layers]
        for name, found in evaluator.layers(config).items()
    }
    return {
        "trial": point.number,
        "values": point.best_values,
        "fidelity": "simulator" if point.simulated else "analytical",
        "cycles": (point.simulated or {}).get("cycles") or point.cycles,
        "analytical_cycles": point.cycles,
        "parameters": point.params,
        "dsp": used.dsp_by,
        "bram36": used.bram_by,
        "synthesis": reported(config),
        "layers": layers,
        "what_if": what_if(evaluator, search, point),
        "config": config.to_dict(),
    }


def what_if(evaluator: Evaluator, search: Search, point: Point) -> list[dict[str, Any]]:
    """What doubling each buffer, the bus or a block would change, by the analytical model."""
    found: list[dict[str, Any]] = []
    base = search.config(point)
    now = sum(n.weight * point.cycles[n.name] for n in evaluator.networks)
    before = resources(base)
    for name in WHAT_IF:
        value = getattr(base, name) * 2
        entry: dict[str, Any] = {"parameter": name, "value": value}
        try:
            changed = base.replace(**{name: value})
            cycles = {k: e.cycles for k, e in evaluator.layers(changed).items()}
        except PlaceError as error:
            entry["reason"] = str(error)
        except TilewrightError as error:
            entry["reason"] = str(error)
        else:
            after = resources(changed)
            then = sum(n.weight * cycles[n.name] for n in evaluator.networks)
            entry |= {"cycles": then / now - 1, "dsp": after.dsp - before.dsp, "bram36": after.bram36 - before.bram36}
        found.append(entry)
    return found


def write_all(folder: Path, search: Search, points: list[Point], everything: list[Point]) -> list[Path]:
    """Write front.json, front.csv, front.png, report.html and best.toml; each appears whole or not at all."""
    rows = front_rows(search, points)
    head = {
        "board": search.evaluator.board, "limits": limits(search.evaluator.board) if search.evaluator.board else None,
        "objectives": {name: OBJECTIVES[name].unit for name in search.evaluator.objectives},
        "networks": {n.name: n.weight for n in search.evaluator.networks}, "sampler": search.sampler,
        "seed": search.seed, "trials": len(everything), "space": search.space.to_dict()["varied"],
        "infeasible": _reasons(everything),
    }  # fmt: skip
    best = search.config(points[0])
    contents = {
        "front.json": json.dumps({**head, "front": rows}, indent=1) + "\n",
        "front.csv": _csv(search, rows),
        "report.html": _html(search, head, rows, everything),
        "best.toml": best.to_toml(),
    }
    for name, text in contents.items():
        _write(folder / name, text.encode())
    _write(folder / "front.png", _picture(search, points, everything))
    return [folder / name for name in (*contents, "front.png")]


def _write(path: Path, data: bytes) -> None:
    write_with(path, lambda file: file.write(data))


def _reasons(points: Iterable[Point]) -> dict[str, int]:
    """How many points each kind of reason excludes; the reason up to its first number."""
    counts: dict[str, int] = {}
    for point in points:
        reason = point.reason or (point.simulated or {}).get("reason")
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20])


def _csv(search: Search, rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    names, networks = list(search.evaluator.objectives), [n.name for n in search.evaluator.networks]
    varied = list(search.space.varied)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "fidelity", *names, *(f"cycles {n}" for n in networks), *varied])
    for row in rows:
        table.writerow(
            [row["trial"], row["fidelity"], *(row["values"][n] for n in names), *(row["cycles"][n] for n in networks),
             *(row["parameters"][n] for n in varied)]
        )  # fmt: skip
    return text.getvalue()


def _axes(search: Search) -> tuple[str, str]:
    names = search.evaluator.objectives
    return names[0], names[1] if len(names) > 1 else names[0]


def _picture(search: Search, points: list[Point], everything: list[Point]) -> bytes:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    y, x = _axes(search)
    figure, axes = pyplot.subplots(figsize=(7, 5))
    others = [p for p in everything if p.feasible]
    axes.scatter([p.best_values[x] for p in others], [p.best_values[y] for p in others], s=10, color="#aac")
    axes.plot([p.best_values[x] for p in points], [p.best_values[y] for p in points], "o-", color="#c33", label="front")
    axes.set(xlabel=f"{x} ({OBJECTIVES[x].unit})", ylabel=f"{y} ({OBJECTIVES[y].unit})")
    axes.legend()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120)
    pyplot.close(figure)
    return stream.getvalue()


def _html(search: Search, head: Mapping[str, Any], rows: list[dict[str, Any]], everything: list[Point]) -> str:
    names = list(search.evaluator.objectives)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Tilewright explorer</title>"
        f"<style>{_STYLE}</style><h1>Front on {html.escape(str(head['board'] or 'no board'))}</h1>",
        f"<p>{head['trials']} trials, sampler {head['sampler']}, seed {head['seed']}; networks "
        f"{html.escape(', '.join(head['networks']))}. Analytical cycles are estimates; rows marked simulator have "
        "been compiled and simulated.</p>",
        _svg(search, rows, everything),
        _table(
            ["trial", "fidelity", *(f"{n} ({OBJECTIVES[n].unit})" for n in names), "config"],
            [[r["trial"], r["fidelity"], *(f"{r['values'][n]:,g}" for n in names), r["config"]["name"]] for r in rows],
        ),
    ]
    parts += [_detail(row) for row in rows]
    if head["infeasible"]:
        reasons = [[reason, count] for reason, count in head["infeasible"].items()]
        parts.append("<h2>Why points were left out</h2>" + _table(["reason", "points"], reasons))
    return "\n".join(parts) + "</html>\n"


def _detail(row: Mapping[str, Any]) -> str:
    text = [f"<details><summary>Trial {row['trial']}: {html.escape(row['config']['name'])}</summary>"]
    for network, layers in row["layers"].items():
        table = [[l["layer"], l["bound"], l["array"], l["alu"], l["bus"]] for l in layers]
        text.append(f"<h3>{html.escape(network)}: {row['cycles'][network]:,} cycles ({row['fidelity']})</h3>")
        text.append(_table(["layer", "bound", "array cycles", "ALU cycles", "bus cycles"], table))
    used = [[k, v, ""] for k, v in row["dsp"].items()] + [[k, "", f"{v:g}"] for k, v in row["bram36"].items()]
    text.append("<h3>Resources</h3>" + _table(["module", "DSP", "BRAM36"], used))
    changes = [
        [w["parameter"], w["value"], w["reason"] if "reason" in w else f"{w['cycles']:+.1%}", w.get("dsp", ""),
         w.get("bram36", "")]
        for w in row["what_if"]
    ]  # fmt: skip
    text.append("<h3>What doubling would change</h3>" + _table(["parameter", "to", "cycles", "DSP", "BRAM36"], changes))
    config = "".join(f"{k} = {json.dumps(v)}\n" for k, v in row["config"].items())
    text.append(f"<h3>Config</h3><pre>{html.escape(config)}</pre></details>")
    return "\n".join(text)


def _table(head: list[str], rows: list[list[Any]]) -> str:
    def cells(tag: str, values: list[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(v))}</{tag}>" for v in values) + "</tr>"

    return "<table>" + cells("th", list(head)) + "".join(cells("td", row) for row in rows) + "</table>"


def _svg(search: Search, rows: list[dict[str, Any]], everything: list[Point]) -> str:
    """A plot without scripts: hovering over a point names it."""
    y, x = _axes(search)
    others = [(p.best_values, f"trial {p.number}", "other") for p in everything if p.feasible]
    marked = others + [(r["values"], f"trial {r['trial']}: {r['config']['name']}", "front") for r in rows]
    xs, ys = [v[x] for v, _, _ in marked], [v[y] for v, _, _ in marked]
    x0, y0 = min(xs), min(ys)
    dx, dy = (max(xs) - x0) or 1, (max(ys) - y0) or 1
    dots = "".join(
        f'<circle class={kind} cx="{60 + 520 * (v[x] - x0) / dx:.1f}" cy="{340 - 320 * (v[y] - y0) / dy:.1f}" r=4>'
        f"<title>{html.escape(label)}: {y} {v[y]:g}, {x} {v[x]:g}</title></circle>"
        for v, label, kind in marked
    )
    return (
        f'<svg viewBox="0 0 620 390" width=620 role=img aria-label="front">{dots}'
        f"<text x=300 y=380 text-anchor=middle>{x}, {x0:g} to {x0 + dx:g}</text>"
        f'<text x=20 y=180 transform="rotate(-90 20 180)" text-anchor=middle>{y}, {y0:g} to {y0 + dy:g}</text></svg>'
    )
