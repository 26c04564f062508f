"""The stand-in for ``pynq`` in two processes: the driver on an emulated machine, the hardware on this one.

The driver's process has a :class:`FacadeAfar`, this one answers for it with :func:`answer`. Register accesses and cache
maintenance are messages; a buffer is a file that both processes map. So the emulated machine runs the board's own
driver, and what it drives runs at this machine's speed.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.config import Config, load_config
from tilewright.hw.verilated.facade import Facade, SharedBuffer
from tilewright.isa.program import whole_pages


class FacadeAfar(Facade):
    """Stands for the ``pynq`` package where the hardware is at the other end of ``connection``."""

    def __init__(self, config: Config, connection: Connection) -> None:
        super().__init__(config, files=False)
        self._connection = connection

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._connection.send((name, arguments))
            answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def load(self, config: Config) -> None:
        self._ask("load", config.name)
        self._loaded = config

    def allocate(self, shape: tuple[int, ...], dtype: Any = "u4", cacheable: int = 0) -> SharedBuffer:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        number, address, path = self._ask("allocate", size)
        memory = np.memmap(path, np.uint8, "r+", shape=(whole_pages(size),))
        buffer = memory[:size].view(np.dtype(dtype)).reshape(shape).view(SharedBuffer)
        buffer.device_address, buffer._region, buffer._facade = address, number, self
        return buffer

    def free(self, region: Any) -> None:
        self._ask("free", region)

    def synchronise(self, region: Any, to_memory: bool) -> None:
        self._ask("synchronise", region, to_memory)

    def read_register(self, offset: int) -> int:
        return int(self._ask("read_register", offset))

    def write_register(self, offset: int, value: int) -> None:
        self._ask("write_register", offset, int(value))

    def interrupt_line(self) -> bool:
        return bool(self._ask("interrupt_line"))


def answer(facade: Facade, connection: Connection, folder: Path) -> None:
    """Do what a :class:`FacadeAfar` asks for until it closes; its buffers become files of ``folder``."""
    buffers: list[SharedBuffer] = []

    def allocate(size: int) -> tuple[int, int, str]:
        buffer = facade.allocate((size,), "u1", cacheable=1)
        region, path = buffer._region, folder / f"{len(buffers)}.memory"
        seen = np.memmap(path, np.uint8, "w+", shape=region.cached.shape)
        seen[:] = region.cached
        region.cached = seen
        buffers.append(buffer)
        return len(buffers) - 1, region.address, str(path)

    known: dict[str, Callable[..., Any]] = {
        "load": lambda name: facade.load(load_config(name)),
        "allocate": allocate,
        "free": lambda number: facade.free(buffers[number]._region),
        "synchronise": lambda number, to_memory: facade.synchronise(buffers[number]._region, to_memory),
        "read_register": facade.read_register,
        "write_register": facade.write_register,
        "interrupt_line": facade.interrupt_line,
    }
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            result = known[name](*arguments)
        except Exception as error:  # noqa: BLE001 - it is raised in the process that asked
            result = error
        connection.send(result)
