"""A server with good clients beside bad, slow and dying ones: no good one is refused or gets a wrong integer.

``python -m tests.campaigns.soak [--minutes M] [--good N] [--bad N]``. Bad clients drip bytes, stay silent, send noise,
run a program that faults, or die in the middle of a job. Prints the good clients' latencies
(median, p99, longest) and the server's memory at a tenth of the time and at the end. Exit code 1 if a good client
failed or memory grew by more than a half.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.campaigns.kills import free_port, served
from tests.runtime.network import images, make_artifact, reference
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice

GOOD, FAULTY = make_artifact(), make_artifact(faulty=True)
X = images(4)
WANTED = reference(X)[1].reshape(4, 32)


class Soak:
    """Clients until a time is over, and what became of them."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.until = port, time.monotonic() + seconds
        self.latencies: list[float] = []
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def device(self) -> RemoteDevice:
        """A connection to be."""
        return RemoteDevice(GOOD.config, f"pynq://127.0.0.1:{self.port}", wait=300)

    def good(self, seed: int) -> None:
        """Run after run, each compared; a pause now and then."""
        rng = random.Random(seed)
        while time.monotonic() < self.until:
            began = time.monotonic()
            try:
                right = np.array_equal(Executable(GOOD, self.device())(X), WANTED)
            except TilewrightError as error:
                self.failures.append(str(error))
                continue
            self.latencies.append(time.monotonic() - began)
            if not right:
                self.failures.append("wrong integers")
            time.sleep(rng.uniform(0, 0.2))

    def bad(self, seed: int) -> None:
        """One way to be bad after another."""
        rng = random.Random(seed)
        ways: tuple[Callable[[random.Random], None], ...] = (
            self._drip, self._silent, self._noise, self._fault, self._die,
        )  # fmt: skip
        while time.monotonic() < self.until:
            way = rng.choice(ways)
            with contextlib.suppress(TilewrightError, OSError):  # what a bad client is told is its own affair
                way(rng)
            self.counts[way.__name__.strip("_")] += 1

    def _socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 5)

    def _drip(self, rng: random.Random) -> None:
        with self._socket() as connection:
            for byte in b"TWR1\x00\x01\x00\x00":
                connection.sendall(bytes([byte]))
                time.sleep(rng.uniform(0.05, 0.3))

    def _silent(self, rng: random.Random) -> None:
        with self._socket():
            time.sleep(rng.uniform(0.2, 2))

    def _noise(self, rng: random.Random) -> None:
        with self._socket() as connection:
            connection.sendall(rng.randbytes(rng.randint(1, 5000)))

    def _fault(self, rng: random.Random) -> None:
        Executable(FAULTY, self.device())(X)

    def _die(self, rng: random.Random) -> None:
        """A child that is killed with a job under way."""
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                Executable(GOOD, self.device())(images(64))
            os._exit(0)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, 9)
        os.waitpid(child, 0)


def resident(pid: int) -> int:
    """KiB of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--good", type=int, default=4)
    parser.add_argument("--bad", type=int, default=6)
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place, served(Path(place), port) as server:
        soak = Soak(port, 60 * options.minutes)
        threads = [threading.Thread(target=soak.good, args=(k,)) for k in range(options.good)]
        threads += [threading.Thread(target=soak.bad, args=(100 + k,)) for k in range(options.bad)]
        for thread in threads:
            thread.start()
        time.sleep(6 * options.minutes)
        early = resident(server.pid)
        for thread in threads:
            thread.join()
        late = resident(server.pid)
    ms = sorted(1e3 * latency for latency in soak.latencies)
    print(
        f"{len(ms):,} runs of {options.good} good clients: median {ms[len(ms) // 2]:.0f} ms, "
        f"p99 {ms[len(ms) * 99 // 100]:.0f} ms, longest {ms[-1]:.0f} ms; {len(soak.failures)} failed"
    )
    print("bad ones:", ", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items())))
    print(f"the server's memory: {early:,} KiB, {late:,} KiB in the end")
    for text in sorted(set(soak.failures)):
        print("  ", text)
    return int(bool(soak.failures) or late > 1.5 * early)


if __name__ == "__main__":
    sys.exit(main())
