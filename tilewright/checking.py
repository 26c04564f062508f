"""``--check``: the reference interpreters, and how a result differs from theirs.

``.tflite``: ai-edge-litert with the ``BUILTIN_REF`` resolver, one thread. ``.onnx``: ONNX Runtime with
``session.x64quantprecision=1``, without which CPUs that lack VNNI saturate products (``docs/numbers.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.kinds import function, instance, path_of
from tilewright.progress import Advance
from tilewright.ranges import flag
from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import Interpreter, InterpreterError

if TYPE_CHECKING:
    from tilewright.jit.source import Source

Array = NDArray[Any]


class CheckError(TilewrightError):
    """The reference interpreter is not installed or cannot run the model."""


@dataclass(frozen=True)
class Difference:
    """How two stacks of outputs differ: counts, and the largest distance, in LSB or (float outputs that no operator
    dequantised) as it is."""

    elements: int
    elements_total: int
    inferences: int
    inferences_total: int
    largest: float
    unit: str = "LSB"

    @property
    def exact(self) -> bool:
        """Whether every element is equal."""
        return self.elements == 0

    def __str__(self) -> str:
        if self.exact:
            return f"all {self.elements_total:,} elements of {self.inferences_total} outputs equal the reference"
        distance = f", by at most {self.largest:g} {self.unit}".rstrip() if self.largest else ""  # NaN and texts: none
        return (
            f"{self.elements:,} of {self.elements_total:,} elements in {self.inferences} of {self.inferences_total} "
            f"outputs differ from the reference{distance}"
        )


def compare(outputs: Sequence[Array], expected: Sequence[Array], scales: Sequence[float]) -> Difference:
    """Compare stacks of outputs; ``scales`` turns float outputs into LSB (integers are LSB already).

    A float output whose scale is 1 was not dequantised from integers: its distance is given as it is.
    """
    if not len(outputs) == len(expected) == len(scales) > 0:
        raise CheckError(f"{len(outputs)} outputs, {len(expected)} of the reference, {len(scales)} scales: not as many")
    different = total = 0
    largest, unit = 0.0, "LSB"
    bad: Array = np.zeros(outputs[0].shape[0], bool)
    for y, reference, scale in zip(outputs, expected, scales, strict=True):
        if y.shape != reference.shape or y.dtype != reference.dtype:
            raise CheckError(f"output {y.dtype}{y.shape}: the reference gives {reference.dtype}{reference.shape}")
        real = y.dtype.kind == "f"
        unequal = y != reference
        if real:
            unequal &= ~(np.isnan(y) & np.isnan(reference))
        per_inference = unequal.reshape(len(y), -1)
        different, total = different + int(unequal.sum()), total + y.size
        bad = bad | per_inference.any(axis=1)
        if unequal.any() and y.dtype.kind != "O":
            distance = float(np.abs(y.astype(np.float64) - reference.astype(np.float64))[unequal].max())
            lsb = distance / scale if real else distance
            if lsb >= largest:
                largest, unit = lsb, "" if real and scale == 1.0 else "LSB"
    return Difference(different, total, int(bad.sum()), len(bad), round(largest, 6), unit)


def reference_outputs(
    model: str | Path, inputs: Sequence[Array], progress: Advance | None = None, *, stream: bool = False
) -> list[Array]:
    """Run N stacked inputs through the reference interpreter of the model's file type; outputs stacked likewise.

    A model that keeps state starts each input afresh, in a ``stream`` where the last one ended. Raises
    :class:`CheckError`.
    """
    from tilewright.jit.source import open_source

    source = open_source(path_of("model", model, error=CheckError))
    function("progress", progress, error=CheckError)
    flag("stream", stream, error=CheckError)
    instance("inputs", inputs, Sequence, "a list of NumPy arrays, one for each input of the model", error=CheckError)
    package = interpreters.PACKAGES[source.runtime][1]
    if not interpreters.is_installed(source.runtime):
        raise CheckError(f"--check of {model} needs {package}: pip install 'tilewright[check]'")
    count = len(source.reference()[2])
    if len(inputs) != count:
        raise CheckError(f"--check: {model} takes {count} inputs, {len(inputs)} given")
    if not all(isinstance(x, np.ndarray) and x.ndim and len(x) == len(inputs[0]) > 0 for x in inputs):
        raise CheckError(f"--check: {model} takes NumPy arrays of N inputs stacked, N alike and at least 1")
    if any(np.ma.is_masked(x) for x in inputs):
        raise CheckError(f"--check: {model} takes numbers, and inputs are masked in places; fill them (x.filled(0))")
    try:
        return outputs_of(source, inputs, progress, stream=stream)
    except InterpreterError as error:
        raise CheckError(f"--check: {error}") from error


def outputs_of(
    source: Source, inputs: Sequence[Array], progress: Advance | None = None, *, stream: bool = False
) -> list[Array]:
    """As :func:`reference_outputs`, of an opened file and of as many inputs as it takes.

    Raises :class:`~tilewright.runtime.interpreters.InterpreterError`.
    """
    what = f"{interpreters.PACKAGES[source.runtime][1]} cannot run {source.path}"
    content, stateful, shapes = source.reference()
    interpreter: Interpreter | None = None
    collected: list[list[Array]] = []
    for k in range(inputs[0].shape[0]):
        if interpreter is None or (stateful and not stream):
            interpreter = interpreters.load(source.runtime, content, what)
        with interpreters.named_failures(what):
            values = [x[k].reshape(shape) for x, shape in zip(inputs, shapes, strict=True)]
        collected.append([_drop_batch(y) for y in interpreter(values)])
        if progress is not None:
            progress(1)
    with interpreters.named_failures(f"{what}: outputs of different shapes for different inputs"):
        return [np.stack(of_all) for of_all in zip(*collected, strict=True)]


def _drop_batch(y: Array) -> Array:
    return y[0] if y.shape[:1] == (1,) else y
