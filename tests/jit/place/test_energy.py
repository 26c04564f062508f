"""Placement for least energy: against every placement there is, and as the commands show and compile it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.place.exhaustive import Costs, all_parts, random_costs
from tests.jit.place.test_placed import CONFIG, DIGITS, Fixed
from tests.jit.place.test_splits import Slow, convolutions
from tilewright.cli.app import main
from tilewright.config import Config
from tilewright.jit.energy.actions import ACTIONS, count_program
from tilewright.jit.energy.model import action_energies, default_table, energy
from tilewright.jit.place import placed
from tilewright.jit.place.energy import Energies, Power, power_of
from tilewright.jit.place.exchange import launch_cycles
from tilewright.jit.place.placed import cost_of, place_source
from tilewright.jit.place.problem import Part, PlacementError, members
from tilewright.jit.place.settle import settle
from tilewright.jit.place.solve import best_latency, next_best
from tilewright.jit.source import open_source
from tilewright.runtime.random_inputs import random_inputs
from tilewright.sim import simulate_timing


class Drawn:
    """Random costs with the actions of parts, as :class:`Energies` asks for them."""

    def __init__(self, costs: Costs, config: Config) -> None:
        self.config, self.problem, self._costs = config, costs.problem(shared=True), costs
        self.actions: dict[Part, Counter[str]] = {}

    def part_time(self, part: Part) -> int | None:
        return self._costs.shared(part.operators)[part] if part.way else self._costs.on_core(part.operators)

    def moves(self, part: Part) -> tuple[int, int]:
        """Of those that cores share, all but a third of the time."""
        time = self.part_time(part) or 0
        return (time - time // 3, 0) if part.way else (self._costs.moved(part.operators), 0)


def by_hand(drawn: Drawn, costs: Costs, power: Power, parts: list[Part], cpu: list[int]) -> float:
    """Nanojoules of a placement, written down once more: watts times seconds, and picojoules of actions."""
    mega, cores = drawn.config.clock_mhz, drawn.config.cores
    each = action_energies(drawn.config, power.table)
    waiting = cores * each["clock"] + each["static"]  # picojoules a cycle
    total = 0.0
    for part in parts:
        moved = sum(drawn.moves(part))
        computed = (drawn.part_time(part) or 0) - moved
        total += 1e3 * energy(drawn.actions[part], drawn.config, power.table).total
        total += computed * (1e3 * power.idle / mega + 1e-3 * (cores - 1) * each["clock"])
        total += moved * (1e3 * power.host / mega + 1e-3 * waiting)
    return total + sum(costs.cpu[v] for v in cpu) * (1e3 * power.host / mega + 1e-3 * waiting)


@pytest.mark.parametrize("seed", range(60))
def test_least_energy_and_its_second_are_those_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(4000 + seed)
    costs = random_costs(rng, int(rng.integers(1, 7)))
    config = CONFIG.replace(cores=int(rng.integers(1, 3)), clock_mhz=int(rng.integers(50, 200)))
    power = Power(float(rng.uniform(0.2, 5)), float(rng.uniform(0, 0.2)))
    drawn = Drawn(costs, config)
    energies = Energies(drawn, power)
    ways: dict[int, list[Part]] = {}
    for mask in range(1, drawn.problem.everything + 1):
        if costs.on_core(mask) is None:
            continue
        ways[mask] = [Part(mask, 1), *costs.shared(mask)]
        for part in ways[mask]:  # no more for all than for each: some parts gain by being one
            cycles = (drawn.part_time(part) or 0) - sum(drawn.moves(part))
            amounts = {name: int(rng.integers(0, 60 * (cycles + 1))) for name in ACTIONS}
            drawn.actions[part] = Counter(amounts | {"cycle": cycles})
            energies.learn(part, drawn.actions[part])
    everything = set(range(len(costs.core)))
    expected = sorted(
        by_hand(drawn, costs, power, list(parts), sorted(everything - {v for mask in masks for v in members(mask)}))
        for masks, _ in all_parts(costs, len(costs.core)) for parts in itertools.product(*(ways[m] for m in masks))
    )  # fmt: skip
    best = best_latency(energies.problem)
    rounding = len(costs.core) + 1
    assert best.cost == sum(map(energies.of_part, best.parts)) == pytest.approx(expected[0], abs=rounding)
    second = next_best(best, partial(best_latency, energies.problem))
    assert (second is None) == (len(expected) == 1)
    assert second is None or second.cost == pytest.approx(expected[1], abs=rounding)


def place(nanoseconds: int, power: Power, cores: int = 1) -> placed.Placed:
    source = open_source(DIGITS)
    return place_source(source, CONFIG.replace(cores=cores), "energy", Fixed(nanoseconds), power=power)


def test_watts_decide() -> None:
    """What takes the CPU 20 us an operator: at a milliwatt there is nothing better, at a kilowatt nothing worse."""
    frugal, greedy = place(20_000, Power(0.001, table=free())), place(20_000, Power(1000))
    assert [part.replicas for part in frugal.best.parts] == [0]
    assert greedy.best == greedy.greedy
    assert any(part.replicas for part in greedy.best.parts)
    assert frugal.pipeline is greedy.pipeline is None


def free() -> Any:
    """A table by which leakage and clocks that wait take nothing."""
    table = default_table()
    values = table.values | {"static": {**table.values["static"], "milliwatt": 0.0}}
    return type(table)(
        "free", "free", values | {"clock": {**table.values["clock"], "share": 0.0}}
    )  # fmt: skip


def test_an_error_of_the_model_may_decide() -> None:
    """Somewhere between a CPU that is always worth it and one that never is, the model's doubt moves operators."""
    found = [place(nanoseconds, Power(1.0)) for nanoseconds in (100, 3_000, 10_000, 10**6)]
    moved = [each.if_less is not None and each.if_less.parts != each.best.parts for each in found]
    assert found[0].best.cost < found[-1].best.cost
    assert not moved[-1]
    for each in found:
        assert each.if_less is not None
        assert each.if_more is not None
        assert cost_of(each.costs, "energy", each.best.parts) == each.best.cost  # the factor is one again
        on_core = [sum(p.operators.bit_count() for p in s.parts if p.replicas) for s in (each.if_less, each.if_more)]
        assert on_core[0] >= on_core[1]
    assert any(each.if_more.parts != each.best.parts or changed for each, changed in zip(found, moved) if each.if_more)


def test_what_is_settled_on_counts_the_programs_instructions() -> None:
    power = Power(2.0, 0.5)
    found = place(10**6, power)
    settled, made = settle(open_source(DIGITS), found)
    assert settled.best.cost <= settled.greedy.cost
    (program,) = made.compiled.programs
    (part,) = (part for part in settled.best.parts if part.replicas)
    cycles = simulate_timing(program).cycles
    actions = 1e3 * energy(count_program(program, cycles), CONFIG, power.table).total
    costs = settled.costs
    assert costs.energies is not None
    moved = costs.problem.moved(part.operators)
    waited = cycles * 0.5 * 1e3 / CONFIG.clock_mhz
    assert costs.energies.of_part(part) == pytest.approx(actions + waited + costs.energies.on_cpu(moved), abs=2)
    # more cores that wait take more, and none of them is used: to launch two programs takes the CPU too long
    two = place(10**6, power, cores=2)
    assert {part.replicas for part in two.best.parts} <= {0, 1}
    assert two.best.cost > found.best.cost


def test_cores_share_a_part_where_waiting_takes_most(tmp_path: Path) -> None:
    """An idle CPU that takes as much as one at work, and moves in no time: what is sooner done takes less."""
    source = open_source(convolutions(tmp_path / "layers.tflite", ((16, 1), (16, 1), (32, 1))))
    power, config = Power(50.0, 50.0), CONFIG.replace(cores=2)
    found = place_source(source, config, "energy", Slow(), power=power)
    assert any(part.way for part in found.best.parts)
    settled, made = settle(source, found)
    assert any(part.way for part in settled.best.parts)
    assert settled.best.cost < 0.9 * settled.greedy.cost
    energies, each = settled.costs.energies, action_energies(config, power.table)
    assert energies is not None
    programs, taken = list(made.compiled.programs), 0.0
    for part in (part for part in settled.best.parts if part.replicas):
        own, programs = programs[: part.replicas], programs[part.replicas :]
        cycles = launch_cycles(config, own)
        taken += sum(energy(count_program(p, 0), config, power.table).total for p in own) * 1e3
        taken += cycles * (1e-3 * (2 * each["clock"] + each["static"]) + 1e3 * 50 / config.clock_mhz)
        taken += energies.on_cpu(sum(settled.costs.moves(part)))
    assert not programs
    on_cpu = sum(energies.of_part(part) for part in settled.best.parts if not part.replicas)
    assert settled.best.cost - on_cpu == pytest.approx(taken, abs=3 * len(settled.best.parts))


def test_compiled_for_energy_the_integers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(1))
    given: dict[str, Any] = {"objective": "energy", "host_watts": 0.001, "cache": False}
    best, plain = tw.compile(DIGITS, CONFIG, **given), tw.compile(DIGITS, CONFIG, cache=False)
    reasons = [reason for _, reason in best.artifact.options["moved"]]
    assert any("placed on the CPU for energy" in reason for reason in reasons)
    x = random_inputs(best.inputs, 0, 5)
    assert np.array_equal(best.run(x)[0], plain.run(x)[0])


def test_the_cache_knows_watts_and_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(10))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    table = tmp_path / "mine.toml"
    table.write_text("[actions.dram_byte]\npj = 100\n")
    ways: list[dict[str, Any]] = [
        {"host_watts": 1.0}, {"host_watts": 2.0}, {"host_watts": 2.0, "host_idle_watts": 1.0},
        {"host_watts": 2.0, "energy_table": table},
    ]  # fmt: skip
    assert not any(tw.compile(DIGITS, CONFIG, objective="energy", **way).cached for way in ways)
    assert all(tw.compile(DIGITS, CONFIG, objective="energy", **way).cached for way in ways)


def test_inspect_prints_microjoules(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["inspect", str(DIGITS), "--placement", "--objective", "energy"]
    assert main([*asked, "--host-watts", "2", "--host-idle-watts", "0.5"]) == 0
    text = capsys.readouterr().out
    assert "in microjoules an inference" in text
    assert "within a factor of 3 either way, and a CPU of 2 W while it works, 0.5 W while it waits" in text
    for title in ("best", "next best", "greedy"):
        assert re.search(rf"^ +{title}  [\d,]+\.\d\d", text, re.MULTILINE)
    assert text.count("if the accelerator took") == 2
    assert "pipeline" not in text
    assert main(asked) == 2
    assert "give host_watts (--host-watts W)" in capsys.readouterr().err
    assert main([*asked[:-1], "latency", "--host-watts", "2"]) == 2
    assert "--host-watts: only --objective energy has use for it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "watts,message",
    [
        ((0.0, 0.0), "host_watts = 0: must be above 0"), ((float("nan"), 0.0), "host_watts = nan"),
        ((2.0, 3.0), "host_idle_watts = 3.0: must be a number from 0 to 2.0 W"), ((2.0, -1.0), "host_idle_watts = -1"),
    ],
)  # fmt: skip
def test_watts_that_none_can_be_are_named(watts: tuple[float, float], message: str) -> None:
    with pytest.raises(PlacementError, match=re.escape(message)):
        power_of("energy", *watts, None)


def test_without_power_there_is_no_energy() -> None:
    with pytest.raises(PlacementError, match="needs the power of this machine's CPU"):
        place_source(open_source(DIGITS), CONFIG, "energy", Fixed(10))
    found = place(10, Power(1.0))
    assert found.costs.energies is not None
    assert found.costs.energies.of_part(Part(1, 0)) > 0
