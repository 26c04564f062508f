"""Inferences in flight: the same integers in order, cores and CPU at work at once, and what goes wrong on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tests.runtime.remote.serving import serving
from tilewright.progress import Advance
from tilewright.runtime import executable as executable_module
from tilewright.runtime.device import Allocation, DeviceFault
from tilewright.runtime.executable import Executable, InputError
from tilewright.runtime.sim_device import SimDevice


def expected(x: NDArray[np.int8]) -> NDArray[np.int8]:
    return reference(x)[1].reshape(len(x), 32)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_outputs_are_those_of_one_after_another(cores: int, jobs: int, count: int) -> None:
    x, seen = images(count), list[int]()
    executable = Executable(make_artifact(), SimDevice(TINY.replace(cores=cores)))
    y, report = executable.run(x, jobs=jobs, progress=seen.append)
    assert np.array_equal(y, expected(x))
    assert sum(seen) == count
    alone = executable.run(x)[1]
    assert report.digests == alone.digests
    assert report.cycles == alone.cycles
    assert alone.to_dict()["steady"] is None


def test_the_busier_of_cores_and_cpu_decides() -> None:
    report = Executable(make_artifact()).run(images(40), jobs=2)[1]
    steady = report.to_dict()["steady"]
    assert steady["cores_ms"] == report.interval_ms
    assert steady["host_ms"] == report.host_ms / 2
    assert steady["inferences_per_second"] == pytest.approx(1e3 / max(report.interval_ms, report.host_ms / 2))
    assert steady["busiest"] == ("cores" if report.interval_ms > report.host_ms / 2 else "CPU")
    assert steady["measured_per_second"] is None, "the simulator's own time says nothing"
    assert (steady["jobs"], steady["in_flight"]) == (2, 8)


class Waiting(SimDevice):
    """Its first launch ends when inputs of another group have been written, and not before."""

    simulates = False

    def __init__(self) -> None:
        super().__init__(TINY)
        self.launches, self.groups = 0, set[int]()
        self.written = threading.Event()

    def write_stack(self, allocation: Allocation, *arguments: Any) -> None:
        super().write_stack(allocation, *arguments)
        self.groups.add(id(allocation))
        if len(self.groups) > 1:
            self.written.set()

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        self.launches += 1
        assert self.written.wait(60), "nothing was packed while the launch ran"
        super()._wait(allocation, inferences, progress)


def test_the_cpu_packs_the_next_inputs_while_a_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_module, "LAUNCH_INFERENCES", 2)
    x, device = images(40), Waiting()
    y, report = Executable(make_artifact(), device).run(x, jobs=1)
    assert np.array_equal(y, expected(x))
    assert device.launches == 20
    assert report.to_dict()["steady"]["measured_per_second"] > 0


class Jealous(SimDevice):
    """Can do one thing at a time, as a connection can."""

    overlaps = False

    def __init__(self) -> None:
        super().__init__(TINY)
        self._busy = threading.Lock()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._busy.acquire(blocking=False), "used by two threads at once"
        try:
            yield
        finally:
            self._busy.release()

    def write_stack(self, *arguments: Any) -> None:
        with self._alone():
            super().write_stack(*arguments)

    def read_stack(self, *arguments: Any) -> NDArray[np.uint8]:
        with self._alone():
            return super().read_stack(*arguments)

    def run_together(self, *arguments: Any) -> None:
        with self._alone():
            super().run_together(*arguments)


def test_a_device_that_can_do_one_thing_is_asked_for_one() -> None:
    x = images(200)
    assert np.array_equal(Executable(make_artifact(), Jealous()).run(x, jobs=4)[0], expected(x))


def test_another_machines_device_gives_the_same() -> None:
    x = images(30)
    with serving() as running:
        y, report = Executable(make_artifact(), running.client()).run(x, jobs=3)
    assert np.array_equal(y, expected(x))
    assert report.to_dict()["steady"]["measured_per_second"] is None, "it simulates there"


def test_a_fault_ends_all_and_leaves_the_device_usable() -> None:
    device = SimDevice(TINY)
    faulty = make_artifact(programs=(make_program(faulty=True),))
    with pytest.raises(DeviceFault, match="SEGMENT"):
        Executable(faulty, device, verified=True).run(images(30), jobs=3)
    assert np.array_equal(Executable(make_artifact(), device).run(images(2), jobs=3)[0], expected(images(2)))


def test_what_a_step_of_the_cpu_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr("tilewright.runtime.flights.run_host_step", fail)
    with pytest.raises(ValueError, match="on purpose"):
        Executable(make_artifact()).run(images(30), jobs=3)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2"])
def test_threads_are_a_number_from_one_on(jobs: Any) -> None:
    with pytest.raises(InputError, match=f"jobs = {jobs!r}: must be an integer from 1 to 256 threads"):
        Executable(make_artifact()).run(images(1), jobs=jobs)
