"""Several cores behind a server: the integers, the cycles and the refusals of a device of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.jit.split.test_launch import TINY, artifact_of, run
from tests.jit.split.test_linked import ROWS, link, parted
from tests.jit.split.test_pieces import residual
from tests.runtime.remote.serving import Running, serving
from tilewright.isa.codec import decode, encode
from tilewright.isa.program import Program
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device_base import Counters, DeviceError
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.report.report import Report
from tilewright.runtime.sim_device import SimDevice

GRAPH = residual(24)


@pytest.fixture(scope="module")
def linked() -> Artifact:
    return link(parted(GRAPH, TINY, [1], [ROWS, ROWS]))


def client(running: Running) -> RemoteDevice:
    return RemoteDevice(TINY, running.url)


def counted(report: Report) -> list[Counters]:
    return [replace(run.counters, events=None) for run in report.runs]


@pytest.mark.parametrize(
    "make", [lambda: artifact_of(GRAPH, TINY, ROWS), lambda: link(parted(GRAPH, TINY, [1], [ROWS, ROWS]))]
)
def test_programs_run_together_as_on_this_machine(make: Callable[[], Artifact]) -> None:
    """With the host in between, and exchanging through memory that cores share."""
    artifact = make()
    with serving(SimDevice(TINY)) as running:
        there, here = run(GRAPH, artifact, device=client(running)), run(GRAPH, artifact)
        assert there.cycles == here.cycles
        assert counted(there) == counted(here)
        assert len(here.runs) == 4
        assert all(each.counters.together for each in there.runs)
        assert run(GRAPH, artifact, device=client(running)).cycles == here.cycles  # the programs are known by now


def test_a_client_knows_whether_cores_share_memory() -> None:
    with serving(SimDevice(TINY)) as running:
        assert client(running).shares
    fewer = SimDevice(TINY)
    fewer.shares = False
    with serving(fewer) as running:
        assert not client(running).shares


def test_a_server_of_fewer_cores_refuses_by_name(linked: Artifact) -> None:
    with serving(SimDevice(TINY.replace(cores=1))) as running:
        with pytest.raises(
            DeviceError, match="4 programs wait for each other, each on a core of its own, and there are 1"
        ):
            run(GRAPH, linked, device=client(running))
        apart = artifact_of(GRAPH, TINY, ROWS)
        assert not any(each.counters.together for each in run(GRAPH, apart, device=client(running)).runs)


def deaf(program: Program) -> Program:
    """A program that no longer rings at anybody."""
    code = [
        replace(i, fields={**i.fields, "ring": 0}) if "ring" in i.fields else i
        for i in decode(program.instructions, program.config)
    ]
    return replace(program, instructions=encode(code, program.config))


def test_programs_that_would_wait_for_ever_are_not_started(linked: Artifact) -> None:
    """The server does not rely on its client's verifier."""
    with serving(SimDevice(TINY)) as running:
        device = client(running)
        allocations = [device.allocate(deaf(program), 1) for program in linked.programs]
        with pytest.raises(DeviceError, match=r"core \d.*(doorbell|hears|waits)"):
            device.share(allocations)
        with pytest.raises(DeviceError, match="programs that share memory run with those that they share it with"):
            device._run_together(allocations, 1)
        with pytest.raises(DeviceError, match="shares memory with others"):
            device.launch(allocations[0], 1)
        for allocation in allocations:
            device.release(allocation)
        run(GRAPH, linked, device=client(running))


def test_what_is_asked_of_several_is_checked(linked: Artifact) -> None:
    with serving(SimDevice(TINY)) as running:
        device = client(running)
        allocations = [device.allocate(program, 1) for program in linked.programs]
        device.share(allocations)
        with pytest.raises(DeviceError, match="allocation 1 shares memory already"):
            device.share(allocations)
        handles = [allocation.state for allocation in allocations]
        for wrong, why in [
            ([], "a list of 1 to 8"), (handles * 3, "a list of 1 to 8"), ("1", "a list of 1 to 8"),
            ([1, 1], "there twice"), ([1, 99], "from 0 to"), ([1, True], "from 0 to"), (handles[:2], "run with those"),
            (handles[::-1], "run with those"),
        ]:  # fmt: skip
            with pytest.raises(DeviceError, match=why):
                device._ask({"do": "together", "handles": wrong, "inferences": 1})
        with pytest.raises(DeviceError, match="inferences = 0"):
            device._ask({"do": "together", "handles": handles, "inferences": 0})
        with pytest.raises(DeviceError, match="2 inferences: segments are allocated for 1"):
            device._ask({"do": "together", "handles": handles, "inferences": 2})
        for allocation in allocations:
            device.release(allocation)
