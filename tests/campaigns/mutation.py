"""Mutation score by sample: a comparison, constant or operator changes, and the part's tests must fail.

``python -m tests.campaigns.mutation [--parts sim isa ...] [--mutants N] [--seed S]`` works on a copy of the repository.
A map of which quick test of the part reaches which line is made once (:mod:`tests.campaigns.reached`; with ``--maps``
kept, while the part's sources and all tests stay). A mutant is run against the tests that reach its line, the quickest
first, in a fork of a process that has imported and collected everything (:mod:`tests.campaigns.warm`), or in a new one
if Numba compiles it; then against the slow ones. What lives in a fork is tried against the other tests of their files,
if the map is of some only; with ``--all`` against all; then in a new process. The simulator's kernels are tried
interpreted, without the minute that compiling them takes. Prints those that lived, with file and line.
"""

from __future__ import annotations

import argparse
import ast
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.campaigns.copied import Copy, NotForkedError
from tests.campaigns.reached import Reached
from tests.conftest import REPOSITORY

PARTS = ("sim", "isa", "jit", "runtime")
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")
#: maps to ask in turn, with kernels interpreted or not
INTERPRETED = {"sim": (True, False), "isa": (False,), "jit": (False,), "runtime": (False,)}
#: processor time of one test: all parts but one compile kernels, at least once
SECONDS = {"sim": 300, "isa": 60, "jit": 150, "runtime": 150}
COMPILED = {"compiled", "inlined", "_inlined"}  #: the project's decorators of what Numba compiles
OTHERS = 120.0  #: processor time of tests that are not in the map
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


def statement(tree: ast.Module, node: ast.expr) -> range:
    """Lines of the innermost statement around an expression, without the statements inside of it."""
    lines = range(node.lineno, node.lineno + 1)
    for around in ast.walk(tree):  # outer ones come first
        if isinstance(around, ast.stmt) and any(inner is node for inner in ast.walk(around)):
            body = getattr(around, "body", None)
            lines = range(around.lineno, body[0].lineno if body else (around.end_lineno or around.lineno) + 1)
    return lines if node.lineno in lines else range(node.lineno, node.lineno + 1)


def is_compiled(tree: ast.Module, node: ast.expr) -> bool:
    """Whether Numba compiles the function around an expression: a fork would run what was compiled before."""
    return any(
        any(ast.unparse(decorator).partition("(")[0] in COMPILED for decorator in around.decorator_list)
        and any(inner is node for inner in ast.walk(around))
        for around in ast.walk(tree)
        if isinstance(around, ast.FunctionDef)
    )


def sample(part: Path, mutants: int, rng: random.Random, under: Sequence[str] = ()) -> list[tuple[Path, int]]:
    """Files of a part and the numbers of their places, drawn without return; ``under``: of these folders and files."""
    every = [
        (path, number)
        for path in sorted(part.rglob("*.py"))
        if not under or any(path.is_relative_to(part / name) for name in under)
        for number, node in enumerate(places(ast.parse(path.read_text())))
        if change(node) is not None
    ]
    return rng.sample(every, min(mutants, len(every)))


def noticed(
    copy: Copy,
    path: Path,
    changed: str,
    by_pace: tuple[list[str], list[str]],
    reached: Reached,
    others: bool,
    every: bool,
) -> str | None:
    """What notices a change: the quick tests that reach it, then the slow ones, then the others of their files if
    asked, then all if asked.

    Raises NotForkedError as :meth:`Copy.kill` does.
    """
    quick, slow = by_pace
    by = copy.kill(path, changed, quick, reached.interpreted)
    by = by or copy.kill(path, changed, slow, reached.interpreted)
    if copy.warm is None:
        return by
    if others:
        by = by or copy.kill(path, changed, reached.others(quick), enough=OTHERS)
    if every:
        by = by or copy.kill(path, changed, ["*"])
    # what was computed while collecting was not changed
    return by or copy.alone().kill(path, changed, quick, reached.interpreted)


def main() -> int:
    """Run the campaign; exit code 1 if the tests do not pass unchanged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--mutants", type=int, default=100, help="of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", nargs="+", default=[], help="folders and files of the part that alone are changed")
    parser.add_argument("--maps", type=Path, help="folder of maps and caches; made there where they are missing")
    parser.add_argument("--beside", nargs="+", default=[], help="tests that are mapped and tried beside the part's own")
    parser.add_argument(
        "--every", type=int, default=1, help="one in so many tests of each file is mapped: a lower bound"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of tests that a mutant is tried against first, as the map has them"
    )
    parser.add_argument("--all", action="store_true", help="what lives is tried against all quick tests that there are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        root, kept = Path(place) / "tilewright", (options.maps or Path(place)).resolve()
        shutil.copytree(REPOSITORY, root, symlinks=True, ignore=NOT_COPIED)
        for part in options.parts:
            maps: list[Reached] = []
            for interpreted in INTERPRETED[part]:
                reached = Reached.of(part, kept, options.every, interpreted, options.beside)
                if reached is None:
                    print(f"tests/{part}: do not pass unchanged")
                    return 1
                maps.append(reached)
            copies = {reached.interpreted: Copy(root, kept, SECONDS[part]) for reached in maps}
            for reached in maps:
                copies[reached.interpreted].collect(
                    [f"tests/{part}", *options.beside], reached.seconds, reached.interpreted
                )
            killed = tried = 0
            for path, number in sample(
                root / part, options.mutants, random.Random(f"{options.seed} {part}"), options.under
            ):
                node = places(tree := ast.parse(path.read_text()))[number]
                lines, file, line = statement(tree, node), path.relative_to(root), node.lineno
                what = f"{change(node)}: {ast.unparse(node)}"
                changed = spliced(path.read_text(), node)
                reached, tests = next(
                    (reached, tests) for reached in maps
                    if (tests := reached.tests(file, lines, options.seconds))
                )  # fmt: skip
                copy = copies[reached.interpreted]
                if is_compiled(tree, node) and not reached.interpreted:
                    copy = copy.alone()
                slow = reached.tests(file, lines, math.inf)[len(tests) :]
                try:
                    by = noticed(copy, path, changed, (tests, slow), reached, options.every > 1, options.all)
                except NotForkedError:
                    by = copy.alone().kill(path, changed, tests, reached.interpreted)
                tried, killed = tried + 1, killed + (by is not None)
                if by is None:
                    print(f"  lives: {file}:{line}: {what} ({len(tests)} tests)", flush=True)
                elif not by.startswith("tests/"):
                    print(f"  killed by {by}: {file}:{line}: {what}", flush=True)
                if tried % 10 == 0 or tried == options.mutants:
                    print(f"{part}: {killed} of {tried} killed ({killed / tried:.0%})", flush=True)
            for copy in copies.values():
                copy.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
