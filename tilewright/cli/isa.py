"""``tilewright config``, ``asm``, ``disasm`` and ``verify``: configs and programs as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright.config_text import listing, shown
from tilewright.errors import TilewrightError
from tilewright.files import read_bytes, write_atomic
from tilewright.isa import container
from tilewright.isa.assembler import assemble
from tilewright.isa.codec import EncodingError
from tilewright.isa.disassembler import disassemble
from tilewright.isa.program import Program
from tilewright.isa.verifier import VerifyError, verify

ProgramFile = Annotated[Path, typer.Argument(metavar="P.twp", help="A program file.")]


class SourceError(TilewrightError):
    """An assembly file is not text."""


def list_configs() -> None:
    """List the presets with their main parameters."""
    typer.echo(listing(), nl=False)


def show_config(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A preset or a .toml file.")] = "pynq-z2",
) -> None:
    """Print a configuration as TOML, every parameter."""
    typer.echo(shown(name), nl=False)


def assemble_file(
    source: Annotated[Path, typer.Argument(metavar="FILE.s", help="Assembly text.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="P.twp", help="Program file to write.")],
) -> None:
    """Assemble text to a program file. The program need not be legal: see verify."""
    data = read_bytes(source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"{source}: not UTF-8 text at byte {error.start}; give an assembly file") from error
    program = assemble(text, str(source))
    write_atomic(output, container.dump(program))
    typer.echo(f"{output}: {_contents(program)}")


def disassemble_file(
    program: ProgramFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.s", help="Text file to write; else print it.")
    ] = None,
) -> None:
    """Print a program as text; asm makes the same file of it."""
    try:
        text = disassemble(_read(program))
    except EncodingError as error:
        raise EncodingError(f"{program}: {error}") from error
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomic(output, text)


def verify_file(program: ProgramFile) -> None:
    """Check a program against every legality rule of docs/isa.md."""
    loaded = _read(program)
    try:
        verify(loaded)
    except VerifyError as error:
        raise VerifyError(error.rule, f"{program}: {error}", error.index) from error
    typer.echo(f"{program}: legal: {_contents(loaded)}")


def _read(path: Path) -> Program:
    return container.load(read_bytes(path), str(path))


def _contents(program: Program) -> str:
    return (
        f"{program.instruction_count} instructions, {len(program.segments)} segments, "
        f"config {program.config.name} ({program.config.fingerprint})"
    )
