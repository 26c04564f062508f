"""The bound by which layers are not split over input channels: of layers whose better way is known."""

from __future__ import annotations

from bench.bench_reduction_split import least
from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS
from tilewright.jit import graph as g

ZCU104 = PRESETS["zcu104"]


def bounds(shape: tuple[int, int, int], channels: int, cores: int = 4) -> dict[str, float]:
    b = GraphBuilder(0, shape)
    b.conv("x", channels)
    (op,) = b.ops
    assert isinstance(op, g.Conv2D)
    return least(op, b.tensors, ZCU104, cores)


def test_a_layer_of_many_rows_and_channels_is_better_split_without_a_reduction() -> None:
    found = bounds((28, 28, 256), 256)
    assert found["rows"] <= found["inputs"]
    assert found["rows"] == 7 * 28 * 9 * 8 * 8 * 32 * 32 / ZCU104.array_macs  # nothing but its array's work


def test_a_layer_of_one_row_and_one_block_of_channels_gains_by_a_reduction() -> None:
    found = bounds((1, 1, 2048), 32)
    assert found["inputs"] < min(found["rows"], found["outputs"])
    assert found["inputs"] * 4 > found["rows"]


def test_one_core_has_nothing_to_exchange() -> None:
    assert len(set(bounds((14, 14, 64), 64, cores=1).values())) == 1
