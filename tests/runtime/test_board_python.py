"""What a board loads runs on the Python of its image: 3.10 with NumPy 1.21 in PYNQ 3, 3.12 in PYNQ 4.

This finds what is known to be newer, everywhere; ``make test-board`` runs it on that Python and that NumPy.
"""

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

#: what Python 3.11 added to the standard library, and NumPy 1.22 and later, as far as somebody might use it
LATER = {
    "tomllib", "enum.StrEnum", "datetime.UTC", "typing.Self", "typing.Never", "typing.assert_never", "asyncio.timeout",
    "asyncio.TaskGroup", "contextlib.chdir", "hashlib.file_digest", "operator.call", "importlib.resources.abc",
    "typing.Unpack", "typing.assert_type", "typing.reveal_type", "typing.LiteralString", "np.exceptions", "np.isdtype",
    "np.from_dlpack", "np.astype", "np.concat", "np.permute_dims", "np.bitwise_count", "np.unique_values",
}  # fmt: skip
#: attributes of any object that NumPy added since
LATER_ATTRIBUTES = {"smallest_subnormal", "mT"}


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


def _for_types(node: ast.AST) -> bool:
    """Whether it is what only type checkers read."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def too_new(name: str, source: str) -> list[str]:
    """What of a module's source the oldest Python does not have."""
    try:
        tree = ast.parse(source, name, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{name}:{error.lineno}: {error.msg}"]
    found = []
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) or _for_types(f) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if id(node) in inside and not isinstance(node, ast.Attribute):
            continue
        if isinstance(node, ast.ClassDef):
            arguments = [ast.unparse(base) for base in node.bases if isinstance(base, ast.Subscript)]
            found += [f"{name}:{node.lineno}: {base}" for base in arguments if base.startswith("np.")]
        if isinstance(node, ast.Attribute) and node.attr in LATER_ATTRIBUTES:
            found.append(f"{name}:{node.lineno}: {node.attr}")
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
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
               "try:\n    pass\nexcept* OSError:\n    pass", "x = np.finfo(np.float32).smallest_subnormal",
               "class B(np.ndarray[Any, Any]):\n    pass", "from importlib.resources.abc import Traversable"],
)  # fmt: skip
def test_what_is_too_new_is_found(source: str) -> None:
    assert len(too_new("x", source)) == 1
    assert too_new("x", "def f():\n    import tomllib\n") == []
