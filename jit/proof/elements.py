"""Loops over arrays of field elements, for the graph's side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.proof.algebra import (
    apply_form,
    keeps_int8,
    member,
    reduce,
    requantize_key,
    requantized,
    residue,
    times,
)
from tilewright.jit.proof.native import interpretable

#: the halves of an element are at most 2^16; so many products of a half and an element add up below 2^53
_PART, _PART_TERMS = float(1 << 17), 16


@interpretable
def requantize_elements(
    acc: Any, kind: int, prm: Any, rounding: int, zero_point: int, lo: int, hi: int, seed: int, out: Any
) -> None:
    """``out[n, c]``: accumulators (N, C) of one kind requantised; ``prm``: int64 (4, C) bias, multiplier, shift,
    offset."""
    count, channels = acc.shape
    key, keeps = np.empty(channels, np.int64), np.empty(channels, np.bool_)
    for c in range(channels):
        bias, m, shift, offset = prm[0, c], prm[1, c], prm[2, c], prm[3, c]
        key[c] = requantize_key(seed, m, shift, offset, rounding, zero_point, lo, hi)
        keeps[c] = keeps_int8(bias, m, shift, offset, rounding, zero_point)
    for n in range(count):
        for c in range(channels):
            out[n, c] = requantized(reduce(acc[n, c]), kind, prm[0, c], key[c], keeps[c], lo, hi, seed)


@interpretable
def map_elements(values: Any, a: int, b: int, key: int, out: Any) -> None:
    """A function in the form of :func:`~tilewright.jit.proof.algebra.table_form`, element by element; 1-D."""
    for n in range(len(values)):
        out[n] = apply_form(values[n], a, b, key)


@interpretable
def members(values: Any, kind: int, seed: int, out: Any) -> None:
    """What each value adds to a maximum or minimum (``kind``); 1-D."""
    for n in range(len(values)):
        out[n] = member(values[n], kind, seed)


@interpretable
def reduce_elements(values: Any) -> None:
    """Reduce in place; 1-D."""
    for n in range(len(values)):
        values[n] = reduce(values[n])


@interpretable
def multiply_elements(a: Any, b: Any, out: Any) -> None:
    """``out[n] = a[n] * b[n]``; 1-D."""
    for n in range(len(a)):
        out[n] = times(reduce(a[n]), reduce(b[n]))


def product_of_elements(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """``a @ b.T`` over the field, reduced, of reduced (M, K) and (N, K): by parts of ``b`` whose products are exact."""
    total = np.zeros((len(a), len(b)))
    high = np.rint(b / _PART)
    for first in range(0, a.shape[1], _PART_TERMS):
        terms = slice(first, first + _PART_TERMS)
        for part, factor in ((high, _PART), (b - high * _PART, 1.0)):
            product = a[:, terms] @ part[:, terms].T
            reduce_elements(product.reshape(-1))
            total += product * factor
            reduce_elements(total.reshape(-1))
    return total


@interpretable
def differing(a: Any, b: Any, out: Any) -> int:
    """``out[n]``: whether two elements differ; how many; 1-D."""
    count = 0
    for n in range(len(a)):
        out[n] = residue(a[n]) != residue(b[n])
        count += out[n]
    return count


@interpretable
def _residues(values: Any, out: Any) -> None:
    for n in range(len(values)):
        out[n] = residue(values[n])


def residues(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The integers 0 .. P-1 that elements stand for, as one row."""
    flat = np.ascontiguousarray(values, np.float64).ravel()
    out = np.empty(flat.size, np.int64)
    _residues(flat, out)
    return out
