"""Draws the pictures of ``machine.md``: ``python docs/pictures.py``. The timeline is one of the simulator's."""

from __future__ import annotations

from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d")
BOX, DARK = "#eef2f7", "#222"


def svg(width: int, height: int, *parts: str) -> str:
    """A picture on white, readable on dark pages too."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="13"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{DARK}"/></marker></defs>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def box(x: float, y: float, w: float, h: float, *lines: str, fill: str = BOX) -> str:
    """A box with centred lines, the first of them bold."""
    top = y + h / 2 - 8 * (len(lines) - 1) + 5
    words = [text(x + w / 2, top + 16 * k, line, bold=k == 0, middle=True) for k, line in enumerate(lines)]
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="4" fill="{fill}" stroke="{DARK}"/>' + "".join(words)


def text(x: float, y: float, what: str, *, bold: bool = False, middle: bool = False) -> str:
    """A line of words."""
    style = (' font-weight="bold"' if bold else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x}" y="{y}" fill="{DARK}"{style}>{escape(what)}</text>'


def arrow(*points: tuple[float, float], dashed: bool = False) -> str:
    """A line through points, with a tip at its end."""
    path = " ".join(f"{x},{y}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{DARK}" stroke-width="1.5" marker-end="url(#tip)"{dash}/>'


def blocks() -> str:
    """Engines, memories, and what flows between them."""
    return svg(
        760, 400,
        box(10, 20, 70, 340, "DRAM"),
        box(130, 20, 150, 60, "fetch, dispatch", "instructions", fill="#fff"),
        box(130, 130, 110, 60, "LOAD", fill="#d9e8f6"), box(130, 300, 110, 60, "STORE", fill="#d9e8f6"),
        box(300, 110, 130, 46, "wgt", "weights"), box(300, 166, 130, 46, "act", "int8 rows, in rings"),
        box(300, 222, 130, 46, "prm, table", "scales, functions"),
        box(490, 110, 110, 102, "GEMM", "BLOCK_IN x", "BLOCK_OUT", fill="#d9e8f6"),
        box(640, 110, 100, 102, "acc", "int32 sums"),
        box(490, 290, 110, 80, "ALU", "add, max, ...", "rescale", fill="#d9e8f6"),
        arrow((80, 50), (130, 50)), arrow((80, 160), (130, 160)), arrow((130, 330), (80, 330)),
        arrow((240, 145), (300, 133)), arrow((240, 160), (300, 185)), arrow((240, 175), (300, 240)),
        arrow((430, 133), (490, 133)), arrow((430, 189), (490, 189)), arrow((600, 160), (640, 160)),
        arrow((690, 212), (690, 320), (600, 320)), arrow((600, 345), (715, 345), (715, 212)),
        arrow((430, 250), (460, 250), (460, 312), (490, 312)),
        arrow((490, 345), (365, 345), (365, 280), (450, 280), (450, 200), (430, 200)),
        arrow((300, 205), (270, 205), (270, 330), (240, 330)),
        arrow((280, 50), (545, 50), (545, 110), dashed=True), arrow((205, 80), (205, 130), dashed=True),
        text(300, 42, "dashed: commands, to the queues of all four engines"),
        text(470, 390, "ALU reads acc and act, writes acc and act"),
    )  # fmt: skip


def tokens() -> str:
    """Three rows: who waits for whom."""
    rows = {"LOAD": 60, "GEMM": 120, "ALU": 180, "STORE": 240}
    spans = (
        ("LOAD", 80, 100, 0), ("LOAD", 184, 100, 1), ("GEMM", 190, 110, 0), ("GEMM", 306, 110, 1),
        ("LOAD", 310, 100, 2), ("ALU", 310, 70, 0), ("ALU", 426, 70, 1), ("STORE", 390, 80, 0), ("STORE", 506, 80, 1),
        ("GEMM", 422, 110, 2), ("ALU", 542, 70, 2), ("STORE", 622, 80, 2),
    )  # fmt: skip
    names = ("row 1", "row 2", "row 3")
    parts = [text(10, y + 22, name, bold=True) for name, y in rows.items()]
    parts += [box(x, rows[engine], w, 34, names[k], fill=COLOURS[k] + "66") for engine, x, w, k in spans]
    parts += [
        arrow((x + w, rows[a] + 34), (x + w + 8, rows[b]))
        for (a, x, w, k) in spans
        for b in [{"LOAD": "GEMM", "GEMM": "ALU", "ALU": "STORE"}.get(a)]
        if b is not None
    ]
    parts += [
        arrow((300, 120), (312, 96), dashed=True),
        text(80, 30, "solid: a token says that data is there; dashed: that its place is free again"),
        text(80, 300, "time: what no token orders runs at once"),
    ]
    return svg(760, 320, *parts)


def ring() -> str:
    """A tensor of eight rows in a ring of four."""
    parts = [
        text(20, 24, "the tensor, row by row", bold=True),
        text(250, 24, "its ring in act: 4 rows of 6 pixels, padding included", bold=True),
    ]
    for row in range(8):
        state = "#e6e6e6" if row < 3 else COLOURS[2] + "55" if row < 7 else "#fff"
        parts.append(box(20, 36 + 30 * row, 150, 26, f"row {row}", fill=state))
    for slot, row in enumerate((4, 5, 6, 3)):
        y = 66 + 44 * slot
        parts.append(text(250, y + 22, f"slot {slot}"))
        parts += [
            box(
                310 + 46 * k,
                y,
                42,
                34,
                "0" if k in (0, 5) else f"{row}.{k - 1}",
                fill="#fff3c4" if k in (0, 5) else COLOURS[2] + "55",
            )
            for k in range(6)
        ]
    parts += [
        text(600, 110, "a 3x3 kernel reads rows 3, 4, 5:"),
        text(600, 128, "slot 3, then it wraps to 0, 1"),
        text(600, 172, "row 6 is being written"),
        text(600, 216, "row 7 waits until nobody"),
        text(600, 234, "reads row 3 any more"),
        text(250, 262, "grey: read by all, gone; white: to come; yellow: zeros, written once"),
        arrow((596, 215), (590, 215)),
    ]
    return svg(860, 290, *parts)


def timeline() -> str:
    """The engines during one inference of the digits network."""
    import numpy as np

    import tilewright as tw
    from tilewright.isa.spec import Engine

    images = np.load(HERE.parent / "examples" / "digits" / "digits_test.npz")["x"]
    _, report = tw.compile(HERE.parent / "examples" / "digits" / "digits.onnx").run(images[:1])
    run = report.runs[0]
    assert run.activity is not None
    scale, left = 660 / run.activity.cycles, 70
    parts = []
    began: dict[tuple[Engine, int], float] = {}  # when an engine first works for a layer
    for line, engine in enumerate(Engine):
        parts.append(text(10, 40 + 40 * line, engine.name, bold=True))
        members, begin, end = run.activity.spans(engine)
        for owner, b, e in zip(run.activity.layer[members], begin, end, strict=True):
            began.setdefault((engine, int(owner)), float(b))
            x, w = left + float(b) * scale, max(1.0, float(e - b) * scale)
            parts.append(
                f'<rect x="{x:.1f}" y="{22 + 40 * line}" width="{w:.1f}" height="26" fill="{COLOURS[owner]}"/>'
            )
    seen = [(Engine.LOAD, 1), (Engine.GEMM, 1), (Engine.GEMM, 2), (Engine.STORE, len(run.layers) - 1)]
    for mark, cycle in zip("ABCDE", [0.0, *(began[each] for each in seen)], strict=True):
        x = left + cycle * scale
        parts.append(f'<line x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="178" stroke="{DARK}" stroke-dasharray="3 3"/>')
        parts.append(text(x - 4, 12, mark, bold=True))
    for k, layer in enumerate(run.layers):
        x, y = 70 + 165 * (k % 4), 200 + 20 * (k // 4)
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="{COLOURS[k]}"/>' + text(x + 16, y, layer["name"])
        )
    return svg(760, 235, *parts)


if __name__ == "__main__":
    for draw in (blocks, tokens, ring, timeline):
        (HERE / "pictures" / f"{draw.__name__}.svg").write_text(draw())
