"""The numbers in which an operator's meaning is computed.

A meaning is written once, over a :class:`Domain`: :mod:`tilewright.jit.reference` computes it in integers, the proof
(:mod:`tilewright.jit.proof.graph_side`) in elements of its algebra, for all inputs at once. Tensors are NumPy arrays in
both, so that what only moves values (padding, slices, windows, transposes) needs no domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.sampling import Sampling

#: how accumulators came about, which integers need not know: any sum, an int8 value as it is, extremes of such values
Kind = Literal["sum", "value", "greatest", "least"]


class Domain(ABC):
    """Accumulators have the shape (..., C), before they are requantised to tensors of the same shape."""

    dtype: ClassVar[type[np.generic]]  #: of a tensor

    @abstractmethod
    def convolve(self, view: Any, weight: NDArray[np.integer]) -> Any:
        """``sum x * w`` over windows (1, OH, OW, IC, KH, KW) with weights (OC, KH, KW, IC): (1, OH, OW, OC)."""

    @abstractmethod
    def tap_sums(self, view: Any, weight: NDArray[np.integer] | None) -> Any:
        """``sum x * w`` over windows (1, OH, OW, C, KH, KW), weights (KH, KW, C) or None for ones: (1, OH, OW, C)."""

    @abstractmethod
    def products(self, a: Any, b: Any, offsets: tuple[int, int]) -> Any:
        """``sum over k of (a[h, m, k] - offsets[0]) * (b[h, n, k] - offsets[1])``: (H, M, N)."""

    @abstractmethod
    def resample(self, x: Any, rows: Sampling, columns: Sampling, offset: int) -> Any:
        """``sum over i, j of rows[y, i] * columns[x, j] * (input[i, j] - offset)``, channel by channel."""

    @abstractmethod
    def rescale(self, x: Any, scale: Scale) -> Any:
        """A tensor as accumulators."""

    def rescaled(self, x: Any, scale: Scale, requant: Requant) -> Any:
        """A tensor rescaled and requantised."""
        return self.requantize(self.rescale(x, scale), requant, "value" if scale.identity else "sum")

    @abstractmethod
    def multiply(self, a: Any, b: Any) -> Any:
        """The products of accumulators, element by element."""

    @abstractmethod
    def times(self, acc: Any, factor: int) -> Any:
        """Accumulators times an integer up to 2^24."""

    @abstractmethod
    def extreme(self, a: Any, b: Any, kind: Literal["greatest", "least"], values: bool) -> Any:
        """The greater or less of two accumulators, element by element; ``values``: of int8 values as they are."""

    @abstractmethod
    def window_maximum(self, x: Any, kernel: tuple[int, int], strides: tuple[int, int]) -> Any:
        """The greatest of each window of more than one int8 value: (1, OH, OW, C)."""

    @abstractmethod
    def requantize(
        self, acc: Any, requant: Requant, kind: Kind = "sum", values: NDArray[np.bool_] | None = None
    ) -> Any:
        """Accumulators of one kind as a tensor; ``values`` says which of them, in a shape that can be broadcast, are
        single int8 values."""

    @abstractmethod
    def on_host(self, compute: Callable[..., Any], *inputs: Any, why: str = "no form of the operator") -> Any:
        """What NumPy computes of integers. Raises :class:`~tilewright.jit.errors.Unfollowed` in other domains."""
