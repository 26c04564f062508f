"""``tilewright config``, ``asm``, ``disasm`` and ``verify``: configs and programs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import READ, WRITTEN
from tilewright.cli.programs import ProgramFile, ProgramOrText, contents, read_legal, read_program
from tilewright.config_text import listing, shown
from tilewright.files import check_writable, read_text, write_atomic
from tilewright.isa import container
from tilewright.isa.assembler import assemble_places
from tilewright.isa.codec import EncodingError
from tilewright.isa.disassembler import disassemble
from tilewright.printable import say, write_out


def list_configs() -> None:
    """List the presets with their main parameters."""
    write_out(listing())


def show_config(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A preset or a .toml file."), READ] = "pynq-z2",
) -> None:
    """Print a configuration as TOML, every parameter."""
    write_out(shown(name))


def assemble_file(
    source: Annotated[Path, typer.Argument(metavar="FILE.s", help="Assembly text."), READ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="P.twp", help="Program file to write."), WRITTEN],
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="Place the tokens, and WAITs where they are needed; drop those in the text."),
    ] = False,
) -> None:
    """Assemble text to a program file. The program need not be legal: see verify."""
    check_writable(output)
    program, places = assemble_places(read_text(source), str(source))
    if tokens:
        from tilewright.isa.tokens.place import place_tokens

        program = place_tokens(program, str(source), places)
    write_atomic(output, container.dump(program))
    say(f"{output}: {contents(program)}")


def disassemble_file(
    program: ProgramFile,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.s", help="Text file to write; else print it."),
        WRITTEN,
    ] = None,
) -> None:
    """Print a program as text; asm makes the same file of it."""
    if output is not None:
        check_writable(output)
    try:
        text = disassemble(read_program(program))
    except EncodingError as error:
        raise EncodingError(f"{program}: {error}") from error
    if output is None:
        write_out(text)
    else:
        write_atomic(output, text)


def verify_file(program: ProgramOrText) -> None:
    """Check a program against all rules of the instruction set.

    It lists every rule of docs/isa.md that the program breaks, with the way out.
    """
    loaded = read_legal(program)
    say(f"{program}: legal: {contents(loaded)}")
