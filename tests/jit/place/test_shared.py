"""The estimate of what cores take that share a DRAM, against what the simulator gave on two large networks."""

from __future__ import annotations

import pytest

from tilewright.config import PRESETS
from tilewright.jit.cost.shared import shared_interval

FOUR = PRESETS["zcu104"].replace(cores=4)


@pytest.mark.parametrize(
    "asked,times",
    [(10.9, {32: 2.63, 38: 2.96, 76: 3.90, 127: 4.00}), (8.4, {32: 2.95, 38: 3.24, 76: 3.99, 127: 4.00})],
)
def test_the_rate_of_four_cores_is_that_of_the_simulator(asked: float, times: dict[int, float]) -> None:
    """``asked``: bytes a cycle of ResNet-18 and MobileNetV2 on one core, each as one program."""
    for bandwidth, simulated in times.items():
        found = 1e6 / shared_interval(FOUR.replace(dram_bandwidth=bandwidth), 1e6, 1e6 * asked)
        assert found == pytest.approx(simulated, rel=0.05)


def test_without_a_limit_cores_do_not_hold_each_other_up() -> None:
    assert shared_interval(FOUR, 1000, 1e9) == 250
    assert shared_interval(PRESETS["zcu104"].replace(dram_bandwidth=32), 1000, 1e9) == 1000
