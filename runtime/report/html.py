"""The report as one self-contained HTML file: totals, layer table, roofline, engine timeline. No outside links."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from tilewright.printable import in_html
from tilewright.runtime.report.memory import COLUMNS, memory_pictures
from tilewright.runtime.report.roofline import roofline_svg
from tilewright.runtime.report.run import RESOURCE, TRACKS, ProgramRun, recorded_layers, spans

COLOURS = {
    "compute": "#2e9e5b", "padding": "#9bc53d", "half-pace": "#5f8f00", "load": "#e0a21b", "store": "#c2682a",
    "alu": "#3b82c4", "fetch": "#8b5fbf", "latency": "#c94f5d",
}  # fmt: skip


#: cause -> what a cycle of it is
MEANING = (
    ("compute", "useful multiplications"),
    ("padding", "the array works on lanes, taps or pixels without values"),
    ("half-pace", "second cycles of results where two multiplies share a DSP slice"),
    ("load", "waiting for data from DRAM"),
    ("store", "waiting for data to reach DRAM"),
    ("alu", "waiting for ALU, or ALU at work for a layer without array work"),
    ("fetch", "waiting for the instruction"),
    ("latency", "pipelines and tokens"),
)
MOST_SPANS = 4000  #: of a track of the timeline that are drawn one by one
_IN_A_CELL = 8  #: layers that a notebook shows


def render_html(data: dict[str, Any], runs: Sequence[ProgramRun]) -> str:
    """The whole page, of a report's JSON form and its programs."""
    title = in_html(f"{data['model']} on {data['config']}")
    drawn = script_json(timeline_data(data, runs))
    web = files("tilewright.runtime") / "web"
    css, script = page_style((web / "report.css").read_text()), (web / "timeline.js").read_text()
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: Tilewright report</title><style>{css}</style></head><body>
<h1>{title}</h1>
<p>Device {in_html(data["device"])}, {counted(data["inferences"], "inference")}, {data["clock_mhz"]} MHz,
config {data["config_fingerprint"]}. All cycles, bytes and times are those of one inference.</p>
{tiles(_totals(data))}
{_more(data)}
{_host(data)}
{_summary(data)}
<h2>Layers on the accelerator</h2>
<p>A bar is as long as the layer's share of the slowest one, and shows where its cycles went. The lower bound of a layer
is what it must have of array, ALU or bus, less what was served while other layers had the array; ratio is cycles over
bound.</p>
<p>{legend()}</p>
<div class="scroll"><table>{_table(data)}</table></div>
{_on_the_cpu(data)}
{_listed("Measured when it was compiled", data["measured"])}
{_listed("Notes", data["notes"])}
<h2>Roofline</h2>
<p>Each circle is a layer; its area is its share of the cycles, its colour what bounds it. The roof is what array and
bus allow. Names are those of the largest circles, as far as there is room; the pointer shows the others.</p>
{roofline_svg(data, COLOURS)}
<h2>Engine timeline</h2>
<p>Zoom with the wheel or + and -, pan by dragging or with the arrow keys, 0 shows everything.
Colours are layers; the last
track is the layer that a cycle belongs to. <button id="zoom-in">Zoom in</button>
<button id="zoom-out">Zoom out</button> <button id="zoom-all">All</button></p>
<canvas id="timeline" tabindex="0" role="img" aria-label="What each engine did over time"></canvas>
<div id="hint" class="hint"></div>
<details open><summary>Layers by colour</summary><div id="layers"></div></details>
<h2>Memories over time</h2>
<p>Each memory with address 0 at the top, over the run from left to right, in the colours of the timeline: whose data
a part holds, from when it is written to when it is used last. White is free.</p>
<canvas id="memories" role="img" aria-label="Which layer holds which part of the on-chip memories when"></canvas>
<div id="memory-hint" class="hint"></div>
<script type="application/json" id="timeline-data">{drawn}</script>
<script>{script}</script>
</body></html>
"""


def page_style(own: str) -> str:
    """The style that all pages share, and a page's own."""
    return (files("tilewright.runtime") / "web" / "page.css").read_text() + own


def render_small(data: dict[str, Any]) -> str:
    """A piece of HTML for a notebook's cell: totals and the slowest layers, without script, in a few kilobytes."""
    title = in_html(f"{data['model']} on {data['config']} ({data['device']})")
    slowest = sorted(_measured(data), key=lambda layer: -layer["cycles"])[:_IN_A_CELL]
    rows = "".join(
        f"<tr><td>{in_html(_name(layer))}</td><td style='text-align:right'>{layer['cycles']:,}</td>"
        f"<td>{layer['bound']}</td><td style='text-align:left'>{in_html(layer['why'])}</td></tr>"
        for layer in slowest
    )
    tiles = ", ".join(f"<b>{value}</b> {in_html(text)}" for value, text in _totals(data)[:5])
    head = "<tr><th>slowest layers</th><th>cycles</th><th>bound</th><th style='text-align:left'>why</th></tr>"
    return f"<div><b>{title}</b><br>{tiles}{f'<table>{head}{rows}</table>' if rows else ''}</div>"


def counted(number: int, what: str) -> str:
    """A number of things: ``1 core``, ``2 cores``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def legend() -> str:
    """What each colour of a bar means."""
    parts = (
        f'<span class="key" style="background:{COLOURS[cause]}"></span><b>{cause}</b> {text}' for cause, text in MEANING
    )
    return "; ".join(parts) + "."


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Numbers, as HTML, and what each is, as text."""
    each = (f'<div class="tile"><b>{value}</b><span>{in_html(text)}</span></div>' for value, text in values)
    return f'<div class="tiles">{"".join(each)}</div>'


def _totals(data: dict[str, Any]) -> list[tuple[str, str]]:
    """What the page leads with: the accelerator's time and rate, the board's, and how near the bound it is."""
    if data["cycles"] is None:
        return [("not counted", "cycles"), (f"{data['lower_bound_cycles']:,}", "lower bound, cycles")]
    board = data["board"]
    known = board is not None and board["inferences_per_second"] is not None
    return [
        (f"{data['latency_ms']:.3f} ms", "an inference on the accelerator"),
        (f"{data['inferences_per_second']:,.0f}", f"a second on the accelerator, {counted(data['cores'], 'core')}"),
        *(
            [(f"{board['inferences_per_second']:,.0f}", f"a second on {board['name']} with host work, estimated")]
            if known
            else []
        ),
        (f"{data['cycles']:,}", f"cycles, {data['lower_bound_ratio']:.2f} times the lower bound"),
        (f"{data['utilization']:.1%}", f"useful of {data['array_macs_per_cycle']} MACs/cycle"),
    ]


def _more(data: dict[str, Any]) -> str:
    """The other totals, in a sentence."""
    busy = ", ".join(f"{name} {engine['share']:.0%}" for name, engine in data["engines"].items())
    return (
        f"<p>{data['macs']:,} MACs in {data['instructions']:,} instructions; {data['dram_read_bytes']:,} bytes read "
        f"from DRAM, {data['dram_write_bytes']:,} written{f'; engines busy: {busy}' if busy else ''}.</p>"
    )


def _host(data: dict[str, Any]) -> str:
    """How the estimate for the board comes about, and apart from it what the host took here."""
    board, said = data["board"], ""
    if board is not None and board["unknown"]:
        said = f"What {board['name']} takes with its host's work is not estimated: {board['unknown']}. "
    elif board is not None:
        said = (
            f"The host's work on {board['name']} is estimated: with the C runtime {board['host_instructions']:,} "
            f"instructions of its {board['processor']}, at {board['instructions_per_second'] / 1e9:g} G a second "
            f"{board['host_ms']:.3f} ms, and {board['latency_ms']:.3f} ms from input to output. No board has confirmed "
            "it. "
        )
    moved = data["pack_ms"] + data["unpack_ms"]
    return (
        f"<p>{in_html(said)}The machine that ran this took {moved:.3f} ms of an inference for packing and unpacking, "
        f"and {data['cpu_ms']:.3f} ms for operators on the CPU.</p>"
    )


def _summary(data: dict[str, Any]) -> str:
    """Where all cycles went, and which resource sets the lower bound."""
    causes = data["cycles_by_cause"]
    if not causes or not data["cycles"]:
        return ""
    what = max(data["lower_bounds"], key=data["lower_bounds"].__getitem__)
    needs = ", ".join(f"{RESOURCE[name]} {cycles:,}" for name, cycles in data["lower_bounds"].items())
    shares = ", ".join(
        f"{cause} {n / data['cycles']:.0%}" for cause, n in causes.items() if n >= 0.005 * data["cycles"]
    )
    return (
        f"<p>The layers need at least, in cycles: {needs}; so {RESOURCE[what]} sets the lower bound. "
        f"All cycles by cause: {shares}.</p>{_bar(causes, 100)}"
    )


def _measured(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [layer for layer in data["layers"] if layer["place"] == "accelerator" and layer["cycles"] is not None]


def _name(layer: dict[str, Any]) -> str:
    """What the model file calls it, as far as it says something: of fused names the last, without the folders."""
    title = str(layer.get("title", "")).split(";")[0]
    return "/".join(title.split("/")[-2:]) or str(layer["name"])


def _kind(layer: dict[str, Any]) -> str:
    """The operator type, without the number that the importer may put before it."""
    return str(layer["op"]).rpartition(" ")[2]


def _named(layer: dict[str, Any]) -> str:
    """The cell of a layer's name: what the model file calls it, and as the command line does."""
    own = layer["name"] if _kind(layer) in layer["name"] else f"{layer['name']} {_kind(layer)}"
    small = f"<br><small>{_broken(own)}</small>" if own != _name(layer) else ""
    return f'<td class="wrap" title="{in_html(str(layer.get("title", "")))}">{_broken(_name(layer))}{small}</td>'


def _broken(name: str) -> str:
    """A name that may be broken between its words, and nowhere else."""
    return "<wbr>".join(in_html(word) for word in re.split("(?<=[/_.;:])(?![/_.;:])", name))


def _table(data: dict[str, Any]) -> str:
    layers = [layer for layer in data["layers"] if layer["place"] == "accelerator"]
    most = max((layer["cycles"] or 0 for layer in layers), default=0)
    head = (
        "<tr><th>layer</th><th>shapes</th>"
        + "".join(f'<th class="n">{t}</th>' for t in ("cycles", "lower bound", "ratio", "MACs", "utilisation"))
        + "<th>bound</th><th>cycles by cause</th></tr>"
    )
    return head + "".join(_row(layer, most) for layer in layers)


def _row(layer: dict[str, Any], most: int) -> str:
    """A layer's numbers, and under them the reason as wide as the table: a last column would leave narrow windows."""
    name = f"<tr>{_named(layer)}<td class='shapes'>{_shapes(layer)}</td>"
    if layer["cycles"] is None:
        return name + f'<td class="n">-</td>{"<td></td>" * 6}</tr>'
    numbers = (
        f"{layer['cycles']:,}", f"{layer['lower_bound_cycles']:,}",
        f"{layer['lower_bound_ratio']:.2f}" if layer["lower_bound_cycles"] else "-",
        f"{layer['macs']:,}", f"{layer['utilization']:.1%}" if layer["useful"] else "-",
    )  # fmt: skip
    cells = "".join(f'<td class="n">{n}</td>' for n in numbers)
    bar = _bar(layer["cycles_by_cause"], 100 * layer["cycles"] / max(1, most))
    why = f'<tr class="why"><td colspan="9">{in_html(layer["why"])}</td></tr>'
    return f"{name}{cells}<td>{layer['bound']}</td><td>{bar}</td></tr>{why}"


def _shapes(layer: dict[str, Any]) -> str:
    def shown(shape: Sequence[int]) -> str:
        return "x".join(map(str, shape[1:] if len(shape) > 1 and shape[0] == 1 else shape))

    if not {"shape", "input_shapes", "weight_shape"} <= layer.keys():
        return ""
    given = ", ".join(map(shown, layer["input_shapes"]))
    weights = f"<br><small>weights {'x'.join(map(str, layer['weight_shape']))}</small>" if layer["weight_shape"] else ""
    return f"{given} &rarr; {shown(layer['shape'])}{weights}"


def _bar(causes: dict[str, int], width: float) -> str:
    """A bar of ``width`` percent of its room."""
    total = max(1, sum(causes.values()))
    parts = "".join(
        f'<i style="width:{100 * n / total:.2f}%;background:{COLOURS[cause]}" title="{cause}: {n:,} cycles"></i>'
        for cause, n in causes.items()
        if n
    )
    return f'<div class="bar"><div style="width:{width:.2f}%">{parts}</div></div>'


def _on_the_cpu(data: dict[str, Any]) -> str:
    """Operators that the accelerator does not run, and why: of the model file where it is known, with their MACs."""
    placed = [op for op in data["operators"] if op["place"] in ("host", "interpreter")]
    rows = placed or [layer for layer in data["layers"] if layer["place"] != "accelerator"]
    if not rows:
        return ""
    body = "".join(
        f'<tr>{_named(op)}<td>{in_html(_kind(op))}</td><td class="n">{op["macs"]:,}</td>'
        f'<td class="wrap">{in_html(str(op.get("reason", "")))}</td></tr>'
        for op in rows
    )
    return (
        '<h2>Operators on the CPU</h2><div class="scroll"><table>'
        '<tr><th>operator</th><th>op</th><th class="n">MACs</th><th>why</th></tr>'
        f"{body}</table></div>"
    )


def _listed(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{in_html(line)}</li>" for line in lines)
    return f"<h2>{title}</h2><ul>{items}</ul>" if lines else ""


def timeline_data(data: dict[str, Any], runs: Sequence[ProgramRun]) -> dict[str, Any]:
    """What the timeline draws: per track, spans ``[begin, end, layer, instruction, opcode]`` in order of time.

    Of tracks of more than :data:`MOST_SPANS`, neighbours of a layer that lie nearer together than one can see are one
    span, without instruction; the trace has them all.
    """
    tracks: list[list[list[Any]]] = [[] for _ in TRACKS]
    for span in spans(runs):
        tracks[span.track].append([span.begin, span.end, span.layer, span.instruction, span.opcode])
    near = (data["cycles"] or 0) // MOST_SPANS
    tracks = [track if len(track) <= MOST_SPANS else _joined(track, near) for track in tracks]
    named = [{"name": name, "spans": found} for name, found in zip(TRACKS, tracks)]
    return {
        "cycles": data["cycles"] or 0,
        "layers": [layer["name"] for layer in recorded_layers(runs)],
        "tracks": named,
        "columns": COLUMNS,
        "memories": memory_pictures(runs),
    }


def _joined(track: list[list[Any]], near: int) -> list[list[Any]]:
    found = [list(track[0])]
    for begin, end, layer, instruction, opcode in track[1:]:
        last = found[-1]
        if layer == last[2] and begin - last[1] <= near:
            last[1:] = [max(last[1], end), layer, -1, ""]
        else:
            found.append([begin, end, layer, instruction, opcode])
    return found


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
