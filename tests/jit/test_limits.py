"""The last value that fits and the first that does not."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.jit.errors import PlaceError, Unsupported
from tilewright.jit.frontend.layers.scaling import _within_int32
from tilewright.jit.writer import pack_weights


@pytest.mark.parametrize("bits", [2, 4])
def test_weights_of_few_bits(bits: int) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    fits = np.array([low, high] * 4, np.int8)
    data = pack_weights(fits, bits, "conv")
    codes = [byte >> shift & (1 << bits) - 1 for byte in data for shift in range(0, 8, bits)]
    assert [code - (code > high) * (1 << bits) for code in codes] == fits.tolist()
    for wrong in (low - 1, high + 1):
        with pytest.raises(PlaceError, match=f"do not fit weight_bits = {bits}"):
            pack_weights(np.array([wrong] * 8, np.int8), bits, "conv")


def test_accumulators_of_int32() -> None:
    limits = np.iinfo(np.int32)
    _within_int32(np.array([limits.min]), np.array([limits.max]))
    for low, high in ((limits.min - 1, 0), (0, limits.max + 1)):
        with pytest.raises(Unsupported, match="can leave int32"):
            _within_int32(np.array([low]), np.array([high]))
