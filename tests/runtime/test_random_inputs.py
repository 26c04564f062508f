"""Inputs that are drawn where none are given cover what their tensors can hold."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.runtime.random_inputs import probing_inputs, random_inputs
from tilewright.runtime.steps import TensorSpec


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_integers_reach_both_ends(dtype: str) -> None:
    (drawn,) = random_inputs((TensorSpec("x", (1, 600, 1000), dtype),), 0, 2)
    assert (drawn.shape, drawn.dtype) == ((2, 600, 1000), np.dtype(dtype))
    assert (drawn.min(), drawn.max()) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


def test_floats_are_what_the_quantisation_covers() -> None:
    tensor = TensorSpec("x", (1, 100, 100), "float32", zero_point=28, scale=0.5)
    (drawn,) = random_inputs((tensor,), 0, 1)
    assert drawn.dtype == np.float32
    assert (drawn.min(), drawn.max()) == ((-128 - 28) * 0.5, (127 - 28) * 0.5)
    assert (drawn * 2 == np.round(drawn * 2)).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_probing_integers_are_noise_ends_waves_and_small_values(dtype: str) -> None:
    (drawn,) = probing_inputs((TensorSpec("x", (1, 60, 100), dtype),), 0, 6)
    assert (drawn.shape, drawn.dtype) == ((6, 60, 100), np.dtype(dtype))
    low, high = (max(-(2**53), min(2**53, int(limit))) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    assert set(drawn[1].ravel().tolist()) == {low, high} == set(drawn[5].ravel().tolist())
    assert not np.array_equal(drawn[1], drawn[5])
    middle, width = (high + low) / 2, high - low
    assert np.abs(drawn[3].astype(float) - middle).max() <= 0.06 * width
    for noisy, least in ((drawn[0], 0.8), (drawn[4], 0.8), (drawn[2], 0.7)):
        assert float(noisy.max()) - float(noisy.min()) > least * width
    steps = np.diff(drawn[2].ravel().astype(float))
    assert np.abs(steps).max() < 0.1 * width, "a wave has no jumps"


def test_probing_floats_lie_between_the_steps_and_beyond_the_range() -> None:
    tensor = TensorSpec("x", (1, 100, 100), "float32", zero_point=28, scale=0.5)
    (drawn,) = probing_inputs((tensor,), 0, 1)
    assert drawn.dtype == np.float32
    places = drawn / 0.5 + 28
    assert places.min() < -128.5
    assert places.max() > 127.5
    assert (np.abs(places - np.round(places)) > 0.1).mean() > 0.5


def test_probing_floats_that_nothing_quantises_are_about_one() -> None:
    (drawn,) = probing_inputs((TensorSpec("x", (1, 100, 100), "float32"),), 0, 1)
    assert 1 < np.abs(drawn).max() < 3
    (flags,) = probing_inputs((TensorSpec("x", (1, 100), "bool"),), 0, 2)
    assert flags.dtype == bool
    assert set(flags.ravel().tolist()) == {False, True}


def test_indices_stay_below_their_limit() -> None:
    tensors = tuple(TensorSpec(name, (1, 500), "int64") for name in ("tokens", "others"))
    tokens, others = random_inputs(tensors, 0, 3, {"tokens": 50})
    assert (tokens.min(), tokens.max()) == (0, 49)
    assert others.max() > 1 << 40
