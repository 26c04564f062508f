"""Mutation score by sample: a comparison, constant or operator changes, and the part's tests must fail.

``python -m tests.campaigns.mutation [--parts sim isa ...] [--mutants N] [--seed S]`` works on a copy of the repository.
A mutant is run against the quick tests of its part that name its module or package, then against the whole part's with
``--all``. Prints those that lived, with file and line.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conftest import REPOSITORY

PARTS = ("sim", "isa", "jit", "runtime")
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")
TIMEOUT = 600
_COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip

_CHANGED = (ast.Compare, ast.BinOp, ast.BoolOp)


def change(node: ast.expr) -> str | None:
    """Change a node in place; what was done, None if nothing can be."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        before = type(node.ops[0])
        node.ops[0] = _COMPARED[before]()
        return f"{before.__name__} -> {_COMPARED[before].__name__}"
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        kind = type(node.op)
        node.op = _COMPUTED[kind]()
        return f"{kind.__name__} -> {_COMPUTED[kind].__name__}"
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return f"now {type(node.op).__name__}"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        return f"{node.value - 1} -> {node.value}"
    return None


def spliced(text: str, node: ast.expr) -> str:
    """The source with a changed expression in its place: comments and lines stay, for tests that read them."""
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
    new = first[: node.col_offset] + f"({ast.unparse(node)})".encode() + last[node.end_col_offset :]
    return b"".join([*lines[: node.lineno - 1], new, *lines[node.end_lineno :]]).decode()


def places(tree: ast.Module) -> list[ast.expr]:
    """What may be changed: inside of functions, so that no declaration alone is meant, and outside of texts."""
    texts = {id(n) for text in ast.walk(tree) if isinstance(text, ast.JoinedStr) for n in ast.walk(text)}
    inside = {id(n): n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for s in f.body for n in ast.walk(s)}
    found: list[ast.expr] = []
    for key, node in inside.items():
        number = isinstance(node, ast.Constant) and type(node.value) is int
        if key not in texts and isinstance(node, ast.expr) and (number or isinstance(node, _CHANGED)):
            found.append(node)
    return found


def tests_of(part: str, module: Path, copy: Path) -> list[str]:
    """Test files of the part that import the module or what stands beside it; all of them if none does."""
    name = "tilewright." + ".".join(module.with_suffix("").parts)
    files = sorted((copy / "tests" / part).rglob("test_*.py"))
    near = [f for f in files if name in (text := f.read_text()) or name.rpartition(".")[0] + " import" in text]
    return [str(f.relative_to(copy)) for f in near or files]


def run(copy: Path, tests: list[str]) -> bool:
    """Whether the tests pass; one that hangs does not."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TILEWRIGHT_CACHE": str(copy.parent / "cache"), "NUMBA_CACHE_DIR": str(copy.parent / "numba")}
    environment["TILEWRIGHT_MODELS"] = os.environ.get("TILEWRIGHT_MODELS", str(REPOSITORY.parent / "shared" / "models"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    try:
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    """Run the campaign; exit code 1 if the tests do not pass unchanged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--mutants", type=int, default=100, help="of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="what lives is tried against all quick tests of the part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        copy = Path(place) / "tilewright"
        shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=NOT_COPIED)
        for part in options.parts:
            rng = random.Random(f"{options.seed} {part}")
            modules = [path for path in sorted((copy / part).rglob("*.py")) if places(ast.parse(path.read_text()))]
            weights = [len(places(ast.parse(path.read_text()))) for path in modules]
            killed = tried = 0
            sound: dict[tuple[str, ...], bool] = {}
            while tried < options.mutants:
                path = rng.choices(modules, weights)[0]
                text = path.read_text()
                tree = ast.parse(text)
                node = rng.choice(places(tree))
                line, what = getattr(node, "lineno", 0), change(node)
                if what is None:
                    continue
                tests = tests_of(part, path.relative_to(copy), copy)
                if not sound.setdefault(tuple(tests), False) and not run(copy, tests):
                    print(f"{' '.join(tests)}: do not pass unchanged")
                    return 1
                sound[tuple(tests)] = True
                path.write_text(spliced(text, node))
                lives = run(copy, tests) and (not options.all or run(copy, [f"tests/{part}"]))
                path.write_text(text)
                tried, killed = tried + 1, killed + (not lives)
                if lives:
                    print(f"  lives: {path.relative_to(copy)}:{line}: {what}", flush=True)
            print(f"{part}: {killed} of {tried} killed ({killed / tried:.0%})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
