"""Who may import whom: lower parts know nothing of higher ones, and a board needs only NumPy.

The rules are read off the syntax tree of every file, so an import inside a function counts too. Each rule
is also shown to catch a violation in a made-up tree.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import HANG, REPOSITORY

ROOT = REPOSITORY
PARTS = ("isa", "sim", "hw", "runtime", "jit", "dse")

#: Who stands where; parts of one rank do not import each other. What is not named here, the package
#: itself included, is the face: it stands between dse and cli.
RANKS = {
    "errors": 0, "interrupts": 0, "kinds": 0, "pages": 0, "pipes": 0, "printable": 0, "arguments": 1, "arrays": 2,
    "config": 2, "config_text": 3, "fetch": 2, "files": 1, "model_files": 2, "progress": 1, "parameters": 1,
    "ranges": 1, "schema": 1, "sources": 1, "terminal": 2, "isa": 3, "sim": 4, "hw": 4, "runtime": 5,
    "jit": 6, "dse": 7, "cli": 10,
    "__main__": 11,
}  # fmt: skip
FACE_RANK = 9

#: What runs on a board starts here; it and all it imports on loading need nothing but these packages.
BOARD_ENTRIES = (
    "tilewright.board", "tilewright.runtime", "tilewright.runtime.executable", "tilewright.runtime.serve",
    "tilewright.runtime.pynq_device", "tilewright.runtime.selftest.command", "tilewright.isa.verifier",
)  # fmt: skip
BOARD_PACKAGES = {"numpy"}
BOARD_LAZY_PACKAGES = {
    "numpy",
    "pynq",
    "ai_edge_litert",
    "flatbuffers",
    "onnx",
    "onnxruntime",
    "tomli",
}  #: tomli reads TOML on Python 3.10; flatbuffers comes with LiteRT; onnx is asked for first, and done without


@dataclass(frozen=True)
class Import:
    """One import statement: what it names, where, and whether loading the file executes it."""

    target: str
    line: int
    on_load: bool


def module_files(root: Path) -> dict[str, Path]:
    """Every module of the package by import name, each under its real path."""
    modules = {}
    for folder, prefix in [(root / "tilewright", "tilewright"), *((root / p, f"tilewright.{p}") for p in PARTS)]:
        for file in sorted(folder.glob("**/*.py")):
            inside = file.relative_to(folder).with_suffix("").parts
            if folder.name == "tilewright" and inside[0] in PARTS:
                continue  # a link to a part, or below one
            name = ".".join((prefix, *inside)).removesuffix(".__init__")
            modules[name] = file
    return modules


def imports_of(name: str, file: Path) -> Iterator[Import]:
    """The imports of one file; names imported from a package count as its modules."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]

    def visit(node: ast.AST, on_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, on_load)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, on_load)
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        lazy = lazy or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.iter_child_nodes(node):
            yield from visit(child, on_load and not lazy)

    yield from visit(ast.parse(file.read_text(), str(file)), True)


def part_of(module: str) -> str:
    """The part that a module of the package belongs to: ``isa`` for ``tilewright.isa.spec``, ``face`` for the rest."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] in RANKS else "face"


def layering_violations(root: Path) -> list[str]:
    """Imports that go upwards or sideways, or that reach a part past the package's name."""
    found = []
    for name, file in module_files(root).items():
        part = part_of(name)
        for item in imports_of(name, file):
            where = f"{file.relative_to(root)}:{item.line}"
            first = item.target.split(".")[0]
            if first in PARTS:
                found.append(f"{where}: imports {item.target} as a top-level module, not as tilewright.{item.target}")
            if first != "tilewright":
                continue
            other = part_of(item.target)
            if other != part and RANKS.get(other, FACE_RANK) >= RANKS.get(part, FACE_RANK):
                found.append(f"{where}: {part} imports {other} ({item.target})")
    return found


def known_module(target: str, modules: dict[str, Path]) -> str | None:
    """The module that an import of ``target`` loads: itself, or the package that it is a name in."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target or None


def board_violations(root: Path, entries: tuple[str, ...] = BOARD_ENTRIES) -> list[str]:
    """Third-party imports in what a board loads, other than NumPy and, inside a function, pynq."""
    modules = module_files(root)
    found, seen = [], set()
    waiting = [entry for entry in entries if entry in modules]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        parents = [name.rsplit(".", k)[0] for k in range(1, name.count(".") + 1)]
        waiting += [parent for parent in parents if parent in modules]
        for item in imports_of(name, modules[name]):
            first = item.target.split(".")[0]
            if first == "tilewright":
                target = known_module(item.target, modules)
                if item.on_load and target:
                    waiting.append(target)
            elif first not in sys.stdlib_module_names | (BOARD_PACKAGES if item.on_load else BOARD_LAZY_PACKAGES):
                found.append(f"{modules[name].relative_to(root)}:{item.line}: the board part imports {item.target}")
    return found


def room_of(module: str) -> str:
    """The folder of a part that a module stands in: ``tilewright.jit.plan`` for ``tilewright.jit.plan.cut``."""
    return ".".join(module.split(".")[:3])


def import_circle(root: Path, of: Callable[[str], str] = str) -> list[str]:
    """Modules, or what they are ``of``, that import each other in a circle, the first one again at the end, else [].

    Imports inside functions and for type checking alone count: a circle is one whenever it is closed.
    """
    modules = module_files(root)
    graph: dict[str, set[str]] = {of(name): set() for name in modules}
    for name, file in modules.items():
        known = {known_module(item.target, modules) for item in imports_of(name, file)} - {None}
        graph[of(name)] |= {of(str(target)) for target in known} - {of(name)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_imports_go_downwards():
    assert layering_violations(ROOT) == []


def test_no_modules_import_each_other_in_a_circle():
    assert import_circle(ROOT) == []


def test_no_rooms_import_each_other_in_a_circle():
    assert import_circle(ROOT, room_of) == []


def test_the_board_part_needs_only_numpy():
    assert board_violations(ROOT) == []


def test_every_module_is_seen_once():
    modules = module_files(ROOT)
    assert {part_of(name) for name in modules} >= {"face", "errors", "config", "isa", "sim", "runtime", "jit"}
    assert len({file.resolve() for file in modules.values()}) == len(modules)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A made-up package that obeys every rule."""
    (tmp_path / "tilewright").mkdir()
    (tmp_path / "tilewright" / "__init__.py").write_text("from tilewright.config import Config\n")
    (tmp_path / "tilewright" / "config.py").write_text("import numpy as np\n")
    (tmp_path / "tilewright" / "cli.py").write_text("import typer\nfrom tilewright import Config\n")
    for part in PARTS:
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").write_text("")
        (tmp_path / "tilewright" / part).symlink_to(f"../{part}")
    (tmp_path / "jit" / "emit.py").write_text("import tvm\nfrom tilewright.isa import spec\n")
    (tmp_path / "isa" / "spec.py").write_text("from tilewright.config import Config\n")
    (tmp_path / "runtime" / "executable.py").write_text("from tilewright.isa import spec\n")
    return tmp_path


def test_a_lawful_tree_passes(tree):
    assert layering_violations(tree) == []
    assert board_violations(tree) == []
    assert import_circle(tree) == []


@pytest.mark.parametrize("inside", ["", "def f():\n    ", "if TYPE_CHECKING:\n    "])
def test_a_circle_of_imports_is_caught(tree, inside):
    (tree / "jit" / "a.py").write_text("from tilewright.jit import b\n")
    (tree / "jit" / "b.py").write_text("from tilewright.jit.emit import x\n")
    (tree / "jit" / "emit.py").write_text(f"{inside}from tilewright.jit.a import y\n")
    circle = import_circle(tree)
    assert circle[0] == circle[-1]
    assert set(circle) == {"tilewright.jit.a", "tilewright.jit.b", "tilewright.jit.emit"}


def test_a_circle_of_rooms_is_caught(tree):
    for room, source in (
        ("plan/a", ""),
        ("plan/b", "from tilewright.jit.cost import c"),
        ("cost/c", "from tilewright.jit.plan import a"),
    ):
        (tree / "jit" / room).parent.mkdir(exist_ok=True)
        (tree / "jit" / f"{room}.py").write_text(source + "\n")
    assert import_circle(tree) == []
    assert set(import_circle(tree, room_of)) == {"tilewright.jit.plan", "tilewright.jit.cost"}


@pytest.mark.parametrize(
    ("file", "source", "message"),
    [
        ("isa/x.py", "from tilewright.sim import y", "isa/x.py:1: isa imports sim (tilewright.sim.y)"),
        ("isa/x.py", "from tilewright import sim", "isa/x.py:1: isa imports sim (tilewright.sim)"),
        ("isa/x.py", "import tilewright.jit.emit", "isa/x.py:1: isa imports jit (tilewright.jit.emit)"),
        ("isa/x.py", "from tilewright import Config", "isa/x.py:1: isa imports face (tilewright.Config)"),
        ("isa/x.py", "from ..runtime import launch", "isa/x.py:1: isa imports runtime (tilewright.runtime.launch)"),
        ("sim/x.py", "from tilewright.hw import y", "sim/x.py:1: sim imports hw (tilewright.hw.y)"),
        ("hw/rtl/x.py", "from tilewright.sim import y", "hw/rtl/x.py:1: hw imports sim (tilewright.sim.y)"),
        ("jit/x.py", "def f():\n    from tilewright import dse", "jit/x.py:2: jit imports dse (tilewright.dse)"),
        ("dse/x.py", "import tilewright.cli", "dse/x.py:1: dse imports cli (tilewright.cli)"),
        (
            "tilewright/config.py",
            "from .isa import spec",
            "tilewright/config.py:1: config imports isa (tilewright.isa.spec)",
        ),
        ("sim/x.py", "import isa", "sim/x.py:1: imports isa as a top-level module, not as tilewright.isa"),
    ],
)
def test_a_violation_is_caught(tree, file, source, message):
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(source + "\n")
    assert layering_violations(tree) == [message]


@pytest.mark.parametrize(
    ("file", "source", "caught"),
    [
        ("runtime/executable.py", "import tvm", "runtime/executable.py:1: the board part imports tvm"),
        ("isa/spec.py", "import numba", "isa/spec.py:1: the board part imports numba"),
        ("tilewright/__init__.py", "import rich", "tilewright/__init__.py:1: the board part imports rich"),
        ("runtime/executable.py", "import pynq", "runtime/executable.py:1: the board part imports pynq"),
        ("runtime/executable.py", "def f():\n    import pynq", None),
        ("runtime/executable.py", "def f():\n    import tvm", "runtime/executable.py:2: the board part imports tvm"),
        ("runtime/elsewhere.py", "import tvm", None),
    ],
)
def test_a_board_violation_is_caught(tree, file, source, caught):
    original = (tree / file).read_text() if (tree / file).exists() else ""
    (tree / file).write_text(f"{source}\n{original}")
    assert board_violations(tree) == ([caught] if caught else [])


#: Runs before anything else in a fresh interpreter: whatever a board lacks cannot be found.
ONLY_NUMPY = """
import sys
from importlib.abc import MetaPathFinder
class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in sys.stdlib_module_names | {"numpy", "tilewright"}:
            raise ModuleNotFoundError(f"refused: {name}", name=name)
sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("module", ["tilewright", "tilewright.config", "tilewright.isa", *BOARD_ENTRIES])
def test_loads_with_numpy_alone(module):
    result = subprocess.run(
        [sys.executable, "-c", f"{ONLY_NUMPY}import {module}; print('tvm' in sys.modules)"],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr
