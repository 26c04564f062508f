"""The report as one self-contained HTML file: totals, layer table, roofline, engine timeline. No outside links."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from tilewright.runtime.attribution import CAUSES
from tilewright.runtime.report_roofline import roofline_svg
from tilewright.runtime.report_run import TRACKS, ProgramRun, recorded_layers, spans

COLOURS = {
    "compute": "#2e9e5b", "padding": "#9bc53d", "half-pace": "#5f8f00", "load": "#e0a21b", "store": "#c2682a",
    "alu": "#3b82c4", "fetch": "#8b5fbf", "latency": "#c94f5d",
}  # fmt: skip


def render_html(data: dict[str, Any], runs: Sequence[ProgramRun]) -> str:
    """The whole page, of a report's JSON form and its programs."""
    title = html.escape(f"{data['model']} on {data['config']}")
    web = files("tilewright.runtime") / "web"
    css, script = (web / "report.css").read_text(), (web / "timeline.js").read_text()
    keys = "".join(f'<span class="key" style="background:{COLOURS[c]}"></span>{c}' for c in CAUSES)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: Tilewright report</title><style>{css}</style></head><body>
<h1>{title}</h1>
<p>Device {html.escape(data["device"])}, {data["inferences"]} inferences, {data["clock_mhz"]} MHz,
config {data["config_fingerprint"]}. All cycles and bytes are per inference.</p>
<div class="tiles">{_tiles(data)}</div>
<h2>Layers</h2>
<p>A layer's lower bound is the larger of its array cycles and the bytes it must read, or write, over the bus width.
The bar shows where its cycles went: {keys}</p>
<div class="scroll"><table>{_table(data)}</table></div>
<h2>Roofline</h2>
<p>Each dot is a layer; its area is its share of the cycles, its colour what bounds it.</p>
{roofline_svg(data, COLOURS)}
<h2>Engine timeline</h2>
<p>Zoom with the wheel or + and -, pan by dragging or with the arrow keys, 0 shows everything.
<button id="zoom-in">Zoom in</button> <button id="zoom-out">Zoom out</button> <button id="zoom-all">All</button></p>
<canvas id="timeline" tabindex="0" role="img" aria-label="What each engine did over time"></canvas>
<div id="hint"></div>
<script type="application/json" id="timeline-data">{_script_json(timeline_data(data, runs))}</script>
<script>{script}</script>
</body></html>
"""


def _tiles(data: dict[str, Any]) -> str:
    values = [("not counted", "cycles")]
    if data["cycles"] is not None:
        values = [
            (f"{data['cycles']:,}", "cycles"),
            (f"{data['floor_ratio']:.2f}x", "cycles / lower bound"),
            (f"{data['utilization']:.1%}", f"of {data['array_macs_per_cycle']} MACs/cycle"),
            (f"{data['latency_ms']:.3f} ms", "per inference"),
        ]
    values += [
        (f"{data['floor_cycles']:,}", "lower bound"),
        (f"{data['macs']:,}", "MACs"),
        (f"{data['dram_read_bytes']:,}", "bytes read"),
        (f"{data['dram_write_bytes']:,}", "bytes written"),
        (f"{data['instructions']:,}", "instructions"),
        *((f"{engine['share']:.0%}", f"{name} busy") for name, engine in data["engines"].items()),
    ]
    return "".join(f'<div class="tile"><b>{value}</b><span>{html.escape(text)}</span></div>' for value, text in values)


def _table(data: dict[str, Any]) -> str:
    head = (
        "<tr><th>layer</th><th>op</th><th>place</th>"
        + "".join(f'<th class="n">{t}</th>' for t in ("cycles", "lower bound", "ratio", "MACs", "utilisation"))
        + "<th>bound</th><th>cycles by cause</th></tr>"
    )
    return head + "".join(_row(layer) for layer in data["layers"])


def _row(layer: dict[str, Any]) -> str:
    name = f"<tr><td>{html.escape(layer['name'])}</td><td>{html.escape(layer['op'])}</td><td>{layer['place']}</td>"
    if layer["place"] != "accelerator" or layer["cycles"] is None:
        reason = html.escape(str(layer.get("reason", "")))
        return name + f'<td class="n">-</td>{"<td></td>" * 5}<td>{reason}</td></tr>'
    causes = layer["cycles_by_cause"]
    total = max(1, sum(causes.values()))
    bar = "".join(
        f'<i style="width:{100 * n / total:.1f}%;background:{COLOURS[cause]}" title="{cause}: {n:,} cycles"></i>'
        for cause, n in causes.items()
        if n
    )
    numbers = (
        f"{layer['cycles']:,}", f"{layer['floor_cycles']:,}",
        f"{layer['floor_ratio']:.2f}" if layer["floor_cycles"] else "-",
        f"{layer['macs']:,}", f"{layer['utilization']:.1%}" if layer["macs"] else "-",
    )  # fmt: skip
    cells = "".join(f'<td class="n">{n}</td>' for n in numbers)
    return name + cells + f'<td>{layer["bound"]}</td><td><div class="bar">{bar}</div></td></tr>'


def timeline_data(data: dict[str, Any], runs: Sequence[ProgramRun]) -> dict[str, Any]:
    """What the timeline draws: per track, spans ``[begin, end, layer, instruction, opcode]`` in order of time."""
    tracks: list[list[list[Any]]] = [[] for _ in TRACKS]
    for span in spans(runs):
        tracks[span.track].append([span.begin, span.end, span.layer, span.instruction, span.opcode])
    named = [{"name": name, "spans": found} for name, found in zip(TRACKS, tracks)]
    return {
        "cycles": data["cycles"] or 0,
        "layers": [layer["name"] for layer in recorded_layers(runs)],
        "tracks": named,
    }


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
