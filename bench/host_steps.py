"""What :mod:`bench.bench_host` counts, under qemu: instructions between one getppid() and the next. NumPy alone.

``python -m bench.host_steps steps SEED``: drawn steps, of two numbers of inferences each, so that what a call takes
besides falls out; the work of each is printed. ``python -m bench.host_steps prepared FILE N``: a call of a prepared
network on a board whose accelerator has always ended.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.bench_launch import InstantBoard
from tilewright.config import PRESETS
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.native.library import library
from tilewright.runtime.native.order import CompiledOrder
from tilewright.runtime.pynq.manifest import Manifest
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.report.host_work import moved, work
from tilewright.runtime.step_base import Form
from tilewright.runtime.steps import (
    CastStep,
    DequantizeStep,
    PackStep,
    QuantizeStep,
    SoftmaxStep,
    TableSoftmaxStep,
    UnpackStep,
)

FEW, MANY = 3, 11  #: inferences
WARM = 3  #: calls before the one that is counted
CONFIG = PRESETS["pynq-z2"]


def drawn(rng: np.random.Generator) -> Iterator[tuple[Any, Form]]:
    """Steps as networks have them, with their inputs' form."""
    for _ in range(12):  # first layers: patches
        kernel, step, size, channels = (int(rng.choice(v)) for v in ([3, 3, 5, 7], [1, 2], [24, 32, 48, 96], [1, 3]))
        units = -(-kernel * kernel * channels // 16)
        for offset, dtype in ((0, "int8"), (-128, "uint8"), (-100, "uint8")):
            yield PackStep(
                "x", 0, (1, size, size, channels), 16, units, "patches", padding=(1, 1, 1, 1), kernel=(kernel, kernel),
                strides=(step, step), value_offset=offset,
            ), Form((1, size, size, channels), dtype)  # fmt: skip
        yield PackStep(
            "x", 0, (1, size, size, channels), 16, units, "patches", padding=(1, 1, 1, 1), kernel=(kernel, kernel),
            strides=(step, step), permutation=(0, 2, 3, 1),
        ), Form((1, channels, size, size), "int8")  # fmt: skip
    for _ in range(8):  # images and vectors
        size, channels = int(rng.integers(1, 30)), int(rng.choice([3, 8, 16, 40, 64]))
        units = -(-channels // 16)
        shape = (1, size, size, channels)
        yield PackStep("x", 0, shape, 16, units), Form(shape, "int8")
        yield PackStep("x", 0, shape, 16, units, permutation=(0, 2, 3, 1)), Form((1, channels, size, size), "int8")
        yield PackStep("x", 0, shape, 16, 2 * units, "blocks", block=units), Form(shape, "int8")
        wide: Any = str(rng.choice(["int8", "int16", "int32"]))
        yield UnpackStep("x", 0, shape, shape, 16, units, dtype=wide), Form((units * 16 * size * size,), "int8")
        yield (
            UnpackStep("x", 0, shape, (1, channels, size, size), 16, units, permutation=(0, 3, 1, 2)),
            Form((units * 16 * size * size,), "int8"),
        )
        values = Form((int(rng.integers(1, 20)), int(rng.integers(2, 400))), "int8")
        yield SoftmaxStep("x", "y", 1 << 30, 20, -255), values
        yield TableSoftmaxStep("x", "y", tuple(float(np.exp((k - 255) / 16)) for k in range(256)), 256.0, 0), values
        yield CastStep("x", "y", 128, "uint8"), values
        yield DequantizeStep("x", "y", 0.5, 3), values
        yield QuantizeStep("x", "y", 0.5, 3), Form(values.shape, "float32")


def steps(seed: int) -> None:
    """Count drawn steps, and apart from them the order of bytes in DRAM; a line for each goes to the output stream."""
    order, memory = CompiledOrder(CONFIG), np.zeros(1 << 24, np.uint8)
    assert library() is not None, "NumPy would be counted"

    def count(done: Callable[[int], object], units: Iterable[tuple[str, float]]) -> None:
        for inferences in (FEW, MANY):
            counted(partial(done, inferences))
        print(json.dumps(dict(units)), flush=True)

    def apply(step: Any, x: np.ndarray[Any, Any], inferences: int) -> object:
        return step.apply(x[:inferences])

    def write(rows: np.ndarray[Any, Any], inferences: int) -> None:
        order.write_stack(memory, 0, order.whole(rows.shape[1]), rows[:inferences])

    def read(size: int, inferences: int) -> object:
        return order.read_stack(memory, 0, order.whole(size), inferences, size)

    for step, form in drawn(np.random.default_rng(seed)):
        x = np.full((MANY, *form.shape), 3, form.dtype)
        if isinstance(step, UnpackStep):
            x = x.view(np.uint8)
        count(partial(apply, step, x), work(step, {"x": form}, CONFIG.replace(axi_ports=1)))
        if isinstance(step, PackStep):
            count(partial(write, step.apply(x)), moved(step.size, CONFIG))
            count(partial(read, step.size), moved(step.size, CONFIG))


def prepared(path: Path, count: int) -> None:
    """Count opening a network that was verified before, and a call of it when it is prepared."""
    config = Artifact.load(path).config
    device = PynqDevice(config, Manifest(Path("instant.bit"), config), pynq=InstantBoard(config))
    counted(lambda: Executable(Artifact.load(path), device, verified=True), warm=0)
    executable = Executable(Artifact.load(path), device, verified=True)
    x = random_inputs(executable.inputs, 0, count)
    with executable.prepare(count) as infer:
        counted(partial(infer, x[0] if len(x) == 1 else x))


def counted(call: Callable[[], object], warm: int = WARM) -> None:
    """Call between two marks, after so many calls to warm up."""
    for _ in range(warm):
        call()
    os.getppid()
    call()
    os.getppid()


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        steps(int(sys.argv[2]))
    else:
        prepared(Path(sys.argv[2]), int(sys.argv[3]))
