"""Names as a terminal may have them, wherever they are printed."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import unicodedata

import pytest
from rich.table import Table
from rich.text import Text

from tests.conftest import REPOSITORY
from tilewright.printable import LONGEST_LINE, encodable, one_line, printable
from tilewright.terminal import PrintableConsole, ProgressReporter

NASTY = "a\x1b[31m\u202eb\x07\udcff\x9b[/bold]\u2028\r"


def _shown(text: str, allowed: str = "\n") -> None:
    assert [c for c in text if not c.isprintable() and c not in allowed] == []


def test_every_character_that_controls_something_becomes_its_escape() -> None:
    assert printable(NASTY) == r"a\x1b[31m\u202eb\x07\xff\x9b[/bold]\u2028\r"
    assert printable("größe 8×8 – 網路") == "größe 8×8 – 網路"
    assert printable("a\tb\n", keep="\n") == "a\\tb\n"
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            _shown(printable(chr(code)), "")


def test_text_that_utf_8_cannot_hold_is_given_by_its_escape() -> None:
    name = os.fsdecode(b"m\xff\xc3\xa4.tflite")
    assert encodable(name).encode() == b"m\\xff\xc3\xa4.tflite"
    assert encodable("\ud800") == r"\ud800"


def test_a_long_line_keeps_both_ends() -> None:
    text = "first " + "x" * 5000 + "\n  the way out"
    line = one_line(text)
    assert len(line) == LONGEST_LINE
    assert line.startswith("first xxx")
    assert line.endswith("xxx the way out")
    assert one_line("a\n b") == "a b"


def test_consoles_print_no_control_characters_and_take_no_markup() -> None:
    stream = io.StringIO()
    console = PrintableConsole(file=stream, width=120)
    table = Table("name", "why", box=None, title=NASTY)
    table.add_row(Text(NASTY), NASTY)
    console.print(table)
    console.print(Text(NASTY), soft_wrap=True)
    console.print(NASTY)
    _shown(stream.getvalue())
    assert stream.getvalue().count(r"a\x1b[31m\u202eb") >= 4
    assert "[/bold]" in stream.getvalue()


def test_the_bar_of_a_terminal_prints_its_own_codes_alone() -> None:
    stream = io.StringIO()
    console = PrintableConsole(file=stream, width=120, force_terminal=True, color_system="truecolor")
    with ProgressReporter(console) as progress:
        progress.update(f"importing {NASTY}", 1, 2)
    assert "\x1b[" in stream.getvalue()
    assert r"importing a\x1b[31m\u202eb\x07\xff\x9b[/bold]" in stream.getvalue()


PRINTS = {"print", "echo", "secho", "Console"}  #: what prints without going through tilewright.printable


def _printing(root: str) -> list[str]:
    found = []
    for file in sorted((REPOSITORY / root).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                on = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
                if (name in PRINTS and on in ("", "typer", "click")) or ast.unparse(node.func) == "sys.stdout.write":
                    found.append(f"{file.relative_to(REPOSITORY)}: {ast.unparse(node)[:60]}")
    return found


def test_the_command_line_prints_in_one_way() -> None:
    kept = ("context.get_help()", "__version__", "flush()", "USAGE")  # of the program's own words
    found = [line for line in _printing("tilewright/cli") if not any(words in line for words in kept)]
    assert found == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_that_lacks_a_character_gets_its_escape(encoding: str) -> None:
    code = r"from tilewright.printable import *; open_streams(); say('8×8 – \udcff\x1b'); print('\u7db2')"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() == (encoding == "ascii")
    assert rb"\xff\x1b" in done.stdout
    assert done.stdout.decode(encoding).count("\n") == 2
