"""Fixtures shared by all tests.

``shared_models`` and ``model_case`` reach the real networks, which are test data and not part of the
project; a test that asks for them is skipped, saying why, where they are not found. So is one that asks for
``toolchain`` or ``hls_toolchain`` where what builds the RTL or the kernels is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import terminal
from tilewright.files import cache_root
from tilewright.hw.verilated.toolchain import ToolError, compiler, verilator_root

REPOSITORY = Path(__file__).resolve().parent.parent
os.environ["TILEWRIGHT_DEFECTS"] = "raise"  # here and in processes that tests start: a defect fails the test
terminal.QUIET_SECONDS = 3600.0  # however busy the machine is, errors are counted among no lines of progress
HANG = 600  #: seconds after which a process of a test counts as stuck, on a machine that has other work too


def own_cache(folder: Path) -> str:
    """``TILEWRIGHT_CACHE`` of a process with a cache of its own, in which this one's kernels are: compiling them takes
    a minute."""
    kernels = cache_root() / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "kernels").exists():
        (folder / "kernels").symlink_to(kernels)
    return str(folder)


@dataclass(frozen=True)
class ModelCase:
    """A real network and what the reference interpreter makes of it.

    ``x``: quantised inputs, ``y``: outputs, both stacked on the first axis. ``layers``: every operator's
    output for the first input, by array name; ``meta`` names the operators, as stored in the file. Both
    are None where there is no ``.layers.npz``.
    """

    name: str
    model: Path
    x: NDArray[Any]
    y: NDArray[Any]
    labels: NDArray[Any] | None
    layers: dict[str, NDArray[Any]] | None
    meta: Any


def models_directory() -> Path:
    """Where the shared networks are: ``TILEWRIGHT_MODELS``, else ``shared/models`` beside the checkout."""
    configured = os.environ.get("TILEWRIGHT_MODELS")
    return Path(configured) if configured else REPOSITORY.parent / "shared" / "models"


def load_case(directory: Path, name: str) -> ModelCase:
    """Read one network's model path, inputs, outputs and layer outputs from ``directory``."""
    with np.load(directory / f"{name}.npz") as data:
        x, y = data["x"], data["y"]
        labels = data.get("labels")
    layers, meta = None, None
    layers_file = directory / f"{name}.layers.npz"
    if layers_file.exists():
        with np.load(layers_file) as data:
            layers = {key: data[key] for key in data.files if key != "meta"}
            meta = json.loads(str(data["meta"]))
    return ModelCase(name, directory / f"{name}.tflite", x, y, labels, layers, meta)


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of real networks; skips the test where there is none."""
    directory = models_directory()
    if not any(directory.glob("*.tflite")):
        pytest.skip(f"no .tflite networks in {directory}: set TILEWRIGHT_MODELS to the folder that holds them")
    return directory


@pytest.fixture(scope="session")
def model_case(shared_models: Path) -> Callable[[str], ModelCase]:
    """``model_case("resnet8_cifar10")`` loads that network with its inputs and expected outputs."""
    cache: dict[str, ModelCase] = {}

    def load(name: str) -> ModelCase:
        if not (shared_models / f"{name}.tflite").exists():
            pytest.skip(f"{name}.tflite is not in {shared_models}")
        if name not in cache:
            cache[name] = load_case(shared_models, name)
        return cache[name]

    return load


@pytest.fixture(scope="session")
def toolchain() -> None:
    """Skips the test where Verilator or g++ is missing."""
    try:
        verilator_root()
        compiler()
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hls_toolchain() -> None:
    """Skips the test where the ap_int headers or g++ are missing."""
    if find_spec("hls4ml") is None:
        pytest.skip("hls4ml, whose ap_int.h the kernels need, is not installed: pip install 'tilewright[hls]'")
    try:
        compiler()
    except ToolError as error:
        pytest.skip(str(error))
