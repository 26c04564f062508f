"""What the host does around launches, in cycles, and whether exchanging through memory is worth it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.runtime.network import TINY, make_program
from tilewright.jit.network import CompiledModel
from tilewright.jit.place import exchange
from tilewright.jit.place.costs import Costs
from tilewright.jit.place.exchange import exchanged, host_cycles
from tilewright.jit.place.splits import LAUNCH_NANOSECONDS
from tilewright.runtime.steps import CastStep, JoinStep, LaunchStep, PackStep, Step, UnpackStep


@dataclass
class Hundred:
    """Costs of which each thing that is measured takes a hundred cycles more than the one before."""

    config: Any = TINY
    asked: list[str] = field(default_factory=list)

    def measured(self, what: str, run: Callable[[], object]) -> int:
        run()  # what is measured can run
        self.asked.append(what)
        return 100 * len(self.asked)

    def cycles(self, nanoseconds: int) -> int:
        return nanoseconds


PACK, UNPACK = PackStep("x", 0, (1, 2, 2, 5), 4, 2), UnpackStep("y", 1, (1, 2, 2, 5), (1, 20), 4, 2)
JOIN = JoinStep(("a", "b"), "c", ((0, 0, 0, 0), (0, 1, 0, 0)), (1, 2, 2, 5))


def spent(*steps: Step) -> tuple[int, list[str]]:
    costs = Hundred()
    return host_cycles(cast(Costs, costs), steps), costs.asked


def test_what_takes_as_long_is_measured_once_and_counted_each_time() -> None:
    elsewhere = replace(PACK, tensor="z", segment=3, program=1, offset=64)
    assert spent(PACK, elsewhere, PACK) == (300, ["pack (1, 2, 2, 5) 4"])
    total, asked = spent(PACK, replace(PACK, lanes=2, units=3), UNPACK, JOIN, CastStep("x", "y", 1, "int16"))
    assert len(asked) == 4
    assert total == 100 + 200 + 300 + 400
    assert [what.split()[0] for what in asked] == ["pack", "pack", "unpack", "join"]


@pytest.mark.parametrize("beside", [(), (1,), (1, 2, 3)])
def test_programs_that_are_launched_together_are_told_one_after_another(beside: tuple[int, ...]) -> None:
    several = LAUNCH_NANOSECONDS * (1 + len(beside)) if beside else 0
    assert spent(LaunchStep(0, beside)) == (several, [])
    assert spent(LaunchStep(5), LaunchStep(0, beside), LaunchStep(0, beside)) == (2 * several, [])


@pytest.mark.parametrize("gain", [-1, 0, 1])
def test_programs_exchange_where_that_saves_something(gain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches of 500 cycles, 200 of packing and 200 of unpacking become one launch of ``gain`` fewer."""
    two = (make_program(), make_program())
    steps: tuple[Step, ...] = (PACK, LaunchStep(0), UNPACK, replace(PACK, program=1), LaunchStep(1))
    compiled = SimpleNamespace(steps=steps, programs=two, states=())

    @dataclass
    class Made:
        model: Any
        compiled: Any

    made = Made(SimpleNamespace(outputs=["y"]), compiled)
    monkeypatch.setattr(exchange, "linked", lambda *_: ((LaunchStep(0),), two[:1]))
    monkeypatch.setattr(exchange, "replace", lambda it, **changes: SimpleNamespace(**{**vars(it), **changes}))
    launches: list[int] = []

    def launch_cycles(config: Any, programs: Any) -> int:
        launches.append(len(programs))
        return 500 if len(launches) <= 2 else 1400 - gain

    monkeypatch.setattr(exchange, "launch_cycles", launch_cycles)
    found, saved = exchanged(cast(Costs, Hundred()), cast(CompiledModel, made))
    assert launches == [1, 1, 1]
    if gain > 0:
        assert saved == gain
        assert tuple(found.compiled.programs) == two[:1]
    else:
        assert saved == 0
        assert found is cast(CompiledModel, made)
