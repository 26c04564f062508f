"""Prepared networks give what run gives, call after call, on a device here and through the board's driver."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.machines.simulated import SimulatedFacade
from tests.runtime.network import TINY, images, make_artifact
from tilewright.config import Config
from tilewright.runtime.device import Device, DeviceFault, open_device
from tilewright.runtime.executable import Executable, InputError
from tilewright.runtime.prepared import PreparedError
from tilewright.runtime.pynq.manifest import Manifest
from tilewright.runtime.pynq_device import PynqDevice

TWO_PORTS = TINY.replace(name="ports", axi_ports=2, batch=2)


def board(config: Config) -> PynqDevice:
    facade = SimulatedFacade(config, files=False)
    return PynqDevice(config, Manifest(Path("simulated.bit"), config), pynq=facade)


def sim(config: Config) -> Device:
    return open_device("sim", config)


@pytest.fixture(params=[(sim, TINY), (board, TINY), (board, TWO_PORTS)], ids=["sim", "board", "two ports"])
def executable(request: pytest.FixtureRequest) -> Executable:
    make, config = request.param
    return Executable(make_artifact(config), make(config))


@pytest.mark.parametrize("count", [1, 3])
def test_calls_give_what_run_gives(executable: Executable, count: int) -> None:
    given = [images(count, seed) for seed in (1, 2, 3)]
    wanted = [executable.run(x)[0] for x in given]
    with executable.prepare(count) as infer:
        found = [infer(x) for x in given]
        assert executable.run(given[1])[0].tolist() == wanted[1].tolist(), "run goes on beside it"
        found.append(infer([given[0]]))
        found.append(infer({"x": given[1]}))
    for y, expected in zip(found, [*wanted, wanted[0], wanted[1]], strict=True):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        assert y.tolist() == expected.tolist()


def test_a_result_is_the_callers_own(executable: Executable) -> None:
    first, second = images(1, 1), images(1, 2)
    with executable.prepare() as infer:
        y = infer(first)
        kept = y.copy()
        assert infer(second).tolist() != kept.tolist()
    assert y.tolist() == kept.tolist()


def test_inputs_are_checked(executable: Executable) -> None:
    with executable.prepare(2) as infer:
        for wrong, said in (
            (images(1), "1 inferences given, prepared for 2"),
            (images(2).astype(np.int16), "dtype int16"),
            (images(2)[:, :1], "shape"),
            (7, "not int"),
        ):
            with pytest.raises(InputError, match=said):
                infer(wrong)
        assert infer(images(2)).tolist() == executable.run(images(2))[0].tolist()


def test_more_than_a_launch_takes_is_refused(executable: Executable) -> None:
    with pytest.raises(InputError, match="65 inferences at a time: one launch takes 64"):
        executable.prepare(65)
    with pytest.raises(InputError, match="inferences"):
        executable.prepare(0)


def test_memory_is_held_until_it_is_closed(executable: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[Any] = []
    monkeypatch.setattr(executable.device, "release", released.append)
    infer = executable.prepare()
    infer(images(1))
    assert not released
    infer.close()
    infer.close()
    assert len(released) == 1
    with pytest.raises(PreparedError, match="closed; prepare it anew"):
        infer(images(1))
    with pytest.raises(PreparedError, match="prepare it there"):
        copy.copy(infer)


def test_a_fault_is_raised_and_the_next_call_works() -> None:
    executable = Executable(make_artifact(faulty=True), "sim", verified=True)
    with executable.prepare() as infer:
        for _ in range(2):
            with pytest.raises(DeviceFault):
                infer(images(1))


def test_nothing_is_left_of_memory_that_was_prepared_before() -> None:
    """A board keeps the memory of programs: bytes of an earlier network's inputs are not taken for zeros."""
    device = board(TWO_PORTS)
    executable = Executable(make_artifact(TWO_PORTS), device)
    wanted = executable.run(images(1, 2))[0]
    with executable.prepare() as infer:
        infer(images(1, 1))
    with executable.prepare() as infer:
        assert infer(images(1, 2)).tolist() == wanted.tolist()
