"""``--check``: the reference interpreters, and how a result differs from theirs.

``.tflite``: ai-edge-litert with the ``BUILTIN_REF`` resolver, one thread. ``.onnx``: ONNX Runtime with
``session.x64quantprecision=1``, without which CPUs that lack VNNI saturate products (``docs/numbers.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError

Array = NDArray[Any]
Progress = Callable[[int], None]


class CheckError(TilewrightError):
    """The reference interpreter is not installed or cannot run the model."""


@dataclass(frozen=True)
class Difference:
    """How two stacks of outputs differ: counts, and the largest distance in units of the output."""

    elements: int
    elements_total: int
    inferences: int
    inferences_total: int
    largest: float

    @property
    def exact(self) -> bool:
        """Whether every element is equal."""
        return self.elements == 0

    def __str__(self) -> str:
        if self.exact:
            return f"all {self.elements_total:,} elements of {self.inferences_total} outputs equal the reference"
        return (
            f"{self.elements:,} of {self.elements_total:,} elements in {self.inferences} of {self.inferences_total} "
            f"outputs differ from the reference, by at most {self.largest:g} LSB"
        )


def compare(outputs: Sequence[Array], expected: Sequence[Array], scales: Sequence[float]) -> Difference:
    """Compare stacks of outputs; ``scales`` turns float outputs into LSB (integers are LSB already)."""
    different = total = 0
    largest = 0.0
    bad: Array = np.zeros(outputs[0].shape[0], bool)
    for y, reference, scale in zip(outputs, expected, scales, strict=True):
        if y.shape != reference.shape or y.dtype != reference.dtype:
            raise CheckError(f"output {y.dtype}{y.shape}: the reference gives {reference.dtype}{reference.shape}")
        unequal = (y != reference).reshape(len(y), -1)
        different, total, bad = different + int(unequal.sum()), total + y.size, bad | unequal.any(axis=1)
        if unequal.any():
            distance = np.abs(y.astype(np.float64) - reference.astype(np.float64)).max()
            largest = max(largest, float(distance / (scale if y.dtype.kind == "f" else 1.0)))
    return Difference(different, total, int(bad.sum()), len(bad), round(largest, 3))


def reference_outputs(model: Path, inputs: Sequence[Array], progress: Progress | None = None) -> list[Array]:
    """Run N stacked inputs through the reference interpreter of the model's file type; outputs stacked likewise."""
    run = _litert(model) if model.suffix.lower() == ".tflite" else _onnxruntime(model)
    collected: list[list[Array]] = []
    for k in range(inputs[0].shape[0]):
        collected.append(run([x[k] for x in inputs]))
        if progress is not None:
            progress(1)
    return [np.stack([outputs[i] for outputs in collected]) for i in range(len(collected[0]))]


def _drop_batch(y: Array) -> Array:
    return y[0] if y.shape[:1] == (1,) else y


def _litert(model: Path) -> Callable[[list[Array]], list[Array]]:
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError as error:
        raise CheckError(f"--check of {model} needs ai-edge-litert: pip install 'tilewright[check]'") from error
    try:
        interpreter = Interpreter(
            model_path=str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise CheckError(f"--check: ai-edge-litert cannot load {model}: {_first_line(error)}") from error
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(values: list[Array]) -> list[Array]:
        for details, value in zip(inputs, values, strict=True):
            interpreter.set_tensor(details["index"], value.reshape(details["shape"]))
        interpreter.invoke()
        return [_drop_batch(interpreter.get_tensor(details["index"]).copy()) for details in outputs]

    return run


def _onnxruntime(model: Path) -> Callable[[list[Array]], list[Array]]:
    try:
        import onnxruntime
    except ImportError as error:
        raise CheckError(f"--check of {model} needs onnxruntime: pip install 'tilewright[check]'") from error
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [(i.name, len(i.shape)) for i in session.get_inputs()]

    def run(values: list[Array]) -> list[Array]:
        feed = {name: v if v.ndim == rank else v[None] for (name, rank), v in zip(names, values, strict=True)}
        return [_drop_batch(y) for y in session.run(None, feed)]

    return run


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
