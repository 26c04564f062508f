"""Images resized, spread out and mirrored, with all of them on the chip and in tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.random_graphs import random_config
from tilewright.config import PRESETS
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.kernels import resample
from tilewright.jit.kernels.resample import ResampleNode, Run, Runs
from tilewright.jit.lower.lowering import lower
from tilewright.jit.tiled.geometry import Tile
from tilewright.jit.tiled.program import TiledProgram
from tilewright.jit.tiled.resample import ResampleLayer
from tilewright.jit.tiled.shapes import tiled_forms


def weights(rng: np.random.Generator, size: int) -> np.ndarray:
    """Of a bilinear resizing, places in any order, or an image spread with zeros."""
    way = rng.integers(3)
    out = int(rng.integers(1, 3 * size + 2))
    if way == 0:
        matrix = np.zeros((out, size), np.int32)
        matrix[np.arange(out), rng.integers(0, size, out)] = 1
        return matrix
    if way == 1:
        stride = int(rng.integers(1, 4))
        matrix = np.zeros(((size - 1) * stride + 1, size), np.int32)
        matrix[np.arange(size) * stride, np.arange(size)] = 1
        return matrix
    at = np.linspace(0, size - 1, out)
    matrix = np.zeros((out, size), np.int32)
    low = np.floor(at).astype(int)
    part = np.round((at - low) * 16).astype(np.int32)
    np.add.at(matrix, (np.arange(out), low), 16 - part)
    np.add.at(matrix, (np.arange(out), np.minimum(low + 1, size - 1)), part)
    return matrix


def net(seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    h, w = int(rng.integers(1, 12)), int(rng.integers(1, 14))
    b = GraphBuilder(seed, (h, w, int(rng.integers(1, 12))))
    x = b.conv("x", int(rng.integers(1, 40)))
    y = b.resample(x, weights(rng, h), weights(rng, w))
    return b.graph(b.conv(y, 9, (1, 1), padding=(0, 0, 0, 0)), y)


@pytest.mark.parametrize("seed", range(6))
def test_resampling_is_exact(seed: int) -> None:
    assert_exact(net(seed), random_config(seed) if seed % 2 else PRESETS["pynq-z2"], seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(6, 16))
def test_resampling_in_tiles(seed: int) -> None:
    assert_exact(net(seed), random_config(seed) if seed % 2 else PRESETS["tiny"], seed)


@pytest.mark.parametrize("seed", range(30))
def test_no_patch_is_larger_than_is_counted_on(seed: int) -> None:
    """Cuts are chosen by the window that :func:`reach` gives."""
    graph, rng = net(seed), np.random.default_rng(seed)
    forms = tiled_forms(lower(graph, PRESETS["tiny"], tiled=True), PRESETS["tiny"])
    (layer,) = (c.leader for chains in forms for c in chains if isinstance(c.leader, ResampleLayer))
    node, window = layer.node, layer.window
    assert isinstance(node, ResampleNode)
    (piece,) = layer.pieces(0, 1, None)  # type: ignore[arg-type]
    for _ in range(20):
        (top, bottom), (left, right) = (
            np.sort(rng.choice(size + 1, 2, replace=False)).tolist() for size in (node.height, node.width)
        )
        patch = layer.patch(Tile(top, bottom, left, right), piece)
        most = [
            (count - 1) * stride + kernel
            for count, stride, kernel in zip((bottom - top, right - left), window.strides, window.kernel, strict=True)
        ]
        assert patch.rows <= most[0]
        assert patch.columns <= most[1]


def test_columns_without_number_are_one_run_at_once() -> None:
    """As a TILE by 65,535 has them: looked up one by one in a list they took minutes."""
    repeated, beside = [((0, 1),)] * 65535, [((x, 1),) for x in range(65535)]
    assert Runs(repeated).all == [Run(0, 1, 65535, ((0, 1),), 0)]
    assert Runs(beside).all == [Run(0, 1, 65535, ((0, 1),), 1)]


def test_columns_without_order_are_found_at_once() -> None:
    """Each is a run of its own: looked for among all that are left they took minutes."""
    places = np.random.default_rng(0).permutation(65535).tolist()
    runs = Runs([((at, k + 1),) for k, at in enumerate(places)])
    assert [(run.first, run.count, run.taps) for run in runs.all] == [
        (k, 1, ((at, k + 1),)) for k, at in enumerate(places)
    ]
    assert all(runs.within(k, k + 1) == [runs.all[k]] for k in range(65535))


def test_one_of_too_many_instructions_is_refused_by_name() -> None:
    """600 rows of two taps each, by 1,000 columns of two, of which two are like others."""
    rng = np.random.default_rng(0)
    b = GraphBuilder(0, (601, 1001, 1))
    rows, columns = (np.zeros((n, n + 1), np.int32) for n in (600, 1000))
    for matrix in (rows, columns):
        for k, row in enumerate(matrix):
            row[k : k + 2] = rng.integers(1, 1000, 2)
    graph = b.graph(b.resample("x", rows, columns))
    with pytest.raises(PlaceError, match="resample: takes 2,397,600 RESCALEs, at most 2,097,152 are planned"):
        lower(graph, PRESETS["tiny"])


def test_tiles_that_cut_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 12 tiles of 4 columns has a part of each of 3 runs, for 5 rows; of narrower ones each column is a run."""
    b = GraphBuilder(0, (5, 16, 1))
    columns = np.zeros((48, 16), np.int32)
    columns[np.arange(48), np.arange(48) // 3] = np.arange(48) % 3 + 1
    graph = b.graph(b.resample("x", np.eye(5, dtype=np.int32), columns))
    (node,) = lower(graph, PRESETS["tiny"]).nodes
    assert isinstance(node, ResampleNode)
    assert len(node.runs.all) == 3
    tiles = TiledProgram(graph, lower(graph, PRESETS["tiny"], tiled=True, joined=True), PRESETS["tiny"])
    monkeypatch.setattr(resample, "MOST_RESCALES", 5 * 48 - 1)
    node.check_rescales(4)
    with pytest.raises(PlaceError, match="takes 240 RESCALEs, at most 239"):
        node.check_rescales(2)
    monkeypatch.setattr(resample, "MOST_RESCALES", 5 * 12 * 3 - 1)
    with pytest.raises(PlaceError, match="takes 180 RESCALEs, at most 179"):
        node.check_rescales(4)
    monkeypatch.setattr(resample, "MOST_RESCALES", 14)
    with pytest.raises(PlaceError, match=r"takes \d+ RESCALEs, at most 14 are"):
        tiles.choose(PRESETS["tiny"])


def test_an_image_beside_itself_is_a_run_for_each_of_its_columns() -> None:
    beside = Runs([((k % 5, 1),) for k in range(50_000)])
    assert beside.all == [Run(k, 5, 10_000, ((k, 1),), 0) for k in range(5)]
    assert beside.within(7, 11) == [Run(10, 5, 1, ((0, 1),), 0), *(Run(k, 5, 1, ((k - 5, 1),), 0) for k in (7, 8, 9))]
