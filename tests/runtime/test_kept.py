"""What lives on between runs, and for how long: artifacts of other runtimes, programs of a simulator, reports."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tilewright.runtime import regions
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.regions import collect_reports, run_bytes, use_device
from tilewright.runtime.sim_device import SimDevice


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "_loaded", type(regions._loaded)())
    monkeypatch.setattr(regions, "_opened", {})


def outputs(artifact: bytes, seed: int = 0) -> bool:
    x = images(1, seed)
    (y,) = run_bytes(artifact, [x])
    return np.array_equal(y, reference(x)[1].reshape(1, -1))


def test_the_artifacts_used_last_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    real = Artifact.from_bytes

    def counting(data: bytes, source: str = "artifact") -> Artifact:
        made = real(data, source)
        parsed.append(made.name)
        return made

    monkeypatch.setattr(regions, "_LIMIT", 2)
    monkeypatch.setattr(Artifact, "from_bytes", staticmethod(counting))
    a, b, c = (make_artifact(name=name).to_bytes() for name in "abc")
    for number, artifact in enumerate((a, b, a, c, a, b, b)):
        assert outputs(artifact, number)
    assert parsed == ["a", "b", "c", "b"], "c took the place of b, and b that of c"
    assert len(regions._opened) == 1, "artifacts of one Config share a device"
    device = SimDevice(TINY)
    with use_device(device):
        assert outputs(a)
        assert outputs(a)
    assert parsed[4:] == ["a", "a"], "an open device is the caller's, and so is what runs on it"


def test_artifacts_of_one_fingerprint_keep_their_clock_and_cores() -> None:
    """What programs do not depend on, reports do."""
    changes: list[dict[str, int]] = [{"clock_mhz": 50}, {"clock_mhz": 100}, {"cores": 2}]
    with collect_reports() as reports:
        for changed in changes:
            config = TINY.replace(**changed)
            assert config.fingerprint == TINY.fingerprint
            assert outputs(make_artifact(config).to_bytes())
    assert [report.cores for report in reports] == [1, 1, 2]
    assert reports[0].latency_ms == pytest.approx(2 * reports[1].latency_ms)


def test_reports_go_to_all_that_listen() -> None:
    artifact = make_artifact().to_bytes()
    with collect_reports() as outer:
        with collect_reports() as inner:
            assert outputs(artifact)
        assert (len(outer), len(inner)) == (1, 1)
        assert outputs(artifact)
        with collect_reports() as last:
            pass
        assert outputs(artifact)
    assert (len(outer), len(inner), len(last)) == (3, 1, 0)
    assert outputs(artifact)
    assert len(outer) == 3
    assert regions._listening == []


def test_a_simulator_keeps_the_programs_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.sim_device.PREPARED_PROGRAMS", 2)
    device, programs = SimDevice(TINY), [make_program() for _ in range(3)]
    first, second = (device.allocate(program, 1).state.prepared for program in programs[:2])
    assert device.allocate(programs[0], 1).state.prepared is first
    device.allocate(programs[2], 1)
    assert device.allocate(programs[0], 1).state.prepared is first
    assert device.allocate(programs[1], 1).state.prepared is not second


def test_counters_say_whether_others_ran_beside() -> None:
    """Of the last launch: together, then alone, then together again."""
    config = dataclasses.replace(TINY, name="two", cores=2)
    device, program = SimDevice(config), make_program(config)
    pair: list[Any] = [device.allocate(program, 2) for _ in range(2)]
    for together in (True, False, True):
        if together:
            device.run_together(pair, 1)
        else:
            device.launch(pair[0], 1)
            device.wait(pair[0])
        found = device.counters(pair[0])
        assert found.together is together
        assert (found.interval is None) is together
        assert found.cores == 2
        assert found.cycles > 0
