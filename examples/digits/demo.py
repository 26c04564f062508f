"""Run the bundled digits network on the simulated accelerator and show what happened.

    python examples/digits/demo.py [--config NAME|FILE] [--html FILE]

Compiles digits.onnx, runs the held-out images, and prints the accuracy, the comparison with ONNX Runtime,
the cycles and a picture of what the four engines did during one inference. The HTML file holds the same
picture to zoom into. Exits with 1 if any integer differs from ONNX Runtime's, with 2 on an error.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.errors import TilewrightError
from tilewright.isa.spec import Engine
from tilewright.runtime.activity import Activity
from tilewright.runtime.report.console import print_report
from tilewright.runtime.report.report import Report

HERE = Path(__file__).resolve().parent
SHADES = " ▁▂▃▄▅▆▇█"  #: a cell's height is the share of its cycles in which the engine works
COLOURS = ("green", "yellow", "cyan", "magenta", "blue", "red")
PLAIN_WIDTH = 110  #: columns where the output is no terminal
MARGIN = 8  #: columns for an engine's name


def expected_outputs(x: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """What ONNX Runtime computes; None where it is not installed."""
    if find_spec("onnxruntime") is None:
        return None
    return reference_outputs(HERE / "digits.onnx", [x])[0]


def run_with_progress(exe: Any, x: NDArray[np.uint8], console: Console) -> tuple[NDArray[np.uint8], Report]:
    """Run all images on the device under a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("running on the simulator", total=len(x))
        y, report = exe.run(x, progress=lambda finished: bar.advance(task, finished))
    return y, report


def cycles_worked(begin: NDArray[np.int64], end: NDArray[np.int64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cycles of the spans ``[begin, end)`` (ascending, without overlap) inside each cell between ``edges``."""
    times = np.stack([begin, end], axis=1).ravel()
    worked = np.stack([np.zeros_like(begin), end - begin], axis=1).ravel().cumsum()
    return np.diff(np.interp(edges, times, worked)) if times.size else np.zeros(len(edges) - 1)


def engine_row(activity: Activity, engine: Engine, width: int) -> Text:
    """One engine over time: height says how busy a cell is, colour which layer it mostly works for."""
    edges = np.linspace(0, activity.cycles, width + 1)
    members, begin, end = activity.spans(engine)
    layers = activity.layer[members]
    shares = np.stack(
        [cycles_worked(begin[layers == k], end[layers == k], edges) for k in range(int(activity.layer.max()) + 1)]
    )
    height = np.ceil(shares.sum(0) / (edges[1] - edges[0]) * (len(SHADES) - 1) - 1e-9).astype(int)
    row = Text(f"{engine.name:>{MARGIN - 2}}  ")
    for level, layer in zip(height.clip(0, len(SHADES) - 1), shares.argmax(0), strict=True):
        row.append(SHADES[level], COLOURS[layer % len(COLOURS)])
    return row


def legend(names: list[str], width: int) -> list[Text]:
    """Each layer's colour and name, as many to a line as fit."""
    lines = [Text(" " * MARGIN)]
    for index, name in enumerate(names):
        if len(lines[-1]) > MARGIN and len(lines[-1]) + len(name) + 2 > width:
            lines.append(Text(" " * MARGIN))
        lines[-1].append("■ ", COLOURS[index % len(COLOURS)]).append(f"{name}  ")
    return lines


def timeline(report: Report, width: int) -> list[Text]:
    """The engines of every program during one inference, ``width`` columns wide; empty without events."""
    lines = []
    for run in report.runs:
        if run.activity is None:
            continue
        lines += [engine_row(run.activity, engine, width - MARGIN) for engine in Engine]
        last = f"{run.activity.cycles:,} cycles"
        lines.append(Text(" " * MARGIN + "0" + last.rjust(width - MARGIN - 1)))
        lines += legend([layer["name"] for layer in run.layers], width)
    return lines


def show(report: Report, y: NDArray[np.uint8], labels: NDArray[np.uint8], expected: Any, console: Console) -> bool:
    """Print the whole result; returns whether every integer equals ONNX Runtime's (or there is none to compare)."""
    print_report(report, console)
    right = int((y.argmax(1) == labels).sum())
    console.print(f"accuracy  {right} of {len(labels)} held-out digits ({right / len(labels):.2%})", highlight=False)
    equal = True
    if expected is None:
        console.print("   exact  not checked: onnxruntime is not installed (pip install onnxruntime)")
    else:
        same, equal = int((y == expected).sum()), bool((y == expected).all())
        verdict = "all equal to ONNX Runtime" if equal else "NOT all equal to ONNX Runtime"
        console.print(f"   exact  {same:,} of {y.size:,} output integers: {verdict}", highlight=False)
    console.print("\nWhat the engines do during one inference:")
    for line in timeline(report, min(console.width, PLAIN_WIDTH)):
        console.print(line, soft_wrap=True)
    return equal


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the bundled digits network on the simulated accelerator.")
    parser.add_argument("--config", default="pynq-z2", help="a preset's name or a TOML file (default: pynq-z2)")
    parser.add_argument("--html", type=Path, default=HERE / "out" / "report.html", help="where the HTML report goes")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    try:
        with np.load(HERE / "digits_test.npz") as data:
            x, labels = data["x"], data["labels"]
        what = f"compiling digits.onnx for {escape(options.config)} (the first time also the compiler's own kernels)"
        with console.status(what):
            exe = tw.compile(HERE / "digits.onnx", config=options.config)
        y, report = run_with_progress(exe, x, console)
        equal = show(report, y, labels, expected_outputs(x), console)
        try:
            options.html.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TilewrightError(
                f"cannot make {options.html.parent}: {error.strerror}; choose another --html"
            ) from error
        report.save_html(options.html)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console.print(f"\nTo zoom in, with the roofline and every layer: {options.html}", soft_wrap=True, highlight=False)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
