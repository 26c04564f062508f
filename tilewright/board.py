"""The ``tilewright`` command on a board: run, serve and selftest, with nothing installed but NumPy and pynq.

Where Typer is installed, ``tilewright.cli`` is the command, and has these among its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright import __version__
from tilewright.arguments import Parser, refuse_vain
from tilewright.arrays import load_inputs, save_outputs
from tilewright.config_text import listing, shown
from tilewright.errors import TilewrightError
from tilewright.files import check_writable, inputs_kept, together
from tilewright.interrupts import EXIT_INTERRUPTED, MESSAGE
from tilewright.printable import complain, open_streams, output_failed, say, write_out
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.report import Report

__all__ = ["EXTRAS", "main", "needs"]

#: what the commands need that are not the board's, as pip names it
EXTRAS = dict.fromkeys(
    ("compile", "inspect", "compare", "asm", "disasm", "verify", "sim", "models", "cache"), "compile"
) | {"quantize": "quantize", "explore": "compile,explore", "hw": "compile,rtl"}  # fmt: skip

MODELS = (".tflite", ".onnx", ".pt2")  #: files that want a compiler

USAGE = """usage: tilewright {run,serve,selftest,config} ...

  run A.twa             run a compiled network on this board
  serve                 let other machines run programs on it
  selftest              check board, overlay and driver, step by step
  config list           the presets
  config show NAME      one of them, or a .toml file, every parameter
  --version             the version

Each of the first three has --help. The other commands need more, on a PC:
  compile, inspect, compare, asm, disasm, verify, sim, models, cache:
             pip install 'tilewright[compile]'
  quantize:  pip install 'tilewright[quantize]'
  explore:   pip install 'tilewright[compile,explore]'
  hw:        pip install 'tilewright[compile,rtl]'
Example: tilewright run A.twa --overlay pynq-z2.bit --input x.npy --output y.npy
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 (selftest failed), 2 (an error, in one line) or 130."""
    open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = (given[0], given[1:]) if given else ("--help", [])
    if name in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if name == "--version":
        print(f"tilewright {__version__}")
        return 0
    if name in EXTRAS:
        return _fail(needs(name, "packages"))
    if name not in _COMMANDS:
        return _fail(f"{name}: no such command here; tilewright --help lists them")
    try:
        try:
            code = _COMMANDS[name](rest)
        except SystemExit as request:  # argparse's --help
            code = 2 if request.code else 0
        sys.stdout.flush()
        return code
    except OSError as error:
        line = output_failed(error)
        return 2 if line is None else _fail(line)
    except TilewrightError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail(MESSAGE, EXIT_INTERRUPTED)


def needs(command: str, what: str) -> str:
    """What to install for a command of the full command line; ``what`` is missing for it."""
    return f"{command}: needs {what} that are not installed: pip install 'tilewright[{EXTRAS.get(command, 'compile')}]'"


def _config(arguments: list[str]) -> int:
    if arguments == ["list"]:
        write_out(listing())
    elif arguments[:1] == ["show"] and len(arguments) < 3:
        write_out(shown(*arguments[1:] or ["pynq-z2"]))
    else:
        return _fail("config: list, or show NAME|FILE.toml")
    return 0


def _run(arguments: list[str]) -> int:
    if any(argument.lower().endswith(MODELS) for argument in arguments):
        return _fail(needs("run of a model", "packages"))
    parser = Parser(
        prog="tilewright run", description="Run a compiled network on this board.",
        epilog="Example: tilewright run A.twa --overlay pynq-z2.bit --input x.npy --output y.npy",
    )  # fmt: skip
    parser.add_argument("artifact", type=Path, metavar="A.twa", help="made by tilewright compile")
    parser.add_argument("--device", default="pynq", help="what runs the program (default: pynq)")
    parser.add_argument("--overlay", type=Path, help="the .bit file, or a folder of one")
    parser.add_argument(
        "--input", type=Path, required=True, metavar="X.npy", help="N inputs stacked on axis 0, or .npz"
    )
    parser.add_argument("--output", type=Path, metavar="Y.npy", help="write the N outputs, or .npz")
    parser.add_argument("--report", type=Path, metavar="R.json", help="write the report")
    options = parser.parse_args(arguments)
    with inputs_kept([options.artifact, options.input]):
        return _run_with(options)


def _run_with(options: argparse.Namespace) -> int:
    refuse_vain((options.overlay, options.device == "pynq", "--overlay: only the pynq device has one; leave it out"))
    for path in (options.output, options.report):
        if path is not None:
            check_writable(path)
    artifact, x = Artifact.load(options.artifact), load_inputs(options.input)
    given = {} if options.overlay is None else {"overlay": options.overlay}
    device = open_device(options.device, artifact.config, **given)
    try:
        executable = Executable(artifact, device)
        y, report = executable.run(x)
    finally:
        device.close()
    with together():
        if options.output is not None:
            save_outputs(options.output, y, [tensor.name for tensor in executable.outputs])
        if options.report is not None:
            report.save_json(options.report)
    say(_summary(report))
    return 0


def _summary(report: Report) -> str:
    took = f"{report.cycles:,} cycles ({report.to_dict()['latency_ms']:.3f} ms) each" if report.cycles else "no cycles"
    return f"{report.artifact.name}: {report.inferences} inferences on {report.device}, {took}"


def _serve(arguments: list[str]) -> int:
    from tilewright.runtime.serve import main as serve

    return serve(arguments)


def _selftest(arguments: list[str]) -> int:
    from tilewright.runtime.selftest.command import main as selftest

    return selftest(arguments)


def _fail(message: str, code: int = 2) -> int:
    complain(message)
    return code


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": _run,
    "serve": _serve,
    "selftest": _selftest,
    "config": _config,
}
