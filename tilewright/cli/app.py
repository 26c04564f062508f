"""The ``tilewright`` command. Errors are one line on the error stream and exit code 2, 130 for an interruption."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tilewright import __version__
from tilewright.board import EXTRAS, needs
from tilewright.cli import caches, compare, compile, explore, hw, isa, models, quantize, run, sim
from tilewright.cli.paths import guarded
from tilewright.errors import TilewrightError
from tilewright.interrupts import EXIT_INTERRUPTED, MESSAGE
from tilewright.printable import complain, one_line, open_streams, output_failed, say

__all__ = ["app", "main"]

EXIT_ERROR = 2
_verbose = False  #: whether the option of this name was given
#: the board has these commands too, in argparse: options and help are passed on
PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

#: wrong options and arguments; Typer has its own copy of click in some versions, so the class is taken from Typer
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="tilewright",
    help="Run int8 networks on the Tilewright accelerator: compile, simulate, inspect.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("run", run.run, "run resnet8.tflite --input x.npy --output y.npy --check --html report.html"),
    ("compile", compile.compile_model, "compile resnet8.tflite --config pynq-z2 -o resnet8.twa"),
    ("inspect", compile.inspect, "inspect resnet8.tflite"),
    ("compare", compare.compare, "compare baseline.json report.json --most 1 --markdown summary.md"),
    ("quantize", quantize.quantize, "quantize float.onnx --data images.npy --labels labels.npy -o int8.onnx"),
    ("asm", isa.assemble_file, "asm copy.s -o copy.twp"),
    ("disasm", isa.disassemble_file, "disasm copy.twp -o copy.s"),
    ("verify", isa.verify_file, "verify copy.twp"),
    ("sim", sim.simulate_file, "sim matmul.s --input a=a.npy --input b=b.npy --output c=c.npy --html page.html"),
    ("explore", explore.explore,
     "explore resnet8.tflite kws.tflite=3 --board pynq-z2 --trials 300 -o explored"),
)  # fmt: skip
GROUPS: tuple[tuple[str, str, tuple[tuple[str, Callable[..., None], str], ...]], ...] = (
    ("models", "List and download the networks that the README quotes.",
     (("list", models.list_models, ""), ("fetch", models.fetch, "resnet8_cifar10 --directory models"))),
    ("config", "Accelerator configurations: the presets, and .toml files.",
     (("list", isa.list_configs, ""), ("show", isa.show_config, "pynq-z2 > mine.toml"))),
    ("cache", "What is kept to be faster next time: size, and removal.",
     (("info", caches.info, ""), ("clear", caches.clear, "kernels"))),
    ("hw", "The accelerator as Verilog.", (("verilog", hw.verilog, "--config ultra96 -o build/rtl"),)),
)  # fmt: skip


def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name, _function, _example in COMMANDS:
    app.command(_name, epilog=f"Example: tilewright {_example}")(guarded(_function))
for _group, _help, _members in GROUPS:
    _part = typer.Typer(help=_help, callback=_help_alone, invoke_without_command=True, rich_markup_mode=None)
    for _name, _function, _example in _members:
        _part.command(_name, epilog=f"Example: tilewright {_group} {_name} {_example}".strip())(guarded(_function))
    app.add_typer(_part, name=_group)


@app.command(context_settings=PASS_ON, add_help_option=False)
def serve(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Let other machines run programs on this accelerator."""
    from tilewright.runtime.serve import main

    raise typer.Exit(main(arguments or []))


@app.command(context_settings=PASS_ON, add_help_option=False)
def selftest(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Check board, overlay and driver, and say what is wrong."""
    from tilewright.runtime.selftest.command import main

    raise typer.Exit(main(arguments or []))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run int8 networks on the Tilewright accelerator: compile, simulate, inspect."""
    global _verbose
    _verbose = verbose
    _help_alone(context)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 (``--check`` found a difference), 2 (an error) or 130
    (interrupted)."""
    global _verbose
    _verbose = False
    open_streams()
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return _main(arguments)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """A warning for the user as a line of ours; any other as Python has it."""
    if issubclass(category, UserWarning):
        complain(f"warning: {message}")
    else:
        say(warnings.formatwarning(message, category, filename, lineno, line), sys.stderr)


def _main(arguments: list[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            result = app(args=arguments, prog_name="tilewright", standalone_mode=False)
            code = result if isinstance(result, int) else 0
        except typer.Exit as request:
            code = int(request.exit_code)
        except SystemExit as request:  # argparse's --help; with 1, Typer's word for an output that nobody reads
            code = EXIT_ERROR if request.code else 0
        if code == EXIT_INTERRUPTED:  # Typer says so itself
            raise KeyboardInterrupt
        sys.stdout.flush()  # here, where a disk that is full is an error like others
        return code
    except TilewrightError as error:
        code = EXIT_INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else EXIT_ERROR
        before = "".join(traceback.format_exception(error)) if _verbose else ""
        before += "".join(f"{one_line(line)}\n" for line in error.details)
        return _fail(str(error.args[0]) if error.details else str(error), code, before)
    except _UsageError as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _fail(f"{message.rstrip('.')}; {_where_to_look(error)}")
    except (KeyboardInterrupt, typer.Abort):
        return _fail(MESSAGE, EXIT_INTERRUPTED)
    except MemoryError:
        return _fail("there is not enough memory for this")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tilewright":
            raise
        return _fail(needs(next((a for a in given if a in EXTRAS), "this"), f"packages ({error.name})"))
    except OSError as error:
        line = output_failed(error)
        return EXIT_ERROR if line is None else _fail(line)


def _where_to_look(error: Exception) -> str:
    """Whose ``--help`` says what the command line should have been."""
    context = getattr(error, "ctx", None)
    if context is None or hasattr(context.command, "commands"):
        return f"{context.command_path if context else 'tilewright'} --help lists the commands"
    return f"{context.command_path} --help shows how it is used"


def _fail(message: str, code: int = EXIT_ERROR, before: str = "") -> int:
    complain(message, before)
    return code


if __name__ == "__main__":
    sys.exit(main())
