"""A step of an LSTM takes little longer than what is busiest in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet


def cost(folder: Path, config: str, units: int, steps: int) -> tuple[int, dict[str, int]]:
    """Cycles of so many steps, and the least that each resource needs."""
    net = TfliteNet(seed=1)
    path = net.save(folder / f"{steps}.tflite", [net.lstm(net.input((1, steps, units)), units)])
    _, report = tw.compile(path, config, cache=False).run([np.zeros((1, steps, units), np.int8)])
    return report.cycles, dict(report.lower_bounds)


@pytest.mark.parametrize(("config", "units"), [("pynq-z2", 256), ("kv260", 256), ("zcu104", 256), ("pynq-z2", 512)])
def test_a_step_is_near_its_bound(config: str, units: int, tmp_path: Path) -> None:
    """Of the bus, of the array or of ALU."""
    (few, little), (many, much) = (cost(tmp_path, config, units, steps) for steps in (12, 36))
    bound = max(much[name] - little[name] for name in much)
    assert bound <= many - few <= 1.15 * bound
