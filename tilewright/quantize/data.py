"""Example inputs and labels from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.arrays import load_array, load_arrays
from tilewright.errors import TilewrightError
from tilewright.quantize.base import Array, QuantizeError
from tilewright.runtime.executable import check_tensor, element_shape
from tilewright.runtime.steps import TensorSpec


def load_data(path: Path, inputs: Sequence[TensorSpec]) -> list[Array]:
    """For each input of the model an array (N, *shape).

    ``path``: a ``.npy`` file of N inputs stacked, a ``.npz`` file with one such array by input name, or a folder of
    ``.npy`` files of one input each, or several stacked. Raises :class:`QuantizeError` or FileError naming the file.
    """
    if path.is_dir():
        return [_folder(path, _only(path, inputs))]
    if path.suffix != ".npz":
        return [_checked(path, load_array(path), _only(path, inputs))]
    arrays = load_arrays(path)
    missing = [t.name for t in inputs if t.name not in arrays]
    if missing:
        raise QuantizeError(f"{path}: holds {', '.join(arrays) or 'nothing'}, but no input {missing[0]}")
    found = [_checked(path, arrays[t.name], t) for t in inputs]
    if len({x.shape[0] for x in found}) != 1:
        raise QuantizeError(f"{path}: the inputs hold different numbers of inferences: {[len(x) for x in found]}")
    return found


def load_labels(path: Path, count: int) -> Array:
    """The right class of each of ``count`` inputs."""
    labels = load_array(path)
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        raise QuantizeError(
            f"{path}: {labels.dtype}{labels.shape}; {count} whole numbers are needed, one for each input"
        )
    return labels


def _only(path: Path, inputs: Sequence[TensorSpec]) -> TensorSpec:
    if len(inputs) != 1:
        names = ", ".join(t.name for t in inputs)
        raise QuantizeError(f"{path}: the model takes {len(inputs)} inputs; give a .npz with {names}")
    return inputs[0]


def _folder(path: Path, tensor: TensorSpec) -> Array:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise QuantizeError(f"{path}: holds no .npy files; write each input there with numpy.save")
    shape = element_shape(tensor)
    parts = []
    for file in files:
        array = load_array(file)
        parts.append(_checked(file, array[None] if array.shape == shape else array, tensor))
    return np.concatenate(parts)


def _checked(path: Path, array: Array, tensor: TensorSpec) -> Array:
    if array.dtype == np.float16 and tensor.dtype == "float32":  # which holds the same numbers
        array = array.astype(np.float32)
    try:
        return check_tensor(array, tensor)
    except TilewrightError as error:
        raise QuantizeError(f"{path}: {error}") from error
