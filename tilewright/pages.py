"""Pages of ``docs/``: prose by hand, and between two comments what is generated from a declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_BLOCK = re.compile(r"(<!-- generated: (.+) -->\n)(?:.*\n)*?(<!-- end -->)")


def filled(name: str, blocks: Mapping[str, Iterable[str]]) -> str:
    """The text of page ``name`` with the lines of each block in their place; blocks that others make stay.

    Raises :class:`ValueError` where the page lacks a block, has one twice, or has them in another order.
    """
    text = (_DOCS / name).read_text()
    found = [match[2] for match in _BLOCK.finditer(text)]
    if [block for block in found if block in blocks] != list(blocks):
        raise ValueError(f"{name}: has the blocks {', '.join(found)}; there are {', '.join(blocks)}")

    def made(match: re.Match[str]) -> str:
        return match[1] + "\n".join([*blocks[match[2]], match[3]]) if match[2] in blocks else match[0]

    return _BLOCK.sub(made, text)


def write(name: str, blocks: Mapping[str, Iterable[str]]) -> None:
    """Bring page ``name`` up to date."""
    (_DOCS / name).write_text(filled(name, blocks))
