"""A step of an LSTM takes little longer than what is busiest in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.fuzz import TfliteNet

UNITS = 256


def cost(folder: Path, config: str, steps: int) -> tuple[int, dict[str, int]]:
    """Cycles of so many steps, and the least that each resource needs."""
    net = TfliteNet(seed=1)
    path = net.save(folder / f"{steps}.tflite", [net.lstm(net.input((1, steps, UNITS)), UNITS)])
    _, report = tw.compile(path, config, cache=False).run([np.zeros((1, steps, UNITS), np.int8)])
    return report.cycles, dict(report.lower_bounds)


@pytest.mark.parametrize("config", ["pynq-z2", "kv260", "zcu104"])
def test_a_step_is_near_its_bound(config: str, tmp_path: Path) -> None:
    """Of the bus, or of the array and ALU, which take turns at the banks of acc."""
    (few, little), (many, much) = (cost(tmp_path, config, steps) for steps in (12, 36))
    more = {name: much[name] - little[name] for name in much}
    assert max(more.values()) <= many - few <= 1.1 * max(more["read"], more["alu"] + more["array"])
