"""What runs on a machine: every module of a board loads, the self-test passes, every network runs. NumPy alone."""

from __future__ import annotations

import platform
import sys
import time
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tests.machines.afar import FacadeAfar
from tilewright.config import load_config
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.native.library import library
from tilewright.runtime.pynq.manifest import Manifest
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.selftest.checks import Bench, run_checks
from tilewright.runtime.selftest.command import LAUNCH_SECONDS, print_findings


def board(config: str, file: int) -> PynqDevice:
    """The board's own driver on the hardware at the other end of an open file."""
    chosen = load_config(config)
    facade = FacadeAfar(chosen, Connection(file))
    return PynqDevice(chosen, Manifest(Path("afar.bit"), chosen), timeout=LAUNCH_SECONDS, pynq=facade)


def digest(y: Any) -> list[bytes]:
    """What outputs are told apart by."""
    return [values.tobytes() for values in (y if isinstance(y, list) else [y])]


def run(name: str, folder: Path, results: Path, device: PynqDevice) -> None:
    """Load and verify a network and keep what it gives for its inputs."""
    start = time.perf_counter()
    executable = Executable(Artifact.load(folder / f"{name}.twa"), device)
    loaded = time.perf_counter()
    with np.load(folder / f"{name}.x.npz") as data:
        x = [data[key] for key in data.files]
    y, report = executable.run(x)
    with executable.prepare(len(x[0])) as infer:
        assert digest(infer(x)) == digest(y), f"{name}: prepared, it gives something else"
    np.savez(results / f"{name}.y.npz", *(y if isinstance(y, list) else [y]))
    print(f"  {name:<24}opened in {loaded - start:.1f} s, {report.cycles:,} cycles", flush=True)


def main(folder: str, results: str, modules: str, networks: str, config: str, *files: str) -> int:
    """``modules``, ``networks``: names, with commas; ``config``: of the networks; ``files``: open ones, the networks'
    hardware and, where it is to be tested, the self-test's."""
    bits = 64 if sys.maxsize > 1 << 32 else 32
    print(f"{platform.machine()}, {bits} bits, Python {platform.python_version()}, NumPy {np.__version__}", flush=True)
    names = modules.split(",")
    for name in names:
        import_module(name)
    print(f"  {len(names)} modules load", flush=True)
    if files[1:] and not print_findings(run_checks(Bench(board("tiny", int(files[1]))))):
        return 1
    print(f"  host steps: {'NumPy' if library() is None else 'compiled'}", flush=True)
    device = board(config, int(files[0]))
    for name in networks.split(","):
        run(name, Path(folder), Path(results), device)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
