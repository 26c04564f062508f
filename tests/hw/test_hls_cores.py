"""Several cores of the HLS design, natively executed: programs that exchange leave the simulator's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.isa.build import PAIRED
from tests.jit.place.test_splits import Slow, convolutions
from tests.runtime.board import run_network
from tests.runtime.network import TINY, images, make_artifact, make_program
from tests.runtime.test_several_cores import TWO, exchanging, outputs_of, spilling
from tests.verification.random_exchange import random_exchange
from tests.verification.test_doorbells import joined, waits
from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine
from tilewright.isa.verifier import joint_order, verify_together
from tilewright.jit.place import placed as placed_module
from tilewright.runtime.device import Allocation, Device, DeviceError, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.hls_device import HlsDevice
from tilewright.runtime.steps import LaunchStep
from tilewright.sim import Functional, run_together


@pytest.fixture(scope="module")
def hls(hls_toolchain: None) -> HlsDevice:
    return HlsDevice(TWO)


def allocate(device: Device, programs: Sequence[Program]) -> list[Allocation]:
    allocations = [device.allocate(program, 1) for program in programs]
    device.share(allocations)
    return allocations


def check_exchange(device: Device, seed: int) -> None:
    """Every byte of every core's segments after random programs that exchange."""
    rng = np.random.default_rng(seed)
    programs = random_exchange(rng, device.config, 10)
    verify_together(programs)
    expected = joined(programs, rng)
    allocations = allocate(device, programs)
    for allocation, memories in zip(allocations, expected):
        for number, content in enumerate(memories):
            device.write(allocation, number, 0, 0, content)
    run_together([Functional(program) for program in programs], expected, joint_order(programs).turns)
    device.run_together(allocations, 1)
    for core, (allocation, memories) in enumerate(zip(allocations, expected)):
        for number, content in enumerate(memories):
            found = device.read(allocation, number, 0, 0, content.size)
            assert np.array_equal(found, content), f"seed {seed}: segment {number} of core {core}"
        assert device.counters(allocation).together
        device.release(allocation)


def test_random_programs_that_exchange(hls: HlsDevice) -> None:
    for seed in range(12):
        check_exchange(hls, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [TINY.replace(cores=3), TINY.replace(cores=8), PAIRED.replace(cores=2)],
    ids=["three", "eight", "two with two ports"],
)
def test_random_programs_that_exchange_in_full(hls_toolchain: None, config: Config) -> None:
    device = HlsDevice(config)
    for seed in range(100, 150):
        check_exchange(device, seed)
    device.close()


def test_a_network_whose_cores_exchange(hls: HlsDevice) -> None:
    artifact, x = exchanging()
    wanted, _ = Executable(artifact, open_device("sim", TWO)).run(x)
    executable = Executable(artifact, hls)
    for jobs in (None, 2):
        assert np.array_equal(executable.run(x, jobs=jobs)[0], wanted)


def test_what_placement_lets_cores_share(hls_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(placed_module, "HostTimes", Slow)
    model = convolutions(tmp_path / "convolutions.tflite", ((16, 1), (16, 1)))
    x = np.random.default_rng(0).integers(-128, 128, (2, 24, 24, 8)).astype(np.int8)
    on_hls, on_sim = (tw.compile(model, TWO, device=name, objective="latency", cache=False) for name in ("hls", "sim"))
    launches = [step for step in on_hls.artifact.steps if isinstance(step, LaunchStep)]
    assert [len(step.programs) for step in launches] == [2]
    found, report = on_hls.run(x)
    assert np.array_equal(found, on_sim.run(x)[0])
    assert report.to_dict()["cycles"] is None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_inferences_are_shared_out(hls: HlsDevice, count: int) -> None:
    wanted, _ = run_network(open_device("sim", TWO), count)
    found, counters = run_network(hls, count)
    assert found.tolist() == wanted.tolist()
    assert (counters.cores, counters.together) == (min(2, count), False)
    assert Executable(make_artifact(), hls).run(images(count))[1].cores == min(2, count)


def test_every_core_has_scratch_memory_of_its_own(hls: HlsDevice) -> None:
    assert outputs_of(spilling(), 4, hls) == outputs_of(spilling(), 4, open_device("sim", TINY))


def test_programs_that_exchange_nothing_run_beside_each_other(hls: HlsDevice) -> None:
    faulty = make_program(faulty=True)
    for programs in ([make_program(), faulty], [faulty, make_program()]):
        allocations = allocate(hls, programs)
        with pytest.raises(DeviceFault, match="SEGMENT"):
            hls.run_together(allocations, 1)
    allocations = allocate(hls, [make_program(), spilling()])
    hls.run_together(allocations, 1)
    assert all(hls.counters(allocation).together for allocation in allocations)
    assert run_network(hls)[0].tolist() == run_network(open_device("sim", TWO))[0].tolist()


def test_more_programs_that_exchange_than_cores_are_refused(hls: HlsDevice) -> None:
    programs = random_exchange(np.random.default_rng(0), TINY.replace(cores=3), 4)
    with pytest.raises(DeviceError, match="3 programs wait for each other, .* and there are 2 cores"):
        hls.run_together(allocate(hls, programs), 1)


def test_a_doorbell_that_nobody_rings_ends_both_programs(hls: HlsDevice) -> None:
    """Whoever waits is told; of a core that a fault ended, the fault is."""
    hears, again = waits((Engine.LOAD, "hear", 2)), waits((Engine.LOAD, "hear", 1))
    rings = waits((Engine.STORE, "ring", 1), (Engine.LOAD, "hear", 1))
    for programs, instruction in (((hears, again), 0), ((hears, rings), 1), ((waits((Engine.LOAD, "hear", 4)),), 0)):
        message = f"WATCHDOG at instruction {instruction}: waits for a doorbell that nobody rings"
        with pytest.raises(DeviceFault, match=message):
            hls.run_together(allocate(hls, programs), 1)
    with pytest.raises(DeviceFault, match="SEGMENT"):
        hls.run_together(allocate(hls, [hears, make_program(faulty=True)]), 1)
    check_exchange(hls, 5)
