"""``make test-board``: what a board loads, on 32-bit and 64-bit ARM, and on the oldest Python and NumPy.

On each machine the runtime's modules load, ``selftest`` passes on the Verilated design, and the networks of the README
and ResNet-18 are verified, run, and compared with this machine's outputs byte by byte (their accelerator is simulated
here). A machine that cannot be had here is left out, and named.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.conftest import REPOSITORY as ROOT
from tests.machines import networks
from tests.machines.afar import answer
from tests.machines.roots import MACHINES, Machine, Missing
from tests.machines.simulated import SimulatedFacade
from tests.runtime.test_board_python import loaded_modules
from tilewright.config import load_config
from tilewright.files import CACHE_VARIABLE
from tilewright.hw.verilated.facade import Facade
from tilewright.runtime.native.library import VARIABLE

FOLDER = ROOT / "build" / "machines"
NUMPY = "0"  #: what TILEWRIGHT_NATIVE is where NumPy does the host's steps


def run(machine: Machine, library: str, cache: Path, folder: Path, names: list[str], boards: list[Facade]) -> list[str]:
    """What went wrong on a machine with a host library; empty if nothing did. ``boards``: the networks' hardware and,
    where it is to be tested, the self-test's."""
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        ends, threads = [], []
        for number, facade in enumerate(boards):
            here, there = socket.socketpair()
            memory = Path(scratch, f"board{number}")
            memory.mkdir()
            threads.append(threading.Thread(target=answer, args=(facade, Connection(here.detach()), memory)))
            threads[-1].start()
            ends.append(there)
        files = [end.fileno() for end in ends]
        modules = ",".join(loaded_modules())
        arguments = [str(folder), scratch, modules, ",".join(names), networks.CONFIG, *map(str, files)]
        command = [*machine.command, "-m", "tests.machines.inside", *arguments]
        own = {CACHE_VARIABLE: str(cache), VARIABLE: library}
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, **machine.environment, **own}, pass_fds=files)
        for end in ends:
            end.close()
        for thread in threads:
            thread.join()
        if ended.returncode:
            return [f"exit code {ended.returncode}"]
        for name in names:
            differing = networks.differing(Path(scratch, f"{name}.y.npz"), folder / f"{name}.y.npz")
            failed += [f"{name}: {line}" for line in differing]
    return failed


def main() -> int:
    """0 where no machine failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("machines", nargs="*", default=list(MACHINES), metavar="MACHINE", help=", ".join(MACHINES))
    names: list[str] = []
    failed = False
    for name in parser.parse_args().machines:
        start, folder = time.perf_counter(), FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            machine = MACHINES[name].machine(folder)
        except Missing as error:
            print(f"== {name}: left out: {error}", flush=True)
            continue
        names = names or networks.prepare(FOLDER)
        print(f"== {name}", flush=True)
        wrong, tested = [], [Facade(load_config("tiny"), files=False)]
        with tempfile.TemporaryDirectory() as cache:  # what this machine has verified does not count there
            for library in [NUMPY] if machine.library is None else [machine.library, NUMPY]:
                hardware = SimulatedFacade(load_config(networks.CONFIG), files=False, memory_bytes=512 << 20)
                wrong += run(machine, library, Path(cache), FOLDER, names, [hardware, *tested])
                tested = []  # once
        failed |= bool(wrong)
        said = "; ".join(wrong) or f"{len(names)} networks equal those of this machine byte by byte"
        print(f"  {said} ({time.perf_counter() - start:.0f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
