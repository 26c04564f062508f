"""Rows and columns of resampled images as places and weights, against matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tests.jit.builder import sampling
from tilewright.jit import graph as g
from tilewright.jit.importer import import_model
from tilewright.jit.sampling import Sampling


def drawn(seed: int) -> np.ndarray:
    """A matrix with rows of no weight, of one, of several and of a single 1."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-3, 4, (int(rng.integers(1, 9)), int(rng.integers(1, 9))))
    matrix *= rng.random(matrix.shape) < rng.choice([0.2, 0.6])
    chosen = rng.random(len(matrix)) < 0.3
    matrix[chosen] = np.eye(matrix.shape[1], dtype=np.int64)[rng.integers(0, matrix.shape[1], int(chosen.sum()))]
    return matrix


def matrix_of(found: Sampling) -> np.ndarray:
    matrix = np.zeros((len(found), found.size), np.int64)
    for row, taps in zip(matrix, found.taps(), strict=True):
        for at, weight in taps:
            row[at] += weight
    return matrix


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_matrix(seed: int) -> None:
    matrix, rng = drawn(seed), np.random.default_rng(seed)
    found = sampling(matrix)
    assert (matrix_of(found) == matrix).all()
    assert found.selects.tolist() == [row[row != 0].tolist() == [1] for row in matrix]
    x = rng.integers(-128, 128, (1, matrix.shape[1], 3, 2))
    assert (found.apply(x, 1) == np.einsum("oi,bixc->boxc", matrix, x)).all()
    first = int(rng.integers(0, len(matrix)))
    last = int(rng.integers(first, len(matrix))) + 1
    part, (low, high) = found.part(first, last)
    used = np.flatnonzero(matrix[first:last].any(0))
    assert (low, high) == ((used[0], used[-1] + 1) if used.size else (0, 1))
    assert (matrix_of(part) == matrix[first:last, low:high]).all()


def test_taps_of_one_place_are_one() -> None:
    found = Sampling.of(9, np.array([[4, 2, 4], [1, 0, 1]]), np.array([[3, 5, 4], [2, 6, -2]]))
    assert found.taps() == [((2, 5), (4, 7)), ((0, 6),)]


def test_rows_without_weight_stand_where_the_last_did() -> None:
    assert sampling(np.array([[0, 0, 0], [0, 0, 2], [0, 0, 0]])).taps() == [((0, 0),), ((2, 2),), ((2, 0),)]


@pytest.mark.parametrize("kind", ["REVERSE_V2", "MIRROR_PAD", "RESIZE_BILINEAR", "TILE"])
def test_rows_without_number_are_no_matrix(kind: str, tmp_path: Path) -> None:
    """Of 200,000 rows from 100,000 one would take 80 GB."""
    net = TfliteNet(seed=3)
    x = net.input((1, 100_000, 1, 1), scale=0.02)
    made = {
        "REVERSE_V2": lambda: net.reverse(x, 1),
        "MIRROR_PAD": lambda: net.mirror_pad(x, ((0, 0), (5, 7), (0, 0), (0, 0))),
        "RESIZE_BILINEAR": lambda: net.resize_bilinear(x, (200_000, 1)),
        "TILE": lambda: net.tile(x, (1, 2, 1, 1)),
    }[kind]()
    (op,) = import_model(net.save(tmp_path / "m.tflite", [made])).graph.ops
    assert isinstance(op, g.Resample)
    assert len(op.rows) == made.shape[1]
