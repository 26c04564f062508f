"""The ``tilewright`` command. Errors are one line on the error stream and exit code 2."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tilewright import __version__
from tilewright.cli import compile, explore, fuzz, hw, isa, models, run, selftest, serve
from tilewright.errors import TilewrightError

__all__ = ["app", "main"]

EXIT_ERROR = 2

#: wrong options and arguments; Typer has its own copy of click in some versions, so the class is taken from Typer
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="tilewright",
    help="Run int8 networks on the Tilewright accelerator: compile, simulate, inspect.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (run, compile, models, isa, hw, explore, fuzz, serve, selftest):
    part.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run int8 networks on the Tilewright accelerator: compile, simulate, inspect."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 (``--check`` found a difference) or 2 (an error)."""
    try:
        result = app(args=arguments, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TilewrightError as error:
        return _fail(str(error))
    except _UsageError as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _fail(f"{message}; tilewright --help lists the commands")
    except typer.Exit as request:
        return int(request.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted")
    except BrokenPipeError:
        # the reader of our output has gone, e.g. `| head`: not worth a message, and none may follow at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR


def _fail(message: str) -> int:
    print(f"tilewright: {' '.join(message.split())}", file=sys.stderr)
    return EXIT_ERROR


if __name__ == "__main__":
    sys.exit(main())
