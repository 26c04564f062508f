"""Random networks on every device, one after another in one process: every integer is right, and nothing grows.

``python -m tests.campaigns.devices [--minutes M] [--first SEED]``: each network is compiled for ``tiny`` and run on the
simulator, the Verilated RTL, the HLS C++, the driver of a board (the RTL behind PYNQ's interfaces) and a server, which
stay open. Prints the networks run, what differed, and at a tenth of the time and at the end this process's and the
server's memory, threads and open files. Exit code 1 if an integer differed, memory grew by more than a quarter, or
threads or files are more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.campaigns.kills import free_port, served
from tests.campaigns.soak import resident
from tests.fuzz.compare import first_difference
from tests.fuzz.expose import computed_in_float
from tests.fuzz.seeds import draw_network, recipe_inputs
from tests.runtime.board import open_board
from tilewright.checking import reference_outputs
from tilewright.config import PRESETS
from tilewright.errors import TilewrightError
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.executable import Executable

TINY = PRESETS["tiny"]
FORMATS = ("tflite", "onnx")
IMAGES = 2  #: of each network, the RTL being slow


class Held:
    """What the processes hold: KiB of memory, threads and open files of this one, KiB of the server."""

    def __init__(self, server: int) -> None:
        self.memory = resident(os.getpid()), resident(server)
        self.threads, self.files = threading.active_count(), len(os.listdir("/proc/self/fd"))

    def __str__(self) -> str:
        here, there = (kib >> 10 for kib in self.memory)
        return f"{here} MB, {self.threads} threads, {self.files} files; the server {there} MB"

    def grown(self, earlier: Held) -> bool:
        """Whether it is more than it was, of memory by a quarter."""
        memory = any(now > 1.25 * then for now, then in zip(self.memory, earlier.memory, strict=True))
        return memory or self.threads > earlier.threads or self.files > earlier.files


def differences(path: Path, inputs: list[Any], devices: dict[str, Device]) -> dict[str, str]:
    """By device, what of a network's outputs differs from the reference's, in words."""
    expected = reference_outputs(path, inputs)
    artifact = tw.compile(path, TINY, cache=False, exact="proven", compare=False).artifact
    given: Any = inputs[0] if len(inputs) == 1 else inputs
    found: dict[str, str] = {}
    for name, device in devices.items():
        try:
            results = Executable(artifact, device).run(given)[0]
            outputs = results if isinstance(results, list) else [results]
            difference = first_difference(outputs, expected, computed_in_float(path))
        except TilewrightError as error:
            difference = str(error)
        if difference is not None:
            found[name] = difference
    return found


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--first", type=int, default=500_000)
    options = parser.parse_args()
    port = free_port()
    began, seed, wrong, counts = time.monotonic(), options.first, 0, Counter[str]()
    early: Held | None = None
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        server = stack.enter_context(served(place, port))
        devices: dict[str, Device] = {name: open_device(name, TINY) for name in ("sim", "rtl", "hls")}
        devices |= {"pynq": open_board(place), "server": open_device(f"pynq://127.0.0.1:{port}", TINY, wait=300)}
        while time.monotonic() - began < 60 * options.minutes:
            kind = FORMATS[seed % len(FORMATS)]
            recipe, path, _ = draw_network(kind, seed, "small", place)
            inputs = [images[:IMAGES] for images in recipe_inputs(recipe, path)]
            try:
                found = differences(path, inputs, devices)
            except TilewrightError as error:  # the reference's or the compiler's: for tests.fuzz
                found = {}
                counts[f"refused: {type(error).__name__}"] += 1
            else:
                counts[kind] += 1
            for name, difference in found.items():
                wrong += 1
                print(f"{kind} {seed} on {name}: {difference}", flush=True)
            path.unlink()
            seed += 1
            if early is None and time.monotonic() - began > 6 * options.minutes:
                early = Held(server.pid)
                print(f"after {sum(counts.values())}: {early}", flush=True)
        end = Held(server.pid)
        for device in devices.values():
            device.close()
    print(f"{dict(counts)} on {', '.join(devices)}: {wrong} differ; at the end {end}")
    return int(bool(wrong) or early is None or end.grown(early))


if __name__ == "__main__":
    raise SystemExit(main())
