"""The dynamic program against every placement there is, and by hand where the answer is plain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.jit.place.exhaustive import (
    Costs,
    exhaustive_latency,
    exhaustive_pipeline,
    exhaustive_shared,
    exhaustive_side_by_side,
    random_costs,
)
from tilewright.jit.place.ideals import ideals, in_a_row
from tilewright.jit.place.problem import Part, PlacementError, Problem, Solution, members
from tilewright.jit.place.solve import best_latency, best_pipeline, best_side_by_side, next_best


def recomputed(problem: Problem, found: Solution, combine: Callable[[list[int], int], int]) -> int:
    """The cost of a solution from its parts; that they can run in their order is checked too."""
    done, times, cpu = 0, [], 0
    pipeline = combine is busiest
    for part in found.parts:
        assert not done & part.operators
        for v in members(part.operators):
            assert not problem.needs[v] & ~(done | part.operators)
        done |= part.operators
        if part.replicas:
            whole = problem.core(part.operators)
            assert whole is not None
            computed = whole - problem.moved(part.operators)
            times.append(-(-computed // part.replicas) if pipeline else computed)
            cpu += problem.moved(part.operators)
        else:
            cpu += sum(problem.cpu[v] or 0 for v in members(part.operators))
            assert all(problem.cpu[v] is not None for v in members(part.operators))
    assert done == problem.everything
    return combine(times, cpu)


def busiest(times: list[int], cpu: int) -> int:
    return max([cpu, *times])


@pytest.mark.parametrize("seed", range(80))
def test_a_pipeline_is_that_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cores = int(rng.integers(1, 4))
    costs = random_costs(rng, int(rng.integers(1, (11, 9, 8)[cores - 1])))
    expected, problem = exhaustive_pipeline(costs, cores), costs.problem()
    if not expected:
        with pytest.raises(PlacementError, match="there is no placement"):
            best_pipeline(problem, cores)
        return
    best = best_pipeline(problem, cores)
    assert best.cost == recomputed(problem, best, busiest) == expected[0]
    assert sum(part.replicas for part in best.parts) <= cores


@pytest.mark.parametrize("seed", range(80))
def test_side_by_side_and_its_second_are_those_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    cores = int(rng.integers(1, 4))
    costs = random_costs(rng, int(rng.integers(1, 7)) if seed else 7)
    threads = 1 + seed % 2
    expected, problem = exhaustive_side_by_side(costs, cores, threads), costs.problem()
    solve = partial(best_side_by_side, problem, cores, threads=threads)
    best = solve()

    def busier(times: list[int], cpu: int) -> int:
        return max(-(-sum(times) // cores), -(-cpu // threads))

    assert best.cost == recomputed(problem, best, busier) == expected[0]
    second = next_best(best, solve)
    assert (None if second is None else second.cost) == (expected[1] if len(expected) > 1 else None)
    assert second is None or set(second.parts) != set(best.parts)
    if exhaustive_pipeline(costs, cores):
        assert best.cost <= best_pipeline(problem, cores, threads=threads).cost


@pytest.mark.parametrize("seed", range(80))
def test_latency_and_its_second_are_those_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    costs = random_costs(rng, int(rng.integers(1, 7)) if seed else 7)
    expected, problem = exhaustive_latency(costs), costs.problem()
    best = best_latency(problem)
    assert best.cost == recomputed(problem, best, lambda times, cpu: sum(times) + cpu) == expected[0]
    second = next_best(best, partial(best_latency, problem))
    assert (None if second is None else second.cost) == (expected[1] if len(expected) > 1 else None)


@pytest.mark.parametrize("seed", range(60))
def test_parts_that_cores_share_are_those_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(3000 + seed)
    costs = random_costs(rng, int(rng.integers(1, 7)))
    expected, problem = exhaustive_shared(costs), costs.problem(shared=True)
    best = best_latency(problem)
    parts = [
        costs.shared(p.operators)[p] if p.way else costs.on_core(p.operators) or 0
        for p in best.parts if p.replicas
    ]  # fmt: skip
    cpu = sum(problem.cpu[v] or 0 for p in best.parts if not p.replicas for v in members(p.operators))
    assert best.cost == sum(parts) + cpu == expected[0] <= best_latency(costs.problem()).cost
    second = next_best(best, partial(best_latency, problem))
    assert (None if second is None else second.cost) == (expected[1] if len(expected) > 1 else None)


def test_a_line_is_cut_where_the_halves_are_equal() -> None:
    """Four operators that together take more than one by one: what the second half needs does not fit beside it."""
    times = {0b0011: 30, 0b1100: 29, 0b0111: 50, 0b1111: 80}
    problem = Problem((0, 1, 2, 4), (None,) * 4, lambda mask: times.get(mask, 40))
    found = best_pipeline(problem, 2)
    assert (found.cost, found.parts) == (30, (Part(0b0011, 1), Part(0b1100, 1)))


def test_replicas_beat_a_line_that_cannot_be_cut_well() -> None:
    costs = Costs(((0, 1),), (2, 40), (-1,) * 2, (1,) * 2)
    found = best_pipeline(costs.problem(), 2)
    assert (found.cost, found.parts) == (21, (Part(0b11, 2),))


def test_the_cpu_may_have_several_parts() -> None:
    """Its first and last operators can run nowhere else, and one between them is worth taking along."""
    costs = Costs(((0, 1), (1, 2), (2, 3), (3, 4)), (-1, 50, 5, 50, -1), (7, 900, 6, 900, 7), (0,) * 5)
    assert best_pipeline(costs.problem(), 2).cost == 50
    found = best_side_by_side(costs.problem(), 1)
    assert found.cost == 100
    assert [part.replicas for part in found.parts] == [0, 1, 0, 1, 0]
    assert best_latency(costs.problem()).cost == 7 + 105 + 7


def test_ideals_of_a_line_and_of_unconnected_operators() -> None:
    assert ideals(in_a_row([0, 0, 0])) == [0, 1, 3, 7]
    assert len(ideals([0] * 5)) == 32
    assert 100 < len(ideals([0] * 30, 100)) < 1000


def test_an_operator_that_can_run_nowhere() -> None:
    problem = Problem((0,), (None,), lambda mask: None)
    for solve in (lambda: best_pipeline(problem, 2), lambda: best_latency(problem)):
        with pytest.raises(PlacementError, match="there is no placement"):
            solve()
