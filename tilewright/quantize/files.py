"""``quantize_file``: one call for every kind of float model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.jit.source.kinds import check_model_file, described
from tilewright.kinds import function, path_of, shown
from tilewright.progress import Progress, silent
from tilewright.quantize.base import Answer, Array, Quantiser, QuantizeError, samples
from tilewright.quantize.data import load_data, load_labels
from tilewright.quantize.loss import layer_losses
from tilewright.quantize.result import Quantised

__all__ = ["QuantizeError", "open_quantiser", "quantize_file"]

COMPARED = 16  #: inputs that layers are compared on
BITS = (8, 4)  #: of a weight


def quantize_file(
    model: str | Path,
    data: str | Path,
    *,
    test: str | Path | None = None,
    labels: str | Path | None = None,
    bits: int = 8,
    progress: Progress = silent,
) -> Quantised:
    """Quantise a float ``.onnx``, ``.pt2`` or ``.tflite`` file, its ranges those that ``data`` shows.

    ``bits``: of a weight, 8 or 4; activations have 8. ``data``: as :func:`tilewright.quantize.data.load_data` takes it;
    all of it is seen. ``test``: other inputs, in the same forms, on which losses and accuracy are measured, instead of
    on ``data``. ``labels``: a ``.npy`` file with the right class of each of these, for the accuracy of both models.
    Raises :class:`TilewrightError` naming the file.
    """
    model = path_of("model", model, error=QuantizeError)
    data = path_of("data", data, error=QuantizeError, wanted="the path of a file or a folder")
    if test is not None:
        test = path_of("test", test, error=QuantizeError, wanted="the path of a file or a folder")
    if labels is not None:
        labels = path_of("labels", labels, error=QuantizeError)
    function("progress", progress, error=QuantizeError)
    if type(bits) not in (int, np.int64) or bits not in BITS:  # True is none, and neither is 8.0
        raise QuantizeError(f"--bits {shown(bits)}: weights are quantised to {' or '.join(map(str, BITS))} bits")
    quantiser = open_quantiser(Path(model), bits)
    arrays = load_data(Path(data), quantiser.inputs)
    measured = arrays if test is None else load_data(Path(test), quantiser.inputs)
    count = measured[0].shape[0]
    right = None if labels is None else load_labels(Path(labels), count)
    content = quantiser.quantise(arrays, progress)
    losses = layer_losses(
        quantiser.layers, quantiser.tensors(None), quantiser.tensors(content), samples(measured, COMPARED), progress
    )
    accuracy = None
    if right is not None:
        shares = [
            _accuracy(quantiser.answer(form), samples(measured, count), right, what, progress)
            for form, what in ((None, "float accuracy"), (content, "quantised accuracy"))
        ]
        accuracy = shares[0], shares[1]
    return Quantised(content, losses, arrays[0].shape[0], accuracy, tuple(quantiser.stay))


def open_quantiser(path: Path, bits: int) -> Quantiser:
    """The quantiser for a float model file, to weights of ``bits``. Raises :class:`TilewrightError`."""
    check_model_file(path)
    suffix = path.suffix.lower()
    if suffix == ".tflite":
        from tilewright.quantize.litert import LitertQuantiser

        return LitertQuantiser(path, bits)
    if suffix == ".onnx":
        from tilewright.quantize.onnx_runtime import OnnxQuantiser, read_float

        return OnnxQuantiser(path, read_float(path), bits)
    if suffix == ".pt2":
        from tilewright.jit.source.pytorch import file_to_onnx
        from tilewright.quantize.onnx_runtime import OnnxQuantiser, parse_float

        return OnnxQuantiser(path, parse_float(path, file_to_onnx(path)), bits)
    known = described(path) or f"unknown kind of model {path.suffix!r}; give a float .onnx, .pt2 or .tflite file"
    raise QuantizeError(f"{path}: {known}")


def _accuracy(answer: Answer, inputs: Sequence[Sequence[Array]], labels: Array, what: str, progress: Progress) -> float:
    """The share of inputs whose largest result is the right one."""
    right = 0
    for k, x in enumerate(inputs):
        progress(what, k, len(inputs))
        right += int(np.argmax(answer(x)) == labels[k])
    return right / len(inputs)
