"""Instructions of a Cortex-A9 for the host's part of an inference, under qemu: ``python -m bench.bench_host``.

A call of a prepared network from Python is counted, of one inference and of many, and opening it where it has been
verified before, for the networks of the README. With ``--costs``: what a unit of work of each step takes, as
``runtime/report/host_work.py`` keeps it, fitted to drawn steps, and how far it is off for these;
:mod:`bench.bench_c_runtime` compares what that gives for whole networks.

Needs qemu-user and gcc-arm-linux-gnueabihf, and fetches Python and NumPy of Debian's armhf into ``build/machines``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.bench_c_runtime import COUNTED, compiled_networks, counter, counts, counts_row, plugin
from bench.common import DIGITS, ROOT, keep_rows
from bench.host_steps import CONFIG, FEW, MANY
from tests.machines.roots import MACHINES, Missing
from tilewright.compiling import compile as compile_model
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.native.library import VARIABLE
from tilewright.runtime.report.host_work import work
from tilewright.runtime.steps import CutStep, HostStep, TensorSpec, TransposeStep

TOGETHER = {"mobilenet_v2_imagenet": 4}  #: inferences of a call, 64 of other networks
Row = tuple[dict[str, float], float]  #: units of work, instructions


def emulated(folder: Path) -> list[str]:
    """The command that runs and counts :mod:`bench.host_steps`; its plugin lies in ``folder``."""
    place = ROOT / "build" / "machines" / "armhf"
    place.mkdir(parents=True, exist_ok=True)
    try:
        machine = MACHINES["armhf"].machine(place)
    except Missing as error:
        raise SystemExit(str(error)) from error
    if machine.library is None:
        raise SystemExit("gcc-arm-linux-gnueabihf is not installed: the compiled host library would not be counted")
    qemu, *rest = machine.command
    library = "-E", f"{VARIABLE}={machine.library}"
    return [qemu, "-plugin", str(plugin(folder)), *library, *rest, "-m", "bench.host_steps"]


def counted(command: list[str], *arguments: str) -> tuple[list[int], list[str]]:
    """Instructions between each two marks, and the lines that were printed."""
    done = subprocess.run([*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    marks = [int(line) for line in done.stderr.split("\n") if line.isdigit()]
    return [after - before for before, after in zip(marks[::2], marks[1::2], strict=True)], done.stdout.splitlines()


def drawn_steps(command: list[str]) -> list[Row]:
    """Of one inference each: what two numbers of them differ by."""
    found, lines = counted(command, "steps", "0")
    each = [(many - few) / (MANY - FEW) for few, many in zip(found[::2], found[1::2], strict=True)]
    return list(zip(map(json.loads, lines), each, strict=True))


def steps_of_c(folder: Path) -> list[Row]:
    """Copies, which the C runtime alone compiles: what a step more on another input takes. And a launch: what an
    inference alone takes more than one of four."""
    command, whole = counter(folder), compile_model(DIGITS / "digits.onnx", CONFIG).artifact
    shapes = [(16, 3), (48, 16), (20, 100)]

    def alone(artifact: Artifact, inferences: int = 1) -> int:
        artifact.save(folder / "more.twa")
        return counts(command, folder / "more.twa", inferences)[1]

    rows: list[Row] = [({"launch": 3 / 4}, alone(whole) - alone(whole, 16))]
    for rest, last in shapes:
        for dtype in ("int8", "float32"):
            spec = TensorSpec("more", (1, 8, rest, last), dtype)
            steps: list[HostStep] = [
                TransposeStep("more", "other", (0, 3, 1, 2)),
                TransposeStep("more", "other", (0, 2, 1, 3)),
                CutStep("more", "other", (0, 2, 0, 0), (1, 5, rest, last)),
            ]
            given = dataclasses.replace(whole, inputs=(*whole.inputs, spec))
            before = alone(given)
            for step in steps:
                added = alone(dataclasses.replace(given, steps=(step, *whole.steps))) - before
                rows.append((dict(work(step, {"more": spec.form}, CONFIG)), added))
    return rows


def fitted(rows: list[Row]) -> dict[str, float]:
    """Instructions by unit, so that the squares of relative errors are least."""
    units = sorted({unit for row, _ in rows for unit in row})
    matrix = np.array([[row.get(unit, 0) for unit in units] for row, _ in rows])
    instructions = np.array([number for _, number in rows])
    found = np.linalg.lstsq(matrix / instructions[:, None], np.ones(len(rows)), rcond=None)[0]
    return {unit: float(f"{value:.3g}") for unit, value in zip(units, found)}


def show_costs(folder: Path) -> None:
    """Print what :data:`COSTS` is to hold, and the errors by kind."""
    rows = drawn_steps(emulated(folder)) + steps_of_c(folder)
    costs = fitted(rows)
    for unit, cost in costs.items():
        print(f'    "{unit}": {cost:g},')
    errors: dict[str, list[float]] = defaultdict(list)
    for row, instructions in rows:
        estimate = sum(costs[unit] * number for unit, number in row.items())
        errors[" + ".join(row)].append(estimate / instructions - 1)
    for kind, found in errors.items():
        print(f"{len(found):4} from {min(found):+.0%} to {max(found):+.0%}: {kind}")


def show_prepared(folder: Path, artifacts: list[Path]) -> list[dict[str, Any]]:
    """Print the table of docs/runtime.md; its rows."""
    command, rows = emulated(folder), []
    print(f"{'instructions, prepared':<26}{'one at a time':>16}{'of many':>20}{'open':>16}")
    for artifact in artifacts or compiled_networks(folder):
        many = TOGETHER.get(artifact.stem, 64)
        (opening, alone), (_, together) = (counted(command, "prepared", str(artifact), str(n))[0] for n in (1, many))
        of = f"{together / many:,.0f} (of {many})"
        print(f"{artifact.stem:<26}{alone:>16,}{of:>20}{opening:>16,}", flush=True)
        rows.append(counts_row(artifact, "Python", opening, alone, many, round(together / many)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("artifacts", nargs="*", type=Path, help=".twa files (the README's networks and the digits)")
    parser.add_argument("--costs", action="store_true", help="fit what a unit of work takes")
    parser.add_argument("--json", type=Path, help="also keep the counts in this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.costs:
            show_costs(Path(scratch))
        else:
            rows = show_prepared(Path(scratch), [path.resolve() for path in options.artifacts])
            keep_rows(options.json, rows, COUNTED)


if __name__ == "__main__":
    main()
