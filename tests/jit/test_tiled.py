"""The plan that every network fits, alone: random graphs of odd shapes on random Configs, and known giants."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.random_graphs import odd_graph, random_config
from tilewright.config import PRESETS, Config
from tilewright.isa.codec import Instruction, decode
from tilewright.isa.spec import Engine, Memory, Opcode, token_bit
from tilewright.isa.tokens.bounds import bound_tokens
from tilewright.isa.tokens.hazards import HazardTracker
from tilewright.isa.uops import Block
from tilewright.jit.compiler import compile_graph
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower
from tilewright.jit.tiled import program
from tilewright.jit.tiled.program import TiledProgram
from tilewright.jit.tiled.residency import Residency, Wanted
from tilewright.jit.tiled.steps import count_steps

TINY = PRESETS["tiny"]
#: every memory at its least for blocks of 4 x 4
LEAST = TINY.replace(
    name="least", act_bytes=1024, act_banks=2, wgt_bytes=1024, acc_bytes=1024, acc_banks=2, prm_entries=4,
    uop_gemm_bytes=512, uop_alu_bytes=512, token_depth=1, queue_depth=2,
)  # fmt: skip
NO_PADDING = (0, 0, 0, 0)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_in_tiles(seed: int) -> None:
    b, outputs = odd_graph(seed)
    assert_exact(b.graph(*outputs), random_config(seed) if seed % 2 else list(PRESETS.values())[seed // 2 % 8], seed)


@pytest.mark.slow
@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_graphs_in_tiles(seed: int) -> None:
    b, outputs = odd_graph(seed)
    assert_exact(b.graph(*outputs), random_config(seed) if seed % 2 else list(PRESETS.values())[seed // 2 % 8], seed)


def grouped() -> Graph:
    b = GraphBuilder(1, (12, 12, 48))
    return b.graph(b.conv(b.conv("x", 48, (1, 1), padding=NO_PADDING, groups=3), 48, groups=12))


def wider_than_the_window() -> Graph:
    b = GraphBuilder(1, (12, 12, 48))
    return b.graph(b.depthwise("x", (5, 5), padding=(2, 2, 2, 2)))


@pytest.mark.parametrize("build", [grouped, wider_than_the_window])
@pytest.mark.parametrize("config", [TINY, LEAST, PRESETS["pynq-z2"]], ids=lambda c: c.name)
def test_the_floor_does_not_count_blocks_of_zeros(build: Callable[[], Graph], config: Config) -> None:
    """Tiles leave them out: a bound that counts them is one that programs beat, and near which no tiles are tried."""
    graph = build()
    bound = compile_graph(graph, config).programs[0].meta["floor_cycles"]
    assert bound <= assert_exact(graph, config) <= 2.5 * bound


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize(("channels", "outputs", "size"), [(128, 8, 6), (64, 16, 8)])
def test_weights_that_fill_their_memory_to_the_last_entry_stay_in_it(channels: int, outputs: int, size: int) -> None:
    """Were one entry less taken for weights, they would be read for every tile anew: twice the cycles."""
    b = GraphBuilder(1, (size, size, channels))
    graph = b.graph(b.conv("x", outputs, (1, 1), padding=NO_PADDING))
    assert channels // 4 * outputs // 4 == LEAST.wgt_entries
    bound = compile_graph(graph, LEAST).programs[0].meta["floor_cycles"]
    assert assert_exact(graph, LEAST) <= 1.3 * bound


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_of_odd_shapes(seed: int) -> None:
    b, outputs = odd_graph(1000 + seed)
    assert_exact(b.graph(*outputs), random_config(seed) if seed % 2 else list(PRESETS.values())[seed // 2 % 8], seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1100, 1400))
def test_many_random_graphs_of_odd_shapes(seed: int) -> None:
    b, outputs = odd_graph(seed)
    assert_exact(b.graph(*outputs), random_config(seed) if seed % 2 else list(PRESETS.values())[seed // 2 % 8], seed)


def giant(name: str) -> Graph:
    """One operator that exceeds some memory of most Configs."""
    if name == "fully connected":
        b = GraphBuilder(1, (1, 1, 25088))
        return b.graph(b.dense("x", 24))
    if name == "deep kernel":
        b = GraphBuilder(2, (3, 3, 2048))
        return b.graph(b.conv("x", 20))
    if name == "wide row":
        b = GraphBuilder(3, (3, 5000, 2))
        return b.graph(b.conv(b.conv("x", 3), 2, (1, 1), padding=NO_PADDING))
    if name == "large kernel":
        b = GraphBuilder(4, (40, 40, 3))
        return b.graph(b.conv("x", 4, (33, 35), padding=(16, 17, 16, 17), strides=(5, 5)))
    if name == "global pool":
        b = GraphBuilder(5, (97, 101, 5))
        return b.graph(b.average_pool("x", (97, 101)))
    if name == "large pools":
        b = GraphBuilder(6, (40, 44, 5))
        x = b.max_pool("x", (17, 19), (3, 3), (8, 9, 8, 9))
        return b.graph(b.average_pool(x, (9, 11), (2, 2), (4, 5, 4, 5)))
    b = GraphBuilder(7, (17, 9, 5))
    parts = [b.conv("x", channels, (1, 1), padding=NO_PADDING) for channels in (1, 7, 13, 3, 30, 2, 5, 11, 4, 9)]
    return b.graph(b.concat(*parts, "x"), parts[3])


@pytest.mark.parametrize("config", [LEAST, PRESETS["pynq-z2"]], ids=lambda c: c.name)
@pytest.mark.parametrize(
    "name",
    ["fully connected", "deep kernel", "wide row", "large kernel", "global pool", "large pools", "concatenation"],
)
def test_what_exceeds_a_memory_is_cut(name: str, config: Config) -> None:
    assert assert_exact(giant(name), config) > 0


def test_tokens_that_do_not_fit_are_taken_early() -> None:
    """Three tokens from LOAD to GEMM in a queue that holds one."""
    to_gemm, from_load = token_bit(Engine.LOAD, Engine.GEMM), token_bit(Engine.GEMM, Engine.LOAD)
    engines = np.repeat([int(Engine.LOAD), int(Engine.GEMM)], 3)
    pops, pushes = np.repeat([0, from_load], 3).astype(np.uint8), np.repeat([to_gemm, 0], 3).astype(np.uint8)
    left, waits = bound_tokens(engines, pops, pushes, 1)
    assert waits == [(1, Engine.GEMM, from_load), (2, Engine.GEMM, from_load)]
    assert left.tolist() == [0, 0, 0, 0, 0, from_load]
    left, waits = bound_tokens(engines, pops, pushes, 3)
    assert left.tolist() == pops.tolist()
    assert not waits


def test_a_wait_takes_a_token_in_front_of_who_pushes_the_next() -> None:
    """Three loads of weights for three products, over queues that hold one token."""
    tracker = HazardTracker(PRESETS["tiny"].replace(token_depth=1))
    block = Block(np.zeros((1, 4), np.int64), Engine.GEMM, tracker.config)
    for entry in range(3):
        fields = {"memory": int(Memory.WGT), "sram": entry, "wrap_size": 1}
        tracker.add(Instruction(Opcode.LOAD, fields), None, entry)
    for entry in range(3):
        tracker.add(Instruction(Opcode.GEMM, {"wgt": entry, "wrap_size": 8}), block, 3 + entry)
    code, layers = tracker.finish()
    found = decode(code, tracker.config)
    load, wait, gemm = Opcode.LOAD, Opcode.WAIT, Opcode.GEMM
    assert [i.opcode for i in found] == [load, wait, load, wait, load, gemm, gemm, gemm]
    assert [i.engine for i in found if i.opcode == wait] == [Engine.GEMM] * 2
    assert layers == [0, 1, 1, 2, 2, 3, 4, 5]


def test_blocks_take_turns_and_kept_ones_stay() -> None:
    memory = Residency()

    def block(key: str, size: int) -> Wanted:
        return Wanted(key, size, (0, 10), slot=2)

    places = []
    for key in "abc":
        taken = memory.take([block(key, 3)])
        assert taken is not None
        places.append(taken[0][key])
    assert places == [0, 4, 0]
    assert memory.take([block("b", 3)]) == ({"b": 4}, [])
    memory.keep("b")
    assert memory.take([block("d", 4)]) == ({"d": 0}, ["d"])
    assert memory.take([block("e", 6)]) is None
    again = memory.take([block("e", 6), block("b", 3)], must=True)
    assert again is not None
    spans = sorted((again[0][key], size) for key, size in (("e", 6), ("b", 3)))
    assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))
    assert np.all(np.array(spans)[:, 0] % 2 == 0)


def test_what_is_wanted_last_makes_way_first() -> None:
    again: dict[Hashable, float] = {"a": 7.0, "b": 9.0, "c": 8.0}
    memory = Residency(next_use=again.__getitem__)
    assert [memory.take([Wanted(key, 2, (0, 6))]) for key in "abc"] == [({k: 2 * n}, [k]) for n, k in enumerate("abc")]
    assert memory.take([Wanted("d", 2, (0, 6))]) == ({"d": 2}, ["d"])


def test_selections_that_are_too_large_to_write_out_are_named() -> None:
    """A concatenation of tens of thousands of channels inside a vector would be a matrix of a billion weights."""
    b = GraphBuilder(0, (1, 1, 20_001))
    graph = b.graph(b.concat("x", "x"))
    with pytest.raises(PlaceError, match="40002x1x1x40008 weights once written out"):
        compile_graph(graph, PRESETS["tiny"])


def test_layers_of_too_many_steps_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a layer is cut into counts: tiles, vectors of results, and pieces of their sums."""
    b = GraphBuilder(0, (8, 8, 64))
    graph = b.graph(b.conv("x", 64))
    tiles = TiledProgram(graph, lower(graph, TINY, tiled=True, joined=True), TINY)
    items = tiles.choose(TINY).items
    steps = count_steps(items.chains[0], items.chosen[0].cut)
    assert steps == sum(len(item.pieces) for item in items.of[0])
    monkeypatch.setattr(program, "MOST_STEPS", steps - 1)
    smaller = TINY.replace(name="smaller", acc_bytes=TINY.acc_bytes // 2)
    with pytest.raises(PlaceError, match=rf"takes [\d,]+ steps on smaller; at most {steps - 1:,} are planned"):
        tiles.choose(smaller)
