"""Threads that share an executable, or a device, each get their own results; what is of one process stays there."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtime.network import TINY, images, make_artifact, reference
from tests.runtime.remote.serving import serving
from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.program import Program
from tilewright.progress import Advance
from tilewright.runtime import device as device_module
from tilewright.runtime import regions, run_bytes
from tilewright.runtime.device import Allocation, DeviceError
from tilewright.runtime.executable import Executable, InputError
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.turn import BusyError, Turn

THREADS, RUNS = 6, 12


def expected(x: NDArray[np.int8]) -> NDArray[np.int8]:
    return reference(x)[1].reshape(len(x), 32)


def differing(run: Callable[[int], Callable[[NDArray[np.int8]], Any]]) -> int:
    """Runs with other integers than the reference's, of several threads; ``run(thread)`` is what each calls."""
    inputs = [images(1 + k % 3, seed=k) for k in range(THREADS * RUNS)]
    ready = threading.Barrier(THREADS)

    def work(thread: int) -> int:
        ready.wait(60)
        mine = inputs[thread::THREADS]
        return sum(not np.array_equal(run(thread)(x), expected(x)) for x in mine)

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(work, range(THREADS)))


class Sole(SimDevice):
    """Lets others run while it launches, and notes when one has its segments meanwhile."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.holders: dict[int, int] = {}
        self.together = 0

    def allocate(self, program: Program, inferences: int) -> Allocation:
        self.holders[threading.get_ident()] = self.holders.get(threading.get_ident(), 0) + 1
        return super().allocate(program, inferences)

    def release(self, allocation: Allocation) -> None:
        super().release(allocation)
        self.holders[threading.get_ident()] -= 1

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        time.sleep(0.002)
        self.together += sum(count > 0 for count in self.holders.values()) - 1
        super()._wait(allocation, inferences, progress)


def test_one_run_at_a_time() -> None:
    device = Sole()
    executable = Executable(make_artifact(), device)
    assert not differing(lambda thread: executable)
    assert not device.together
    assert len(device.holders) == THREADS


@pytest.mark.parametrize("jobs", [None, 2])
def test_one_executable(jobs: int | None) -> None:
    executable = Executable(make_artifact())
    assert not differing(lambda thread: lambda x: executable.run(x, jobs=jobs)[0])


def test_one_device() -> None:
    """Two executables of one artifact, whose programs the device keeps once."""
    artifact, device = make_artifact(), SimDevice(TINY)
    several = [Executable(artifact, device) for _ in range(THREADS)]
    assert not differing(lambda thread: several[thread])


def test_one_connection() -> None:
    with serving() as server:
        executable = Executable(make_artifact(), server.client())
        assert not differing(lambda thread: executable)


def test_streams_of_one_executable() -> None:
    executable = Executable(make_artifact())
    streams = [executable.stream() for _ in range(THREADS)]
    assert not differing(lambda thread: streams[thread])


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_run_within_a_run_is_refused(jobs: int | None) -> None:
    executable = Executable(make_artifact())
    other = Executable(make_artifact())
    x = images(2)

    def again(device: Executable) -> Callable[[int], None]:
        return lambda _: device.run(x) and None

    with pytest.raises(BusyError, match="has not ended.* run it after"):
        executable.run(x, jobs=jobs, progress=again(executable))
    y, _ = executable.run(x, progress=again(other))  # another device is another matter, and the first is free again
    assert np.array_equal(y, expected(x))


def test_who_fails_gives_the_turn_on() -> None:
    turn = Turn()
    with pytest.raises(ZeroDivisionError), turn.taken("it"):
        raise ZeroDivisionError
    with turn.taken("it"), pytest.raises(BusyError, match="^it: "), turn.taken("it"):
        raise AssertionError("taken twice")
    with turn.taken("it"):
        assert turn._lock.locked()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("what", ["executable", "device", "stream"])
def test_what_is_of_one_process_is_not_copied(copied: Callable[[Any], Any], what: str) -> None:
    executable = Executable(make_artifact())
    object_ = {"executable": executable, "device": executable.device, "stream": executable.stream()}[what]
    with pytest.raises(TilewrightError, match="cannot be copied or pickled; (save|open|begin)"):
        copied(object_)


@pytest.mark.parametrize("device", [5, None, SimDevice, TINY])
def test_what_is_no_device(device: Any) -> None:
    with pytest.raises(DeviceError, match=r"^device: must be a device's name \(sim, .*not "):
        Executable(make_artifact(), device)


def test_masked_elements_are_no_numbers() -> None:
    executable, x = Executable(make_artifact()), images(2)
    whole = np.ma.masked_array(x, mask=False)
    assert np.array_equal(executable(whole), expected(x))
    whole[1, ..., 0] = np.ma.masked
    with pytest.raises(InputError, match="masked in places.*x.filled"):
        executable(whole)


def test_regions_of_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that run the same bytes for the first time open one device for all."""
    opened: list[str] = []

    def slowly(name: str, config: Config) -> SimDevice:
        opened.append(name)
        time.sleep(0.05)
        return SimDevice(config)

    monkeypatch.setattr(regions, "_loaded", OrderedDict())
    monkeypatch.setattr(regions, "_opened", {})
    monkeypatch.setattr(device_module, "open_device", slowly)
    data = make_artifact().to_bytes()

    def run(x: NDArray[np.int8]) -> NDArray[np.int8]:
        return np.concatenate([run_bytes(data, [row[None]])[0].reshape(1, -1) for row in x])

    assert not differing(lambda thread: run)
    assert opened == ["sim"]
