"""The networks that every machine loads and runs, and what they give on this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tilewright as tw
from bench.bench_networks import stored
from bench.common import DIGITS, MLPERF_TINY, models_folder
from tests.conftest import REPOSITORY
from tilewright.runtime.random_inputs import random_inputs

CONFIG = "pynq-z2"
COUNT = 2  #: inputs of each network


def sources(folder: Path) -> Iterator[Path]:
    """The models: the digits, and where the real networks are found those that the README quotes and ResNet-18."""
    yield DIGITS / "digits.onnx"
    models = [models_folder() / f"{name}.tflite" for name in (*MLPERF_TINY, "mobilenet_v2_imagenet")]
    missing = [path.stem for path in models if not path.exists()]
    if missing:
        print(f"left out, not found in {models_folder()} (TILEWRIGHT_MODELS names the folder): {', '.join(missing)}")
    yield from (path for path in models if path.exists())
    resnet = folder / "resnet18.onnx"
    if not resnet.exists():
        subprocess.run([sys.executable, "bench/resnet18.py", "--out", resnet], cwd=REPOSITORY, check=True)
    yield resnet


def prepare(folder: Path) -> list[str]:
    """Write NAME.twa, NAME.x.npz and NAME.y.npz of every network, inputs and outputs here; the names."""
    names = []
    for model in sources(folder):
        executable = tw.compile(model, config=CONFIG)
        kept = model.with_suffix(".npz")
        given = [x[:COUNT] for x in stored(kept)[0]] if kept.exists() else []
        x = given or random_inputs(executable.inputs, 0, COUNT)
        x = [values.reshape(len(values), *t.shape[1:]) for values, t in zip(x, executable.inputs, strict=True)]
        y, _ = executable.run(x)
        executable.save(folder / f"{model.stem}.twa")
        save(folder / f"{model.stem}.x.npz", x)
        save(folder / f"{model.stem}.y.npz", y if isinstance(y, list) else [y])
        names.append(model.stem)
    return names


def save(path: Path, arrays: list[np.ndarray]) -> None:
    """Keep arrays in order."""
    np.savez(path, *arrays)


def differing(found: Path, wanted: Path) -> list[str]:
    """How the arrays of two files differ, byte by byte; empty where they do not."""
    with np.load(found) as a, np.load(wanted) as b:
        if a.files != b.files:
            return [f"{a.files}, not {b.files}"]
        forms = [(a[k].dtype, a[k].shape, b[k].dtype, b[k].shape) for k in a.files]
        if any((one, shape) != (other, its) for one, shape, other, its in forms):
            return [f"other forms: {forms}"]
        counts = {k: int((a[k].view(np.uint8) != b[k].view(np.uint8)).sum()) for k in a.files}
    return [f"{name}: {count} bytes differ" for name, count in counts.items() if count]
