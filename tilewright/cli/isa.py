"""``tilewright config``, ``asm``, ``disasm`` and ``verify``: configs and programs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import READ, WRITTEN
from tilewright.config_text import listing, shown
from tilewright.files import check_writable, read_bytes, read_text, write_atomic
from tilewright.isa import container
from tilewright.isa.assembler import assemble
from tilewright.isa.codec import EncodingError
from tilewright.isa.disassembler import disassemble
from tilewright.isa.program import Program
from tilewright.isa.verifier import VerifyError, verify
from tilewright.printable import say, write_out

ProgramFile = Annotated[Path, typer.Argument(metavar="P.twp", help="A program file."), READ]


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
) -> None:
    """Assemble text to a program file. The program need not be legal: see verify."""
    check_writable(output)
    program = assemble(read_text(source), str(source))
    write_atomic(output, container.dump(program))
    say(f"{output}: {_contents(program)}")


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
        text = disassemble(_read(program))
    except EncodingError as error:
        raise EncodingError(f"{program}: {error}") from error
    if output is None:
        write_out(text)
    else:
        write_atomic(output, text)


def verify_file(program: ProgramFile) -> None:
    """Check a program against every legality rule of docs/isa.md."""
    loaded = _read(program)
    try:
        verify(loaded)
    except VerifyError as error:
        raise VerifyError(error.rule, f"{program}: {error}", error.index) from error
    say(f"{program}: legal: {_contents(loaded)}")


def _read(path: Path) -> Program:
    return container.load(read_bytes(path), str(path))


def _contents(program: Program) -> str:
    return (
        f"{program.instruction_count} instructions, {len(program.segments)} segments, "
        f"config {program.config.name} ({program.config.fingerprint})"
    )
