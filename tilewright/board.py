"""The ``tilewright`` command on a board: run, serve and selftest, with nothing installed but NumPy and pynq.

Where Typer is installed, ``tilewright.cli`` is the command, and has these among its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tilewright.arrays import load_array, save_array
from tilewright.errors import TilewrightError
from tilewright.files import check_writable
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.report import Report

__all__ = ["main"]

USAGE = """usage: tilewright {run,serve,selftest} ...

  run A.twa    run a compiled network on this board
  serve        let other machines run programs on it
  selftest     check board, overlay and driver, step by step

Each has --help. Compiling and simulating need more: pip install 'tilewright[compile]', on a PC.
Example: tilewright run A.twa --overlay pynq-z2.bit --input x.npy --output y.npy
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 (selftest failed) or 2 (an error, in one line)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = (given[0], given[1:]) if given else ("--help", [])
    if name in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if name not in _COMMANDS:
        return _fail(f"{name}: no such command here; tilewright --help lists them")
    try:
        return _COMMANDS[name](rest)
    except TilewrightError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted")


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tilewright run", description="Run a compiled network on this board.",
        epilog="Example: tilewright run A.twa --overlay pynq-z2.bit --input x.npy --output y.npy",
    )  # fmt: skip
    parser.add_argument("artifact", type=Path, metavar="A.twa", help="made by tilewright compile")
    parser.add_argument("--device", default="pynq", help="what runs the program (default: pynq)")
    parser.add_argument("--overlay", type=Path, help="the .bit file, or a folder of one")
    parser.add_argument("--input", type=Path, required=True, metavar="X.npy", help="N inputs stacked on axis 0")
    parser.add_argument("--output", type=Path, metavar="Y.npy", help="write the N outputs")
    parser.add_argument("--report", type=Path, metavar="R.json", help="write the report")
    options = parser.parse_args(arguments)
    for path in (options.output, options.report):
        if path is not None:
            check_writable(path)
    artifact, x = Artifact.load(options.artifact), load_array(options.input)
    given = {} if options.overlay is None else {"overlay": options.overlay}
    device = open_device(options.device, artifact.config, **given)
    try:
        y, report = Executable(artifact, device).run(x)
    finally:
        device.close()
    if options.output is not None:
        outputs = y if isinstance(y, list) else [y]
        for k, value in enumerate(outputs):
            name = options.output if len(outputs) == 1 else options.output.with_stem(f"{options.output.stem}.{k}")
            save_array(name, np.asarray(value))
    if options.report is not None:
        report.save_json(options.report)
    print(_summary(report))
    return 0


def _summary(report: Report) -> str:
    took = f"{report.cycles:,} cycles ({report.to_dict()['latency_ms']:.3f} ms) each" if report.cycles else "no cycles"
    return f"{report.artifact.name}: {report.inferences} inferences on {report.device}, {took}"


def _serve(arguments: list[str]) -> int:
    from tilewright.runtime.remote.command import main as serve

    return serve(arguments)


def _selftest(arguments: list[str]) -> int:
    from tilewright.runtime.selftest import main as selftest

    return selftest(arguments)


def _fail(message: str) -> int:
    print(f"tilewright: {' '.join(message.split())}", file=sys.stderr)
    return 2


_COMMANDS: dict[str, Callable[[list[str]], int]] = {"run": _run, "serve": _serve, "selftest": _selftest}
