"""What a board loads runs on the Python of its image: 3.10 with PYNQ 3, 3.12 with PYNQ 4."""

from __future__ import annotations

import ast

import pytest

from tests.test_layering import ROOT, imports_of, known_module, module_files

OLDEST = (3, 10)
ENTRIES = (
    "tilewright.board",
    "tilewright.isa.verifier",
    "tilewright.runtime.executable",
    "tilewright.runtime.pynq_device",
    "tilewright.runtime.selftest.command",
)

#: what Python 3.11 added to the standard library, as far as somebody might import it
LATER = {
    "tomllib", "enum.StrEnum", "datetime.UTC", "typing.Self", "typing.Never", "typing.assert_never", "asyncio.timeout",
    "asyncio.TaskGroup", "contextlib.chdir", "hashlib.file_digest", "operator.call",
}  # fmt: skip


def loaded_modules() -> list[str]:
    """All modules that loading the entries loads."""
    modules, seen, waiting = module_files(ROOT), set(), list(ENTRIES)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            targets = [known_module(i.target, modules) for i in imports_of(name, modules[name]) if i.on_load]
            parents = [name.rsplit(".", k)[0] for k in range(1, name.count(".") + 1)]
            waiting += [t for t in (*targets, *parents) if t in modules]
    return sorted(seen)


def too_new(name: str, source: str) -> list[str]:
    """What of a module's source the oldest Python does not have."""
    try:
        tree = ast.parse(source, name, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{name}:{error.lineno}: {error.msg}"]
    found = []
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if id(node) in inside and not isinstance(node, ast.Attribute):
            continue
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [ast.unparse(node)]
        found += [f"{name}:{node.lineno}: {n}" for n in names if n in LATER]
    return found


def test_all_modules_are_old_enough() -> None:
    modules, loaded = module_files(ROOT), loaded_modules()
    assert {"tilewright.config", "tilewright.isa.verifier", "tilewright.runtime.pynq.board"} <= set(loaded)
    assert [line for name in loaded for line in too_new(name, modules[name].read_text())] == []


@pytest.mark.parametrize(
    "source", ["import tomllib", "from enum import StrEnum", "import asyncio\nasync def f():\n    asyncio.timeout(1)",
               "try:\n    pass\nexcept* OSError:\n    pass"],
)  # fmt: skip
def test_what_is_too_new_is_found(source: str) -> None:
    assert len(too_new("x", source)) == 1
    assert too_new("x", "def f():\n    import tomllib\n") == []
