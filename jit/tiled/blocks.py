"""Which input blocks an output vector reads, and their weights: dense, grouped, depthwise, pooling, selection.

A block is BLOCK_IN channels of one input; a *vector* is BLOCK_OUT channels of the output. Blocks whose weights are
all zero are left out, so that groups, depthwise layers and selections cost what they compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.tiled.geometry import Piece


class Blocks(ABC):
    """Weights of a layer by blocks. ``shared``: every tap has the same weights, which are then given once."""

    shared = False

    @abstractmethod
    def reads(self, source: int, vector: int) -> NDArray[np.int64]:
        """Blocks of an input that a vector reads, ascending."""

    def table(self, sources: int, vectors: int) -> NDArray[np.int64]:
        """Of each input and vector the first block that is read, the one behind the last, and how many: int64
        (sources, vectors, 3)."""
        reads = [[self.reads(source, vector) for vector in range(vectors)] for source in range(sources)]
        rows = [[(r[0], r[-1] + 1, len(r)) if len(r) else (0, 0, 0) for r in each] for each in reads]
        return np.array(rows, np.int64)

    @abstractmethod
    def entries(self, source: int, vector: int, blocks: Sequence[int], piece: Piece) -> NDArray[np.int8]:
        """Weights [tap][block] of (BLOCK_OUT, BLOCK_IN) for the kernel positions of a piece: int8 (n, bo, bi)."""


class DenseBlocks(Blocks):
    """``weight``: int8 (OC, KH, KW, channels of all inputs as stored), ``in_units`` units a pixel of each input."""

    def __init__(self, weight: NDArray[np.int8], in_units: Sequence[int], vectors: int, config: Config) -> None:
        self._config, self._weight = config, weight
        self._first = np.cumsum([0, *(units * config.lanes for units in in_units)]).tolist()
        key = (config.block_in, config.block_out, config.lanes, vectors, *in_units)
        self._reads = of_weights(weight, ("reads", *key), lambda: self._find_reads(in_units, vectors))
        self._key = "table of reads", *key

    def _find_reads(self, in_units: Sequence[int], vectors: int) -> list[list[NDArray[np.int64]]]:
        """Of each input the blocks that each vector reads."""
        weight, config, found = self._weight, self._config, list[list[NDArray[np.int64]]]()
        used = np.count_nonzero(weight, axis=(1, 2)) > 0
        for first, units in zip(self._first, in_units, strict=False):
            part = used[:, first : first + units * config.lanes]
            full = np.zeros((vectors * config.block_out, units * config.lanes), np.bool_)
            full[: part.shape[0], : part.shape[1]] = part
            blocks = np.asarray(full.reshape(vectors, config.block_out, -1, config.block_in).any(axis=(1, 3)))
            found.append([np.flatnonzero(blocks[vector]) for vector in range(vectors)])
        for vector in range(vectors):  # acc must be written even where all weights are zero
            if not any(len(reads[vector]) for reads in found):
                found[0][vector] = np.zeros(1, np.int64)
        return found

    def reads(self, source: int, vector: int) -> NDArray[np.int64]:
        return self._reads[source][vector]

    def table(self, sources: int, vectors: int) -> NDArray[np.int64]:
        make = partial(super().table, sources, vectors)
        return of_weights(self._weight, (*self._key, sources, vectors), make)

    def entries(self, source: int, vector: int, blocks: Sequence[int], piece: Piece) -> NDArray[np.int8]:
        c = self._config
        first = self._first[source]
        rows = self._weight[
            vector * c.block_out : (vector + 1) * c.block_out, piece.ky : piece.ky_end, piece.kx : piece.kx_end
        ]
        result = np.zeros((piece.taps, len(blocks), c.block_out, c.block_in), np.int8)
        for k, block in enumerate(blocks):
            low = first + block * c.block_in
            part = rows[..., low : min(low + c.block_in, self._first[source + 1])]
            part = part.reshape(part.shape[0], piece.taps, part.shape[3]).transpose(1, 0, 2)
            result[:, k, : part.shape[1], : part.shape[2]] = part
        return result.reshape(-1, c.block_out, c.block_in)


class DiagonalBlocks(Blocks):
    """``taps``: int8 (KH, KW, C), each channel for itself; (KH, KW, 1) of ones where a window is summed."""

    def __init__(self, taps: NDArray[np.int8], config: Config) -> None:
        self._config, self._taps = config, taps
        self.shared = taps.shape[2] == 1 and bool((taps == taps.flat[0]).all())

    def reads(self, source: int, vector: int) -> NDArray[np.int64]:
        c = self._config
        low, high = vector * c.block_out, (vector + 1) * c.block_out
        return np.arange(low // c.block_in, -(-high // c.block_in))

    def entries(self, source: int, vector: int, blocks: Sequence[int], piece: Piece) -> NDArray[np.int8]:
        c = self._config
        if self.shared:
            taps = self._taps[:1, :1].reshape(1, 1)
        else:
            taps = self._taps[piece.ky : piece.ky_end, piece.kx : piece.kx_end].reshape(piece.taps, -1)
        count = taps.shape[1]
        result = np.zeros((len(taps), len(blocks), c.block_out, c.block_in), np.int8)
        for k, block in enumerate(blocks):
            channels = np.arange(
                max(vector * c.block_out, block * c.block_in), min((vector + 1) * c.block_out, (block + 1) * c.block_in)
            )
            if count > 1:
                channels = channels[channels < count]
            values = taps[:, channels if count > 1 else np.zeros_like(channels)]
            result[:, k, channels - vector * c.block_out, channels - block * c.block_in] = values
        return result.reshape(-1, c.block_out, c.block_in)
