"""A board for tests: the overlay's files, and the Verilated design behind PYNQ's interfaces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtime.network import TINY, images, make_program
from tilewright.config import Config
from tilewright.hw.verilated.facade import Facade
from tilewright.isa.program import Program
from tilewright.runtime.device import Counters, Device, open_device
from tilewright.runtime.pynq_device import PynqDevice

__all__ = ["device", "devices_of", "expected", "facade", "open_board", "run_network", "works", "write_overlay"]


def write_overlay(folder: Path, config: Config = TINY, name: str = "tilewright", /, **changes: Any) -> Path:
    """The three files of an overlay; returns the ``.bit``. ``changes`` go into the manifest, None removes a key."""
    bitstream = folder / f"{name}.bit"
    bitstream.write_bytes(b"a bitstream of " + config.name.encode())
    bitstream.with_suffix(".hwh").write_text("<a block design/>")
    manifest = {
        "format": 1,
        "config": config.to_dict(),
        "fingerprint": config.fingerprint,
        "bitstream_sha256": hashlib.sha256(bitstream.read_bytes()).hexdigest(),
        "ip": "tilewright_0",
        "interrupt": "tilewright_0/irq",
        "board": "none",
        **changes,
    }
    kept = {key: value for key, value in manifest.items() if value is not None}
    bitstream.with_suffix(".json").write_text(json.dumps(kept))
    return bitstream


def open_board(folder: Path, config: Config = TINY, facade: Facade | None = None, **options: Any) -> PynqDevice:
    """A device on a facade, which its ``board`` holds. A launch may take minutes: the design is simulated."""
    overlay = write_overlay(folder, config)
    return PynqDevice(config, overlay, pynq=facade or Facade(config), **{"timeout": 600.0, **options})


def devices_of(config: Config) -> tuple[Any, Any]:
    """Fixtures ``board`` and ``rtl`` of a module: the design of a Config behind PYNQ's interfaces, and as it is."""

    @pytest.fixture(scope="module")
    def board(toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> PynqDevice:
        return open_board(tmp_path_factory.mktemp("overlay"), config, Facade(config))

    @pytest.fixture(scope="module")
    def rtl(toolchain: None) -> Iterator[Device]:
        device = open_device("rtl", config)
        yield device
        device.close()

    return board, rtl


def run_network(device: Device, count: int = 3, program: Program | None = None) -> tuple[NDArray[np.uint8], Counters]:
    """Output bytes (count, size) and counters of the tiny network on ``device``."""
    program, x = program or make_program(device.config), images(count)
    allocation = device.allocate(program, count)
    kinds = [s.kind for s in program.segments]
    device.write_stack(allocation, kinds.index("input"), 0, x.reshape(count, -1).view(np.uint8))
    device.launch(allocation, count)
    device.wait(allocation)
    output = kinds.index("output")
    data = device.read_stack(allocation, output, count, 0, program.segments[output].size)
    counters = device.counters(allocation)
    device.release(allocation)
    return data, counters


@pytest.fixture(scope="module")
def facade(toolchain: None) -> Facade:
    return Facade(TINY)


@pytest.fixture(scope="module")
def device(facade: Facade, tmp_path_factory: pytest.TempPathFactory) -> PynqDevice:
    return open_board(tmp_path_factory.mktemp("overlay"), facade=facade)


@pytest.fixture(scope="module")
def expected(toolchain: None) -> tuple[np.ndarray, Counters]:
    """What the ``rtl`` device makes of the tiny network."""
    return run_network(open_device("rtl", TINY))


def works(device: Device, expected: tuple[np.ndarray, Counters]) -> bool:
    data, counters = run_network(device)
    return bool((data == expected[0]).all()) and counters.cycles == expected[1].cycles
