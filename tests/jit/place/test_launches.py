"""What is thought of launches before anything is compiled: the time of the host is that of the steps that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jit.place.test_placed import CONFIG, DIGITS, place
from tests.jit.place.test_splits import Slow, convolutions
from tilewright.config import PRESETS, Config
from tilewright.jit.place.exchange import exchanged, host_cycles
from tilewright.jit.place.execute import compile_placed
from tilewright.jit.place.launches import around, launches
from tilewright.jit.place.placed import place_source, solved
from tilewright.jit.source import open_source
from tilewright.runtime.steps import LaunchStep

WIDE = CONFIG.replace(name="wide", block_in=32)
EVEN, ODD, MIXED = ((16, 1), (32, 2), (32, 1)), ((24, 1), (24, 2), (32, 1)), ((32, 1), (40, 1), (32, 2), (48, 1))


class Various(Slow):
    """A machine whose CPU is far too slow for operators, and takes some time or other for each way of moving."""

    def of(self, key: str, prepare: Callable[[], Callable[[], object]]) -> int:
        moving = 100 + int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") % 1000
        return self.file if key.startswith(("litert", "onnxruntime")) else moving


@pytest.mark.parametrize("config", [CONFIG, WIDE, PRESETS["tiny"]], ids=lambda config: config.name)
@pytest.mark.parametrize("layers", [EVEN, ODD, MIXED, None], ids=["even", "odd", "mixed", "digits"])
@pytest.mark.parametrize("cores", [2, 4])
def test_what_the_host_does_around_launches_is_known_before(
    tmp_path: Path, config: Config, layers: tuple[tuple[int, int], ...] | None, cores: int
) -> None:
    """To the cycle: whose channels are no whole vectors the host carries, and each piece is packed for itself."""
    path = DIGITS if layers is None else convolutions(tmp_path / "layers.tflite", layers)
    source = open_source(path)
    placed = place_source(source, config.replace(cores=cores), "latency", Various())
    costs, found = placed.costs, placed.exchanging
    assert found is not None
    chains = launches(costs, found)
    made, _ = exchanged(costs, compile_placed(source, placed, found))
    steps = made.compiled.steps
    assert len([step for step in steps if isinstance(step, LaunchStep)]) == len(chains)
    assert host_cycles(costs, steps) == sum(around(costs, parts) for parts in chains)
    assert placed.best.cost == solved(costs, "latency", frozenset()).cost  # there the host carries all


def test_only_latency_on_several_cores_exchanges() -> None:
    assert place(10**6, "throughput", 2).exchanging is place(10**6, "latency").exchanging is None
