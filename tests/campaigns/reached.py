"""Which quick test of a part reaches which line of it: a map that ``coverage run`` makes once, a context a test."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

from tests.conftest import REPOSITORY

MEASURED = Path(__file__).parent / "coverage.ini"


def digest_of(part: Path, tests: Path) -> str:
    """Eight hex digits over a part's sources and the tests: another digest, another map."""
    made = hashlib.sha256()
    for folder in (part, tests):
        for path in sorted(folder.rglob("*.py")):
            data = path.read_bytes()
            made.update(f"{path.relative_to(folder.parent)} {len(data)} ".encode() + data)
    return made.hexdigest()[:8]


@dataclass(frozen=True)
class Reached:
    """``seconds``: what each test of the part took; ``data``: its lines, by file.

    ``interpreted``: Numba compiled nothing, so the lines of kernels are seen too, by those tests that pass so.
    """

    part: str
    interpreted: bool
    seconds: dict[str, float]
    data: coverage.CoverageData

    @classmethod
    def of(
        cls, part: str, folder: Path, every: int = 1, interpreted: bool = False, beside: Sequence[str] = ()
    ) -> Reached | None:
        """The map of a part, made if the folder has none of these sources and tests; None if the tests do not pass.

        It is of one in so many of the part's own tests and of those ``beside`` them.
        """
        digest = digest_of(REPOSITORY / part, REPOSITORY / "tests")
        file = folder.resolve() / f"{'interpreted' if interpreted else 'reached'}-{part}-{digest}"
        if not file.exists():
            measured = [sys.executable, "-m", "coverage"]
            command = [
                *measured,
                "run",
                f"--rcfile={MEASURED}",
                f"--source={part}",
                f"--data-file={file}",
                "-m",
                "pytest",
            ]
            command += ["-q", "-m", "not slow", "-p", "tests.campaigns.contexts", "--every", str(every)]
            command += ["-p", "tests.campaigns.interpreted"] if interpreted else []
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)} | (
                {"NUMBA_DISABLE_JIT": "1"} if interpreted else {}
            )
            done = subprocess.run([*command, f"tests/{part}", *beside], cwd=REPOSITORY, env=environment)
            if done.returncode and not interpreted:
                return None
            subprocess.run([*measured, "combine", "-q", f"--data-file={file}"], cwd=REPOSITORY, check=True)
        data = coverage.CoverageData(str(file))
        data.read()
        return cls(part, interpreted, json.loads(Path(f"{file}-seconds.json").read_text()), data)

    def tests(self, file: Path, lines: Iterable[int], seconds: float) -> list[str]:
        """Tests that reach one of the lines of a file, the quickest first, as many as fit into the seconds.

        Where none does (kernels are compiled, and what runs in processes of its own is not seen): those of the files
        that import the module or what stands beside it, or stand in the folder of its name, or the part's whole; none
        of those that are interpreted.
        """
        by_line = self.data.contexts_by_lineno(str(REPOSITORY / file))
        found = {test for line in lines for test in by_line.get(line, ()) if test in self.seconds}
        if not found and not self.interpreted:
            near = {str(path.relative_to(REPOSITORY)) for path in self.near(file)}
            found = {test for test in self.seconds if test.partition("::")[0] in near} or set(self.seconds)
        chosen: list[str] = []
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            seconds -= self.seconds[test]
            if chosen and seconds < 0:
                break
            chosen.append(test)
        return chosen

    def others(self, tests: list[str]) -> list[str]:
        """The files of some tests, for those in them that are not in the map."""
        return [f"{file}::*" for file in dict.fromkeys(test.partition("::")[0] for test in tests)]

    def near(self, file: Path) -> list[Path]:
        """Test files of the part that import the module, or from the package that it is in, or stand in the folder of
        the same name."""
        name = "tilewright." + ".".join(file.with_suffix("").parts)
        names, folder = {name, name.rpartition(".")[0]}, REPOSITORY / "tests" / file.parent
        of_package = file.parent != Path(self.part)  # else all of the part's would be
        return [
            path
            for path in sorted((REPOSITORY / "tests" / self.part).rglob("test_*.py"))
            if (of_package and path.is_relative_to(folder)) or names & _imported_from(path)
        ]


def _imported_from(path: Path) -> set[str | None]:
    """The modules that a file imports something from."""
    return {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
