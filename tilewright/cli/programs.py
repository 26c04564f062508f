"""Program files as the commands take them: containers, and assembly text with the places of its instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.paths import READ
from tilewright.files import read_bytes, read_text
from tilewright.isa import container
from tilewright.isa.assembler import assemble_places
from tilewright.isa.program import Program
from tilewright.isa.verifier import IllegalProgram, find_errors

ProgramFile = Annotated[Path, typer.Argument(metavar="P.twp", help="A program file."), READ]
ProgramOrText = Annotated[Path, typer.Argument(metavar="P.twp|P.s", help="A program file, or assembly text."), READ]


def read_program(path: Path) -> Program:
    """The program of a container."""
    return container.load(read_bytes(path), str(path))


def read_legal(path: Path) -> Program:
    """A program of either form. Raises :class:`IllegalProgram` with all rules that it breaks, and where."""
    places: list[str] = []
    if path.suffix == ".s":
        program, places = assemble_places(read_text(path), str(path))
    else:
        program = read_program(path)
    if errors := find_errors(program):
        raise IllegalProgram(str(path), errors, places)
    return program


def contents(program: Program) -> str:
    """What a program is, in a line."""
    return (
        f"{program.instruction_count} instructions, {len(program.segments)} segments, "
        f"config {program.config.name} ({program.config.fingerprint})"
    )
