"""A server on a free port of this machine, and what its tests ask of it."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tests.runtime.network import TINY, images, make_artifact, reference
from tilewright.progress import Advance
from tilewright.runtime.device import Allocation, Device
from tilewright.runtime.device_base import fault
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.remote.frames import MAGIC, PREFIX, Channel
from tilewright.runtime.remote.server import Limits, Server
from tilewright.runtime.sim_device import SimDevice


@dataclasses.dataclass
class Running:
    """A server on a free port of this machine."""

    server: Server
    device: Device
    lines: list[str]

    @property
    def url(self) -> str:
        return f"pynq://127.0.0.1:{self.server.port}"

    def client(self, **options: object) -> RemoteDevice:
        return RemoteDevice(TINY, self.url, **options)  # type: ignore[arg-type]

    def saw(self, text: str) -> bool:
        """Whether the log has, or soon gets, a line with ``text``."""
        return eventually(lambda: any(text in line for line in self.lines))

    def is_well(self) -> bool:
        """Whether a new client gets right results."""
        x = images(2)
        y = Executable(make_artifact(), self.client()).run(x)[0]
        return np.array_equal(y, reference(x)[1].reshape(2, -1))


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def serving(device: Device | None = None, limits: Limits | None = None, **options: object) -> Iterator[Running]:
    lines: list[str] = []
    device = device or SimDevice(TINY)
    server = Server(device, port=0, limits=limits or Limits(), log=lines.append, **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Running(server, device, lines)
    finally:
        server.close()
        thread.join(10)
        assert not thread.is_alive()


class GatedDevice(SimDevice):
    """A simulator whose launches end when the gate is opened."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.entered, self.gate, self.released = threading.Event(), threading.Event(), 0

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        self.entered.set()
        assert self.gate.wait(30)
        super()._wait(allocation, inferences, progress)

    def _release(self, allocation: Allocation) -> None:
        self.released += 1
        super()._release(allocation)


class Failing(SimDevice):
    """A simulator whose launches end with a fault until it is mended."""

    fail = True

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        if self.fail:
            raise fault(self, allocation.program, "BUS_ERROR", 3, "no answer")
        super()._wait(allocation, inferences, progress)


def greet(running: Running, source: str = "127.0.0.1", **hello: object) -> Channel:
    """A connection that has asked for the device; the answer is not read yet."""
    connection = socket.create_connection(("127.0.0.1", running.server.port), 20, (source, 0))
    channel = Channel(connection, "server", 1 << 20)
    channel.receive()
    channel.send({"purpose": "job", **hello})
    return channel


def greeted(running: Running) -> Channel:
    """A connection that has the device."""
    channel = greet(running)
    assert "error" not in channel.receive()[0]
    return channel


def raw(text: bytes, payload: int = 0, magic: bytes = MAGIC) -> bytes:
    return PREFIX.pack(magic, len(text), payload) + text
