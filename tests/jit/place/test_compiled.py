"""``objective`` of :func:`tilewright.compile`: the best placement for latency where it beats the greedy one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.place.test_placed import CONFIG, DIGITS, Fixed
from tilewright.cli.app import main
from tilewright.compiling import CompileError
from tilewright.jit.place import placed


def compiled(monkeypatch: pytest.MonkeyPatch, nanoseconds: int, **options: Any) -> tw.Executable:
    monkeypatch.setattr(placed, "HostTimes", lambda: Fixed(nanoseconds))
    return tw.compile(DIGITS, CONFIG, cache=False, **options)


def test_a_fast_cpu_gets_work_and_the_integers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, best = compiled(monkeypatch, 1), compiled(monkeypatch, 1, objective="latency")
    reasons = [reason for _, reason in best.artifact.options["moved"]]
    assert any("placed on the CPU for latency" in reason for reason in reasons)
    (spec,) = best.artifact.inputs
    x = np.random.default_rng(0).normal(size=(5, *spec.shape[1:])).astype(spec.dtype)
    assert np.array_equal(best.run(x)[0], greedy.run(x)[0])


def test_a_slow_cpu_leaves_the_greedy_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, best = compiled(monkeypatch, 10**9), compiled(monkeypatch, 10**9, objective="latency")
    assert best.artifact.programs == greedy.artifact.programs
    assert best.artifact.options["moved"] == greedy.artifact.options["moved"]


def test_what_it_cannot_do_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CompileError, match="objective throughput: must be latency; .*inspect --placement"):
        compiled(monkeypatch, 1, objective="throughput")
    with pytest.raises(CompileError, match="keep_intermediates stores every operator's output"):
        compiled(monkeypatch, 1, objective="latency", keep_intermediates=True)
    assert main(["run", str(DIGITS), "--config", "tiny", "--objective", "energy"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
