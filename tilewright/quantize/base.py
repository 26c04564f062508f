"""What a quantiser offers, whichever file format it is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.progress import Progress
from tilewright.runtime.steps import TensorSpec

Array = NDArray[Any]
#: all inputs of one inference -> every tensor of the model by name, dequantised
Tensors = Callable[[Sequence[Array]], Mapping[str, Array]]
#: all inputs of one inference -> the first output
Answer = Callable[[Sequence[Array]], Array]


class QuantizeError(TilewrightError):
    """A model or its data cannot be quantised as asked; names the file, what is wrong and the way out."""


@dataclass(frozen=True)
class Layer:
    """An operator of the float model: the tensors that it reads (no constants) and the one that it makes."""

    name: str
    kind: str
    reads: tuple[str, ...]
    makes: str


class Quantiser(ABC):
    """A float model that can be run, and quantised once it has seen data."""

    suffix: str  #: of the files that it writes
    inputs: list[TensorSpec]
    layers: list[Layer]
    stay: Sequence[str] = ()  #: sentences: layers that stay in float32, outputs that integer kernels change

    @abstractmethod
    def quantise(self, data: Sequence[Array], progress: Progress) -> bytes:
        """The quantised model, its ranges those of ``data``: for each input an array (N, *shape)."""

    @abstractmethod
    def tensors(self, quantised: bytes | None) -> Tensors:
        """Every tensor of the float model, or of the quantised one under the names that the float one has."""

    @abstractmethod
    def answer(self, quantised: bytes | None) -> Answer:
        """The float model's result, or that of the quantised one as its reference interpreter computes it."""


def nothing_to_quantise(
    path: Path, runtime: str, quantiser: str, layers: Sequence[Layer], stay: Sequence[str] = ()
) -> QuantizeError:
    """What is said of a model none of whose ``layers`` the quantiser takes, with what it has to ``stay`` for."""
    kinds = ", ".join(sorted({layer.kind for layer in layers})) or "none"
    return QuantizeError(
        f"{path}: nothing in it that {quantiser} takes (operators: {kinds}); run it in {runtime}, the accelerator has "
        "nothing to do" + "".join(f"; {sentence}" for sentence in stay)
    )


def samples(data: Sequence[Array], count: int) -> list[list[Array]]:
    """The inputs of the first ``count`` inferences."""
    return [[np.asarray(x[k]) for x in data] for k in range(min(count, data[0].shape[0]))]


def stored(x: Array, scale: float, zero_point: int, dtype: str) -> Array:
    """float32 as an 8-bit input takes it."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(x / np.float32(scale)) + zero_point, info.min, info.max).astype(dtype)
