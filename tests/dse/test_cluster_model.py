"""The simulation of a sweep on a cluster, against cases that can be worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.cluster_model import Costs, Work, halves, simulate, table

NONE = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
LATENCY = 0.25


def test_without_costs_workers_are_never_idle() -> None:
    for workers in (1, 2, 8):
        found = simulate(NONE, Work(1.0, 0.0, (16, 16), chunked=False), workers)
        assert found.seconds == pytest.approx(32 / workers)
        assert found.utilisation == pytest.approx(1.0)
        assert found.limit == "workers"


def test_a_round_takes_as_long_as_its_fullest_worker() -> None:
    assert simulate(NONE, Work(1.0, 0.0, (5,), chunked=False), 4).seconds == pytest.approx(2.0)
    assert simulate(NONE, Work(1.0, 0.0, (5, 5), chunked=False), 1000).seconds == pytest.approx(2.0)


def test_one_point_pays_for_every_step() -> None:
    costs = Costs(propose=1, learn=2, send=4, receive=8, schedule=16, commit=32, keep=64, latency=LATENCY)
    found = simulate(costs, Work(100.0, 0.0, (1,), chunked=False), 1)
    assert found.seconds == pytest.approx(1 + 2 + 4 + 8 + 16 + 32 + 64 + 4 * LATENCY + 100)
    assert found.driver * found.seconds == pytest.approx(1 + 2 + 4 + 8 + 32 + 64)
    assert found.scheduler * found.seconds == pytest.approx(16)


@pytest.mark.parametrize("server,cost", [("driver", {"receive": 0.1}), ("scheduler", {"schedule": 0.1})])
def test_a_server_bounds_the_rate_however_many_workers(server: str, cost: dict[str, Any]) -> None:
    found = simulate(dataclasses.replace(NONE, **cost), Work(1.0, 0.0, (2000,), chunked=False), 1000)
    assert found.throughput == pytest.approx(10, rel=0.05)
    assert found.limit == server


def test_results_that_arrive_together_share_a_transaction() -> None:
    costs = dataclasses.replace(NONE, commit=1.0)
    found = simulate(costs, Work(1.0, 0.0, (100,), chunked=False), 100)
    assert found.seconds == pytest.approx(2.0)  # one commit for all; each on its own would take a hundred


def test_shared_driver_and_scheduler_take_turns() -> None:
    costs = dataclasses.replace(NONE, schedule=0.1, receive=0.1)
    work = Work(0.0, 0.0, (100,), chunked=False)
    assert simulate(costs, work, 10).seconds == pytest.approx(10.55)  # the driver is behind by half of the last ten
    assert simulate(dataclasses.replace(costs, shared=True), work, 10).seconds == pytest.approx(20.0)


def test_equal_seeds_draw_equal_times_with_the_mean_that_was_asked_for() -> None:
    work = Work(2.0, 0.5, (20_000,), chunked=False)
    assert simulate(NONE, work, 1, seed=3) == simulate(NONE, work, 1, seed=3)
    assert simulate(NONE, work, 1).seconds == pytest.approx(40_000, rel=0.02)


def test_rounds_of_halves_use_the_whole_budget() -> None:
    assert halves(8) == (4, 2, 1, 1)
    assert halves(0) == ()
    assert sum(halves(1000)) == 1000
    assert len(table([simulate(NONE, Work(1.0, 0.0, halves(8)), n) for n in (1, 2)]).splitlines()) == 3
