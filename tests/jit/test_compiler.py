"""Compiled graphs on the simulator equal the reference evaluator, operator by operator, on many Configs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS, Config
from tilewright.jit.plan.policy import Policy

TINY = PRESETS["tiny"]
CONFIGS = {
    "tiny": TINY,
    "pynq-z2": PRESETS["pynq-z2"],
    "wide-out": TINY.replace(name="wide-out", block_out=8, acc_bytes=32 * 1024),
    "wide-in": TINY.replace(name="wide-in", block_in=16, wgt_bytes=32 * 1024),
    "batch-2": TINY.replace(name="batch-2", batch=2, axi_bits=64),
    "packed": TINY.replace(name="packed", dsp_packing=True),
    "slow-memory": TINY.replace(name="slow-memory", dram_latency=100, outstanding=1, burst_beats=4, queue_depth=2),
}


@pytest.fixture(params=list(CONFIGS.values()), ids=list(CONFIGS))
def config(request: pytest.FixtureRequest) -> Config:
    return request.param


def test_dense_convolutions(config: Config) -> None:
    b = GraphBuilder(1, (9, 7, 3))
    x = b.conv("x", 11)
    x = b.conv(x, 5, (1, 1), padding=(0, 0, 0, 0))
    x = b.conv(x, 9, (5, 3), (2, 1), (2, 1, 2, 1))
    x = b.conv(x, 6, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2))
    x = b.conv(x, 12, (2, 2), (2, 2), (0, 0, 1, 1), groups=3)
    assert_exact(b.graph(x), config)


def test_depthwise(config: Config) -> None:
    b = GraphBuilder(2, (10, 9, 5))
    x = b.depthwise("x")
    x = b.depthwise(x, (3, 3), (2, 2), (0, 0, 1, 1))
    x = b.depthwise(x, (5, 3), padding=(2, 1, 2, 1))
    x = b.depthwise(x, (1, 3), padding=(0, 1, 0, 1))
    x = b.depthwise(x, (3, 2), (1, 3), (1, 0, 1, 0))
    assert_exact(b.graph(x), config)


def test_dilated_depthwise_runs_as_dense_diagonal(config: Config) -> None:
    b = GraphBuilder(3, (9, 9, 6))
    x = b.depthwise("x", (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2))
    x = b.depthwise(x, (3, 1), padding=(2, 0, 2, 0), dilation=(2, 1))
    assert_exact(b.graph(x), config)


def test_residual_adds_and_concatenation(config: Config) -> None:
    b = GraphBuilder(4, (8, 6, 16))
    y = b.conv("x", 16)
    z = b.conv(y, 16)
    x = b.add("x", z)
    x = b.concat(b.conv(x, 16, (1, 1), padding=(0, 0, 0, 0)), y, b.requantize(x))
    assert_exact(b.graph(b.conv(x, 7)), config)


def test_pooling(config: Config) -> None:
    b = GraphBuilder(5, (12, 10, 6))
    x = b.max_pool("x", (3, 3), (2, 2), (1, 1, 1, 1))
    y = b.average_pool(x, (3, 3), (1, 1), (1, 1, 1, 1))
    z = b.average_pool(y, (2, 2), (2, 2))
    w = b.max_pool(z, (2, 2), (1, 1))
    assert_exact(b.graph(w), config)


def test_classifier_tail(config: Config) -> None:
    b = GraphBuilder(6, (5, 4, 9))
    x = b.average_pool("x", (5, 4))
    x = b.reshape(x, (1, 9))
    x = b.reshape(x, (1, 1, 1, 9))
    x = b.dense(x, 33)
    assert_exact(b.graph(b.dense(x, 3)), config)


def test_explicit_padding_and_two_pad_values(config: Config) -> None:
    b = GraphBuilder(7, (6, 5, 8))
    x = b.pad("x", (1, 2, 0, 1))
    y = b.conv(x, 8, padding=(1, 1, 1, 1))
    z = b.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1))
    assert_exact(b.graph(b.add(y, z)), config)


def test_flatten_into_dense_is_a_convolution_over_the_image(config: Config) -> None:
    b = GraphBuilder(8, (3, 4, 6))
    x = b.conv("x", 6)
    flat = b.reshape(x, (1, 1, 1, 72))
    assert_exact(b.graph(b.dense(flat, 10)), config)


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("slack", [0, 3, None])
def test_every_policy_is_exact(deep: bool, share: float, slack: int | None) -> None:
    b = GraphBuilder(9, (10, 10, 4))
    x = b.conv("x", 8)
    x = b.add(b.conv(x, 8), x)
    x = b.depthwise(x, strides=(2, 2), padding=(0, 0, 1, 1))
    assert_exact(b.graph(b.conv(x, 16)), TINY, policies=(Policy(deep, share, slack),))


def test_tensors_that_do_not_fit_go_through_dram() -> None:
    small = TINY.replace(name="small", act_bytes=2048, act_banks=2, wgt_bytes=4096, prm_entries=16)
    b = GraphBuilder(10, (16, 12, 8))
    x = b.conv("x", 8)
    y = b.conv(b.conv(x, 12), 8)
    x = b.add(x, y)
    x = b.conv(x, 24, strides=(2, 2), padding=(0, 0, 1, 1))
    x = b.conv(x, 24)
    assert_exact(b.graph(x), small)


def random_graph(seed: int) -> GraphBuilder:
    """A random chain with branches over every operator."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(seed, (int(rng.integers(4, 12)), int(rng.integers(4, 12)), int(rng.integers(1, 20))))
    x = "x"
    for _ in range(int(rng.integers(2, 7))):
        _, h, w, c = b.shape(x)
        choice = rng.integers(0, 7)
        oc = int(rng.integers(1, 28))
        if choice == 0 or min(h, w) < 3:
            x = b.conv(x, oc, (1, 1), padding=(0, 0, 0, 0))
        elif choice == 1:
            stride = int(rng.integers(1, 3))
            x = b.conv(x, oc, (3, 3), (stride, stride))
        elif choice == 2:
            stride = int(rng.integers(1, 4))
            x = b.depthwise(x, (3, 3), (stride, stride))
        elif choice == 3:
            y = b.conv(x, c, (3, 3))
            x = b.add(y, x) if rng.integers(2) else b.add(x, y)
        elif choice == 4:
            x = b.max_pool(x, (2, 2), (int(rng.integers(1, 3)),) * 2)
        elif choice == 5:
            x = b.average_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))
        else:
            x = b.requantize(x)
    return b


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    b = random_graph(seed)
    names = list(CONFIGS)
    assert_exact(b.graph(b.ops[-1].output), CONFIGS[names[seed % len(names)]], seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_graphs(seed: int) -> None:
    b = random_graph(seed)
    assert_exact(b.graph(b.ops[-1].output), list(CONFIGS.values())[seed % len(CONFIGS)], seed)
