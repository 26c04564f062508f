"""Threads that share a device: each gets its own results, and a run within a run is refused instead of waited for."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import HANG
from tests.runtime.board import open_board
from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tests.runtime.remote.serving import serving
from tilewright.config import Config
from tilewright.hw.verilated.facade import Facade
from tilewright.isa.program import Program
from tilewright.isa.registers import offsets
from tilewright.progress import Advance
from tilewright.runtime import collect_reports, regions, run_bytes, use_device
from tilewright.runtime import device as device_module
from tilewright.runtime.device import Allocation, Device, DeviceError, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.pynq.manifest import OverlayError
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.turn import NestedRunError
from tilewright.sim import Functional, initial_segments

THREADS = 6
Run = Callable[[NDArray[Any]], Any]


class Watched(SimDevice):
    """Notes which threads hold segments while it works. Work takes a while, so that those who do not wait meet."""

    def __init__(self) -> None:
        super().__init__(TINY, jobs=1)
        self._holders: list[int] = []
        self.met: list[set[int]] = []

    def _allocate(self, program: Program, inferences: int) -> Any:
        self._holders.append(threading.get_ident())
        return super()._allocate(program, inferences)

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        time.sleep(0.001)
        self.met.append(set(self._holders))
        super()._wait(allocation, inferences, progress)

    def _release(self, allocation: Allocation) -> None:
        self._holders.remove(threading.get_ident())

    @property
    def most(self) -> int:
        """Threads that were in the middle of something at once."""
        return max(map(len, self.met))


def image_of(number: int) -> NDArray[np.int8]:
    """Other values for every thread and round."""
    return np.random.default_rng(number).integers(-128, 128, (1, 2, 4, 4), dtype=np.int8)


def wrong_results(runs: Sequence[Run], rounds: int) -> list[int]:
    """The numbers of the inputs whose outputs are not the reference's, of a thread for each of ``runs``."""
    begin = threading.Barrier(len(runs))

    def thread(number: int) -> list[int]:
        begin.wait()
        found = []
        for k in range(number * rounds, (number + 1) * rounds):
            x = image_of(k)
            y = runs[number](x)
            if not np.array_equal(y, reference(x)[1].reshape(1, 32)):
                found.append(k)
        return found

    with ThreadPoolExecutor(len(runs)) as pool:
        return [k for found in pool.map(thread, range(len(runs))) for k in found]


@pytest.mark.parametrize("jobs", [None, 2])
def test_threads_that_share_an_executable_get_their_own_results(jobs: int | None) -> None:
    device = Watched()
    executable = Executable(make_artifact(), device)
    assert wrong_results([lambda x: executable.run(x, jobs=jobs)[0]] * THREADS, 40) == []
    assert device.most == 1


def test_executables_that_share_a_device_take_turns() -> None:
    device = Watched()
    artifact = make_artifact()  # one program, of which the device keeps one machine
    assert wrong_results([Executable(artifact, device) for _ in range(THREADS)], 40) == []
    assert device.most == 1


def test_streams_of_one_executable_go_on_in_threads() -> None:
    device = Watched()
    executable = Executable(make_artifact(), device)
    assert wrong_results([executable.stream() for _ in range(THREADS)], 30) == []
    assert device.most == 1


def test_one_stream_is_run_from_several_threads_one_after_another() -> None:
    device = Watched()
    stream = Executable(make_artifact(), device).stream()
    assert wrong_results([stream] * THREADS, 30) == []
    assert device.most == 1


def test_threads_share_a_connection_to_a_server() -> None:
    with serving() as running:
        executable = Executable(make_artifact(), running.client())
        assert wrong_results([executable] * THREADS, 8) == []


def test_what_is_served_is_run_here_too_in_turns() -> None:
    with serving() as running:
        there, here = Executable(make_artifact(), running.client()), Executable(make_artifact(), running.device)
        assert wrong_results([there, here, here, here], 8) == []


def test_regions_run_in_threads_and_tell_of_every_run() -> None:
    data = make_artifact().to_bytes()
    with collect_reports() as reports:
        assert wrong_results([lambda x: run_bytes(data, [x])[0].reshape(1, 32)] * THREADS, 20) == []
    assert len(reports) == THREADS * 20


def test_regions_that_are_run_for_the_first_time_at_once_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def slowly(name: str, config: Config) -> SimDevice:
        opened.append(name)
        time.sleep(0.05)
        return SimDevice(config)

    monkeypatch.setattr(regions, "_loaded", OrderedDict())
    monkeypatch.setattr(regions, "_opened", {})
    monkeypatch.setattr(device_module, "open_device", slowly)
    data = make_artifact().to_bytes()
    assert wrong_results([lambda x: run_bytes(data, [x])[0].reshape(1, 32)] * THREADS, 2) == []
    assert opened == ["sim"]


def test_threads_that_share_a_machine_of_the_simulator_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memories are cleared for one while they hold what another has computed."""
    program = make_program()
    machine, inside, most = Functional(program), list[int](), list[int]()
    clear = Functional.begin

    def begin(self: Functional, segments: Sequence[NDArray[np.uint8]]) -> None:
        inside.append(threading.get_ident())
        clear(self, segments)
        time.sleep(0.01)
        most.append(len(inside))
        inside.remove(threading.get_ident())

    monkeypatch.setattr(Functional, "begin", begin)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: machine.run(initial_segments(program)), range(8)))
    assert max(most) == 1


def test_who_leaves_use_device_first_takes_along_his_own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    data, mine, theirs = make_artifact().to_bytes(), Counting(), Counting()
    first, second = use_device(mine), use_device(theirs)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    run_bytes(data, [images(1)])
    second.__exit__(None, None, None)
    assert (mine.runs, theirs.runs) == (0, 1)


def test_threads_share_the_rtl_device(toolchain: None) -> None:
    device = open_device("rtl", TINY)
    try:
        assert wrong_results([Executable(make_artifact(), device) for _ in range(4)], 4) == []
    finally:
        device.close()


def test_threads_share_the_hls_device(hls_toolchain: None) -> None:
    device = open_device("hls", TINY)
    try:
        assert wrong_results([Executable(make_artifact(), device) for _ in range(4)], 10) == []
    finally:
        device.close()


def test_devices_on_one_board_take_turns(toolchain: None, tmp_path: Path) -> None:
    facade = Facade(TINY)
    devices = [open_board(tmp_path, facade=facade) for _ in range(2)]
    assert devices[0].turn is devices[1].turn
    assert wrong_results([Executable(make_artifact(), device) for device in [*devices, *devices]], 2) == []


# -- a run within a run --------------------------------------------------------------------------------


class Counting(SimDevice):
    """Counts the launches that it waited for."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.runs = 0

    def _wait(self, *arguments: Any) -> None:
        self.runs += 1
        super()._wait(*arguments)


def nested(outer: Callable[[Advance], Any], inner: Callable[[], Any]) -> str:
    """What a run says within which ``inner`` is called; a thread that hangs fails the test."""
    said: list[str] = []

    def thread() -> None:
        try:
            outer(lambda finished: inner())
        except NestedRunError as error:
            said.append(str(error))

    runner = threading.Thread(target=thread, daemon=True)
    runner.start()
    runner.join(60)
    assert not runner.is_alive(), "waits for itself"
    return said[0] if said else ""


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_run_within_a_run_is_refused(jobs: int | None) -> None:
    executable, x = Executable(make_artifact()), images(2)
    other = Executable(make_artifact())
    inner: tuple[Run, ...] = (executable, other, executable.stream())
    for run in inner:
        said = nested(lambda progress: executable.run(x, jobs=jobs, progress=progress), functools.partial(run, x))
        assert said.startswith("toy: a run of toy has not ended")
        assert "\n" not in said
    assert np.array_equal(executable(x), reference(x)[1].reshape(2, 32)), "and the device is free again"


def test_a_stream_within_its_own_run_is_refused_and_then_reset() -> None:
    stream, x = Executable(make_artifact()).stream(), images(1)
    assert "has not ended" in nested(lambda progress: stream.run(x, progress=progress), lambda: stream(x))
    stream.reset()
    assert np.array_equal(stream(x), reference(x)[1].reshape(1, 32))


def test_a_run_that_fails_gives_the_turn_back() -> None:
    executable, x = Executable(make_artifact()), images(1)

    def failing(finished: int) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        executable.run(x, progress=failing)
    assert wrong_results([executable] * 2, 1) == []


# -- by hand -------------------------------------------------------------------------------------------


def check_one_launch_at_a_time(device: Device) -> None:
    """A second launch, and bytes of one that is under way, are refused; what was launched first is not harmed."""
    program = make_program()
    first, second = device.allocate(program, 1), device.allocate(program, 1)
    segment = next(k for k, s in enumerate(program.segments) if s.kind == "input")
    device.launch(first, 1)
    with pytest.raises(DeviceError, match="has not been waited for"):
        device.launch(second, 1)
    with pytest.raises(DeviceError, match="has not been waited for"):
        device.run_together([second], 1)
    with pytest.raises(DeviceError, match="are in use"):
        device.read(first, segment, 0, 0, 1)
    with pytest.raises(DeviceError, match="are in use"):
        device.write(first, segment, 0, 0, np.zeros(1, np.uint8))
    device.wait(first)
    device.launch(second, 1)
    device.release(second)
    device.launch(first, 1)
    device.wait(first)
    device.release(first)


def test_a_device_is_launched_once_until_it_is_waited_for() -> None:
    check_one_launch_at_a_time(SimDevice(TINY))


def test_the_rtl_device_is_launched_once_until_it_is_waited_for(toolchain: None) -> None:
    device = open_device("rtl", TINY)
    try:
        check_one_launch_at_a_time(device)
    finally:
        device.close()


def test_devices_on_one_board_alternate(toolchain: None, tmp_path: Path) -> None:
    """The second writes the registers that the first had written, and would not write again."""
    facade = Facade(TINY)
    first, second = (Executable(make_artifact(), open_board(tmp_path, facade=facade)) for _ in range(2))
    for k, executable in enumerate((first, second, first, first, second)):
        assert np.array_equal(executable(image_of(k)), reference(image_of(k))[1].reshape(1, 32))
    running, waiting = first.device, second.device
    program = make_program()
    allocation = running.allocate(program, 1)
    running.launch(allocation, 1)
    with pytest.raises(OverlayError, match="a run of another device"):
        waiting.launch(waiting.allocate(program, 1), 1)
    running.wait(allocation)
    first(image_of(9))
    other = facade.broken(registers={offsets(TINY)["FINGERPRINT_LOW"]: 1})
    with other, pytest.raises(OverlayError, match="another overlay since"):
        second(image_of(9))
    assert np.array_equal(second(image_of(9)), reference(image_of(9))[1].reshape(1, 32))


def test_a_machine_that_fails_is_free_for_the_other_inferences(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = Executable(make_artifact(), SimDevice(TINY, jobs=2))
    compute, calls = Functional.run, itertools.count()

    def fails_twice(self: Functional, segments: Any) -> Any:
        if next(calls) < 2:  # both machines
            raise MemoryError("no room")
        return compute(self, segments)

    raised: list[BaseException] = []

    def run() -> None:
        try:
            executable.run(np.concatenate([image_of(k) for k in range(8)]))
        except MemoryError as error:
            raised.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(Functional, "run", fails_twice)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(HANG)
        assert not thread.is_alive(), "the other inferences wait for a machine for ever"
    assert len(raised) == 1
    assert wrong_results([lambda x: executable.run(x)[0]], 4) == []
