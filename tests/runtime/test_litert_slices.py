"""STRIDED_SLICE with random bounds and masks: whatever is not refused writes all of its results, and those alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtime.litert_models import Net, numbers, tensor
from tilewright.runtime.litert.check import unsound
from tilewright.runtime.litert.kernels import prepared

MASKS = ("beginMask", "endMask", "newAxisMask", "shrinkAxisMask")
Bounds = tuple[list[int], list[int], list[int]]


def draw(rng: random.Random, offset: bool) -> tuple[list[int], Bounds, dict[str, Any]]:
    """(shape, begins and ends and strides, options)."""
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    count = len(shape) if offset else rng.randint(1, 5)
    begin = [rng.randint(-1, 2) for _ in range(count)]
    end = [rng.randint(-1, 5) for _ in range(count)]
    steps = [rng.choice([1, 1, 1, 2, -1]) for _ in range(count)]
    often = 0.1 if offset else 0.4
    options: dict[str, Any] = {f: rng.randrange(1 << count + 1) if rng.random() < often else 0 for f in MASKS}
    options["ellipsisMask"] = 1 << rng.randrange(count + 1) if rng.random() < often else 0
    return shape, (begin, end, steps), options | {"offset": offset}


def sliced(x: NDArray[Any], bounds: Bounds, options: dict[str, Any]) -> NDArray[Any] | None:
    """What NumPy makes of it; None where it has none, or LiteRT's ellipsis takes an axis that is not there."""
    count, index = len(bounds[0]), list[Any]()
    for k, (begin, end, step) in enumerate(zip(*bounds)):
        first = None if options["beginMask"] >> k & 1 else begin
        last = None if options["endMask"] >> k & 1 else begin % x.shape[k] + end if options["offset"] else end
        if options["ellipsisMask"] >> k & 1:
            index.append(Ellipsis)
        elif options["newAxisMask"] >> k & 1:
            index.append(None)
        elif options["shrinkAxisMask"] >> k & 1:
            index.append(first or 0)
        else:
            index.append(slice(first, last, step))
    bounded = sum(each is not Ellipsis and each is not None for each in index)
    if (Ellipsis in index and bounded >= x.ndim) or options["newAxisMask"] >> count:
        return None
    try:
        return np.asarray(x[tuple(index)])
    except IndexError:
        return None


@pytest.mark.parametrize("offset", [False, True])
def test_what_is_not_refused_is_written(offset: bool, tmp_path: Path) -> None:
    """Twice, over memory that holds something else: a result that is left unwritten would tell."""
    rng, refused, compared = random.Random(27), 0, 0
    for _ in range(400):
        shape, bounds, options = draw(rng, offset)
        ins = [tensor(shape, "int8", 0.5), *(numbers(*each) for each in bounds)]
        net = Net("STRIDED_SLICE", ins, [tensor([1], "int8", 0.5)], "StridedSliceOptions", options)
        model = net.save(tmp_path / "m.tflite")
        if unsound(model):
            refused += 1
            continue
        try:
            run = prepared(model, fast=False)
        except (ValueError, RuntimeError):  # LiteRT's own refusal
            continue
        x = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
        run.set_tensor(0, x)
        place, results = run.get_output_details()[0]["index"], []
        for poison in (0x11, 0x77):
            np.asarray(run.tensor(place)()).view(np.int8)[...] = poison
            run.invoke()
            results.append(run.get_tensor(place).copy())
        assert np.array_equal(*results), (shape, bounds, options)
        wanted = sliced(x, bounds, options)
        if wanted is not None:
            compared += 1
            assert results[0].shape == wanted.shape, (shape, bounds, options)
            assert np.array_equal(results[0], wanted), (shape, bounds, options)
    assert refused > 50
    assert compared > 20
