"""Vivado and Vitis HLS: found, asked for their version, run with progress, their failures reported in one line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.hw.boards.board import BoardError

#: releases that the scripts are written for, first and last
WRITTEN_FOR = ("2022.2", "2024.2")
LINE_SECONDS = 30.0  #: least time between lines of progress

Say = Callable[[str], None]
_STEP = re.compile(r"^(?:tilewright: .*|\[.*\] (?:Launched|Waiting) .*|Starting (?:Placer|Routing|Synthesize).*)")


def say(message: str) -> None:
    """A line on the error stream, at once."""
    print(f"tilewright: {message}", file=sys.stderr, flush=True)


def find_vivado() -> str:
    """The path of ``vivado``. Raises :class:`BoardError` that says what to install if it is not on PATH."""
    found = shutil.which("vivado")
    if found is None:
        raise BoardError(
            "vivado is not on PATH: a bitstream needs AMD Vivado "
            f"{WRITTEN_FOR[0]} to {WRITTEN_FOR[1]}; install it with the board's device family and source its "
            "settings64.sh, or add --project-only (make: PROJECT_ONLY=1) and carry the "
            "folder to a machine that has it"
        )
    return found


def hls_command(script: Path) -> list[str]:
    """How this machine runs an HLS script. Raises :class:`BoardError` if no HLS tool is on PATH."""
    unified, classic = shutil.which("vitis-run"), shutil.which("vitis_hls")
    if unified is not None:  # since 2023.2; from 2024.2 on the only one
        return [unified, "--mode", "hls", "--tcl", str(script)]
    if classic is not None:
        return [classic, "-f", str(script)]
    raise BoardError(
        "neither vitis-run nor vitis_hls is on PATH: SOURCE=hls needs AMD Vitis "
        f"{WRITTEN_FOR[0]} to {WRITTEN_FOR[1]} beside Vivado; install it and source its settings64.sh, "
        "build with SOURCE=rtl, or add --project-only (make: PROJECT_ONLY=1)"
    )


def vivado_version(vivado: str) -> str:
    """``2023.2`` or the like. Raises :class:`BoardError` if the tool does not say."""
    try:
        done = subprocess.run([vivado, "-version"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise BoardError(f"{vivado}: cannot be started: {error}") from error
    match = re.search(r"[Vv]ivado v?(\d{4}\.\d+)", done.stdout)
    if done.returncode or match is None:
        raise BoardError(f"{vivado} -version: exit code {done.returncode}, no version in its output")
    return match.group(1)


def version_warning(version: str) -> str | None:
    """What to report of a release that the scripts are not written for."""
    if _ordered(WRITTEN_FOR[0]) <= _ordered(version) <= _ordered(WRITTEN_FOR[1]):
        return None
    return (
        f"warning: Vivado {version}: the scripts are written for {WRITTEN_FOR[0]} to {WRITTEN_FOR[1]}; "
        f"going on, but commands may differ"
    )


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def run_tool(command: Sequence[str], folder: Path, log: Path, report: Say = say) -> None:
    """Run a tool in a folder with all it prints in ``log``; reports steps as they come.

    Raises :class:`BoardError` with the first error line and the log's place if the exit code is not 0.
    """
    name = Path(command[0]).name
    started = reported = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    report(f"{name}: started, its output goes to {log}")
    try:
        with log.open("w") as out, subprocess.Popen(
            command, cwd=folder, text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                out.write(line)
                now = time.monotonic()
                if _STEP.match(line) or now - reported >= LINE_SECONDS:
                    reported = now
                    report(f"{name}, {(now - started) / 60:.1f} min: {line.strip().removeprefix('tilewright: ')[:100]}")
    except OSError as error:
        raise BoardError(f"{command[0]}: cannot be started: {error}") from error
    if process.returncode:
        raise BoardError(f"{name} failed (exit code {process.returncode}): {_failure(log)}; the whole log is {log}")


def _failure(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "CRITICAL ERROR"))]
    if errors:
        return errors[0]
    return f"its last line is {lines[-1]!r}" if lines else "it printed nothing"
