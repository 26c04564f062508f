"""The bank of one-bit counters against plain numbers: steps, restarts and reads at random, and at the worst."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("amaranth")

from amaranth.sim import Simulator

from tests.hw.formal.opened import OpenRam, variant
from tilewright.hw.rtl import tally as module

ROWS, COLUMNS = 4, 9
CYCLES = 600


@dataclass(frozen=True)
class Scene:
    """What is driven in a cycle."""

    steps: Callable[[random.Random], int]  #: probability in percent, by counter
    read_every: int
    restart_every: int
    count: int = 100  #: percent


SCENES = {
    "at random": Scene(lambda draw: draw.choice((0, 30, 100)), 3, 97, 80),
    "all in every cycle, read as fast as can be": Scene(lambda draw: 100, 3, 10_000),
    "restarted all the time": Scene(lambda draw: 100, 4, 11),
}
TWINS = {
    "the first cycle is not counted": ("late ^ (bits[0] & ~clear)", "(late ^ bits[0]) & ~clear"),
    "a word of the run before counts": ("valid.eq(~first | (self.read & (place < turn)))", "valid.eq(1)"),
    "a read misses the words of this run": ("valid.eq(~first | (self.read & (place < turn)))", "valid.eq(~first)"),
    "a read finds its own word too early": ("(place < turn)", "(place <= turn)"),
    "few bits are too few": ("slots * 3 // 2 + 2", "slots // 2"),
    "a read writes": ("write.eq(~self.read)", "write.eq(1)"),
    "a read clears": ("(~self.read & (row == k)", "((row == k)"),
    "the first turn of a run is not counter 0's": ("column.eq(0), row.eq(0), first.eq(1)", "first.eq(1)"),
    "steps count outside a run": ("late.eq(Mux(self.count, step, 0))", "late.eq(step)"),
    "a counter does not begin anew": ("clear = restart | (", "clear = ("),
}  # fmt: skip


def first_difference(names: dict[str, Any], scene: Scene, seed: int) -> str | None:
    """What a tally of a module's ``names`` reads where it is not what was counted; None if all is right."""
    from amaranth.hdl import Signal

    draw = random.Random(seed)
    names["AsyncRam"] = OpenRam
    steps = [[Signal(name=f"step_{k}_{n}") for n in range(COLUMNS)] for k in range(ROWS)]
    unit = names["Tally"](steps, "few")
    chances = [[scene.steps(draw) for _ in row] for row in steps]
    found: list[str] = []

    async def drive(context: Any) -> None:
        counted: list[list[list[int]]] = []  # by cycle: what stepped
        restarts: list[int] = []
        wanted: list[tuple[int, int, int] | None] = [None, None]  # reads of the two cycles before
        for now in range(CYCLES):
            counts = draw.randrange(100) < scene.count
            restart = now % scene.restart_every == 0
            moved = [[int(draw.randrange(100) < chance) for chance in row] for row in chances]
            counted.append([[bit & counts for bit in row] for row in moved])
            restarts += [now] if restart else []
            reads = now % scene.read_every == 1
            row, column = draw.randrange(ROWS), draw.randrange(COLUMNS)
            for signal, value in ((unit.count, counts), (unit.restart, restart), (unit.read, reads), (unit.row, row),
                                  (unit.column, column)):  # fmt: skip
                context.set(signal, value)
            for signals, values in zip(steps, moved, strict=True):
                for signal, value in zip(signals, values, strict=True):
                    context.set(signal, value)
            if wanted[0] is not None:
                at, *place = wanted[0]
                begun = max((r for r in restarts if r <= at - 2), default=at)
                right = sum(counted[k][place[0]][place[1]] for k in range(begun, at - 1))
                if context.get(unit.value) != right:
                    found.append(f"cycle {at}, counter {place}: {context.get(unit.value)}, counted were {right}")
                    return
            wanted = [wanted[1], (now, row, column) if reads else None]
            await context.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    return found[0] if found else None


@pytest.mark.parametrize("scene", SCENES.values(), ids=[name.replace(" ", "-") for name in SCENES])
def test_counters_are_what_was_counted(scene: Scene) -> None:
    assert first_difference(variant(module), scene, seed=1) is None


@pytest.mark.parametrize("change", TWINS.values(), ids=[name.replace(" ", "-") for name in TWINS])
def test_a_broken_tally_is_noticed(change: tuple[str, str]) -> None:
    assert any(first_difference(variant(module, change), scene, seed=1) for scene in SCENES.values())
