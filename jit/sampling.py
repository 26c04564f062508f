"""What each row or column of a resampled image is summed up from: a few of the input's, each by a weight.

Places, not a matrix of all places: one of 100,000 rows from as many would have 10^10 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Taps = tuple[tuple[int, int], ...]  #: (where it reads, weight) of one row or column


@dataclass(frozen=True, eq=False)
class Sampling:
    """Row k of the result is the sum over t of row ``places[k, t]`` of an input of ``size`` rows by ``weights[k, t]``.

    Both arrays have the shape (rows of the result, most taps of a row, at least 1). Weights that are not zero come
    first, by rising places; behind them are zeros.
    """

    size: int
    places: NDArray[np.int64]
    weights: NDArray[np.int32]

    @classmethod
    def of(cls, size: int, places: NDArray[np.int64], weights: NDArray[Any]) -> Sampling:
        """Of taps in any order, some perhaps at one place; weights within int32."""
        places, weights = merged(places, weights)
        return cls(size, places, weights.astype(np.int32))

    @classmethod
    def picks(cls, size: int, places: NDArray[np.int64]) -> Sampling:
        """These rows as they are."""
        return cls(size, np.asarray(places, np.int64)[:, None], np.ones((len(places), 1), np.int32))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def selects(self) -> NDArray[np.bool_]:
        """Which rows are one of the input's, as it is."""
        return (self.weights[:, 0] == 1) & ~self.weights[:, 1:].any(axis=1)

    @property
    def read(self) -> NDArray[np.int64]:
        """The places that are read, each once, rising."""
        return np.unique(self.places[self.weights != 0])

    def part(self, first: int, last: int) -> tuple[Sampling, tuple[int, int]]:
        """Rows ``first`` to ``last`` of the result, and what they read: of an input of those rows alone."""
        part = Sampling.of(self.size, self.places[first:last], self.weights[first:last])
        read = part.read
        low, high = (int(read[0]), int(read[-1]) + 1) if read.size else (0, 1)
        places = np.where(part.weights != 0, part.places - low, 0)
        return Sampling(high - low, places, part.weights), (low, high)

    def taps(self) -> list[Taps]:
        """Of each row; one of nothing but zeros has a weight of zero, where the last began."""
        found: list[Taps] = []
        for places, weights in zip(self.places.tolist(), self.weights.tolist(), strict=True):
            taps = tuple((at, weight) for at, weight in zip(places, weights, strict=True) if weight)
            found.append(taps or ((found[-1][0][0] if found else 0, 0),))
        return found

    def apply(self, x: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """The rows of the result, for an input along ``axis``."""
        along = [-1 if k == axis else 1 for k in range(x.ndim)]
        taps = zip(self.places.T, self.weights.T, strict=True)
        return reduce(np.add, (x.take(places, axis) * weights.reshape(along) for places, weights in taps))


def merged(places: NDArray[np.int64], weights: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Taps (rows, taps of each) by rising places, one for each place, those without weight behind the others."""
    order = np.argsort(places, axis=1, kind="stable")
    places, weights = (np.take_along_axis(array, order, axis=1) for array in (places, weights))
    for tap in range(1, places.shape[1]):
        same = places[:, tap] == places[:, tap - 1]
        weights[same, tap] += weights[same, tap - 1]
        weights[same, tap - 1] = 0
    order = np.argsort(weights == 0, axis=1, kind="stable")
    most = max(1, int(np.count_nonzero(weights, axis=1).max(initial=0)))
    places, weights = (np.take_along_axis(array, order[:, :most], axis=1) for array in (places, weights))
    return np.where(weights != 0, places, 0), weights
