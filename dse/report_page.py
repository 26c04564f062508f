"""The sweep as one HTML file that works without a network: the plot (plotly.js, embedded), the front, and every why."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from tilewright.dse.evaluate import OBJECTIVES
from tilewright.errors import TilewrightError
from tilewright.printable import in_html
from tilewright.runtime.report.html import page_style, script_json, tiles


class PageError(TilewrightError):
    """The page cannot be made because a package is missing."""


def render_page(
    head: Mapping[str, Any], rows: list[dict[str, Any]], others: list[dict[str, Any]], other_count: int
) -> str:  # fmt: skip
    """The whole page. ``other_count``: points beside the front in all, of which ``others`` may hold a part."""
    web = files("tilewright.dse") / "web"
    css, script = page_style((web / "explorer.css").read_text()), (web / "explorer.js").read_text()
    title = in_html(f"Accelerators for {', '.join(head['networks'])} on {head['board'] or 'no board'}")
    data = {
        "head": dict(head), "rows": rows, "others": others,
        "metrics": {n: {"unit": o.unit, "what": o.what, "maximise": o.maximise} for n, o in OBJECTIVES.items()},
    }  # fmt: skip
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: Tilewright explorer</title><style>{css}</style><script>{plotly_source()}</script></head><body>
<h1>{title}</h1>
{tiles(_totals(head, rows))}
{_notes(head, len(others), other_count)}
<h2>Pareto plot</h2>
<div class="controls" id="controls"></div>
<div id="plot"></div>
<p class="dim"><span id="count"></span>. Wheel or drag zooms, a double click shows everything, a click on a point
explains it below.</p>
<details><summary>Filter by parameter</summary><div class="filters" id="filters"></div></details>
<h2>Front</h2>
<p class="dim">No other point is as good in every objective and better in one. Click a row for its reasons.</p>
<div id="front"></div>
<h2 id="detail-title"></h2>
<div id="detail"></div>
{_left_out(head)}
{_energy(head)}
<script type="application/json" id="explorer-data">{script_json(data)}</script>
<script>{script}</script>
</body></html>
"""


def plotly_source() -> str:
    """The text of plotly.js. Raises :class:`PageError` where plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise PageError("the report needs plotly, which is not installed: pip install 'tilewright[explore]'") from error
    return str(get_plotlyjs())


def _totals(head: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    values = [
        (f"{head['trials']:,}", "trials"), (f"{head['feasible']:,}", "feasible"), (str(len(rows)), "on the front"),
        (str(sum(r["fidelity"] == "simulator" for r in rows)), "of them simulated"),
        (in_html(f"{head['sampler']}, seed {head['seed']}"), "sampler"),
    ]  # fmt: skip
    for name, unit in head["objectives"].items():
        best = (max if OBJECTIVES[name].maximise else min)(row["values"][name] for row in rows)
        values.append((f"{best:,g} {in_html(unit)}", f"best {name}"))
    return values


def _notes(head: Mapping[str, Any], shown: int, count: int) -> str:
    weights = ", ".join(f"{name} (weight {weight:g})" for name, weight in head["networks"].items())
    clock = (
        "Every point runs at its Config's clock_mhz."
        if head["clock"] == "config"
        else "Every point runs at the clock that the clock model expects of it, which no place and route has confirmed."
    )
    lines = [
        f"Networks: {weights}. {clock} Cycles of rows marked simulator come from the compiled network on the cycle "
        "simulator; all others, and all bounds and what-ifs, are estimates of the analytical model. Where the two "
        "meet, an estimate counts as worse by as much as estimates were found wrong in this sweep."
    ]
    for network, operators in head["on_the_cpu"].items():
        names = ", ".join(op["operator"] for op in operators)
        lines.append(
            f"{network}: {len(operators)} operators, of the CPU or recurrent, whose time is not counted: {names}."
        )
    if shown < count:
        lines.append(f"Of {count:,} points beside the front, {shown:,} are in this page.")
    return "".join(f"<p>{in_html(line)}</p>" for line in lines)


def _left_out(head: Mapping[str, Any]) -> str:
    if not head["infeasible"]:
        return ""
    rows = "".join(
        f'<tr><td class="text">{in_html(reason)}</td><td>{count:,}</td></tr>'
        for reason, count in head["infeasible"].items()
    )
    return (
        "<h2>Why points were left out</h2><p>Reasons that differ in numbers alone are counted together; the first is "
        f'shown.</p><table><tr><th class="text">reason</th><th>points</th></tr>{rows}</table>'
    )


def _energy(head: Mapping[str, Any]) -> str:
    given = head["energy"]
    rows = "".join(
        f'<tr><td>{row["action"]}</td><td>{row["pj"]:g}</td><td class="text">{in_html(row["what"])}</td></tr>'
        for row in given["pj"]
    )
    sources = "".join(f"<li>{in_html(line)}</li>" for line in given["sources"])
    return (
        f"<h2>Energy table</h2><details><summary>Picojoules per action of the base Config, and their sources "
        f"({in_html(given['table'])})</summary><p>Not fitted to a board and not measured on one; totals are "
        f"expected within a factor of {given['uncertainty']:g}. Processor, board and idle DRAM are left out.</p>"
        f'<table><tr><th>action</th><th>pJ</th><th class="text">one is</th></tr>{rows}</table>'
        f"<ul>{sources}</ul></details>"
    )
