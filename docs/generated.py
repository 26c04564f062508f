"""What of the site is read off the source whenever it is built: errors with their way out, and the commands' help."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("tilewright", "isa", "sim", "hw", "runtime", "jit", "dse")
BASE = "TilewrightError"
#: errors of what no user calls, or that would be a defect of the project
INTERNAL = {"BuildError", "PlacementError", "ProofError", "NetlistError", "OtherVersionError"}


def errors() -> str:
    """Every error that a user may meet, by class: its messages, and behind the semicolon the way out."""
    trees = [ast.parse(path.read_text()) for part in PARTS for path in sorted((ROOT / part).rglob("*.py"))]
    classes = _classes(trees)
    messages: dict[str, list[str]] = {name: [] for name in classes}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                text = next((text for text in map(_text, node.exc.args) if text), None)
                if node.exc.func.id in messages and text and text not in messages[node.exc.func.id]:
                    messages[node.exc.func.id].append(text)
    return "\n".join(
        line for name, found in sorted(messages.items()) if found and name not in INTERNAL
        for line in _section(name, classes[name], found)
    )  # fmt: skip


def _classes(trees: list[ast.Module]) -> dict[str, str]:
    """The first sentence of each class that is a :class:`TilewrightError`, by name."""
    found = {BASE: "An error the user can act on."}
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := [
        node for node in nodes
        if node.name not in found and any(isinstance(b, ast.Name) and b.id in found for b in node.bases)
    ]:  # fmt: skip
        found |= {node.name: inspect.cleandoc(ast.get_docstring(node) or "") for node in more}
    return found


def _text(node: ast.expr) -> str | None:
    """A message as a reader meets it, with names in angle quotes where values stand; None if it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [v.value if isinstance(v, ast.Constant) else _value(v) for v in node.values]
    return "".join(map(str, parts))


def _value(node: ast.expr) -> str:
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    while isinstance(inner, ast.Attribute | ast.Subscript) and not isinstance(inner.value, ast.Call):
        if isinstance(inner, ast.Attribute):
            return f"‹{inner.attr}›"
        inner = inner.value
    return f"‹{inner.id}›" if isinstance(inner, ast.Name) else "‹…›"


def _section(name: str, what: str, messages: list[str]) -> Iterator[str]:
    yield f"\n## {name}\n\n{what}\n\n| message | way out |\n|---|---|"
    for text in sorted(messages):
        said, _, out = " ".join(text.split()).rpartition("; ")
        yield f"| {_cell(said or out)} | {_cell(out) if said else ''} |"


def _cell(text: str) -> str:
    for character in "\\`*_|<>[]$":
        text = text.replace(character, "\\" + character)
    return text


def commands() -> str:
    """What ``--help`` says, command by command."""
    from tilewright.cli.app import COMMANDS, GROUPS

    names = [[name] for name, *_ in COMMANDS] + [[group, name] for group, _, members in GROUPS for name, *_ in members]
    return "\n".join(
        f"\n## tilewright {' '.join(words)}\n\n```text\n{_help(words)}```"
        for words in sorted([*names, ["serve"], ["selftest"]])
    )


def _help(words: list[str]) -> str:
    from tilewright.cli.app import main

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):  # argparse ends the process after its help
        main([*words, "--help"])
    return shown.getvalue().strip() + "\n"
