"""``.tflite`` files: validation ahead of TVM's importer, which trusts its input, and operator names kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.jit.compat import label_main
from tilewright.jit.compat_importers import Refused, first_line, import_tflite
from tilewright.jit.errors import ModelError
from tilewright.jit.frontend.site import LITERT, SEMANTICS_ATTRIBUTE

_IDENTIFIER = b"TFL3"
#: bytes per element of the tensor types that may hold constants; 0: variable or packed, not checked
_TYPE_BYTES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 9: 1, 10: 8}


@dataclass(frozen=True)
class _Checker:
    """Walks everything the importer will read and refuses what does not add up."""

    path: Path
    data: bytes

    def fail(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: corrupt .tflite file: {what}; download or export it again")

    def require(self, condition: bool, what: str) -> None:
        if not condition:
            raise self.fail(what)

    def count(self, value: int, what: str) -> range:
        """A vector's length as a range, refused where the file is too small to hold it."""
        self.require(0 <= value <= len(self.data) // 4, f"{value} {what} in {len(self.data)} bytes")
        return range(value)

    def check(self, model: Any) -> None:
        self.require(model.Version() == 3, f"schema version {model.Version()}, not 3")
        self.require(model.SubgraphsLength() == 1, f"{model.SubgraphsLength()} subgraphs, not 1")
        codes = len(self.count(model.OperatorCodesLength(), "operator codes"))
        buffers = len(self.count(model.BuffersLength(), "buffers"))
        sizes = []
        for i in range(buffers):
            buffer = model.Buffers(i)
            self.require(buffer is not None and 0 <= buffer.DataLength() <= len(self.data), f"buffer {i}")
            self.require(buffer.Offset() <= 1, f"buffer {i} lies outside the flatbuffer")
            buffer.DataAsNumpy()
            sizes.append(buffer.DataLength())
        subgraph = model.Subgraphs(0)
        tensors = len(self.count(subgraph.TensorsLength(), "tensors"))
        for i in range(tensors):
            self._tensor(subgraph.Tensors(i), i, sizes)
        for i in self.count(subgraph.OperatorsLength(), "operators"):
            op = subgraph.Operators(i)
            self.require(0 <= op.OpcodeIndex() < codes, f"operator {i} has operator code {op.OpcodeIndex()} of {codes}")
            for length, indices in (
                (op.InputsLength(), op.InputsAsNumpy),
                (op.OutputsLength(), op.OutputsAsNumpy),
            ):
                self.count(length, f"operands of operator {i}")
                self._indices(indices() if length else (), tensors, f"operator {i}", low=-1)
        for what, length, indices in (
            ("inputs", subgraph.InputsLength(), subgraph.InputsAsNumpy),
            ("outputs", subgraph.OutputsLength(), subgraph.OutputsAsNumpy),
        ):
            self.require(len(self.count(length, what)) > 0, f"no {what}")
            self._indices(indices(), tensors, f"the graph's {what}", low=0)

    def _indices(self, values: Any, tensors: int, what: str, low: int) -> None:
        array = np.asarray(values)
        inside = bool(((array >= low) & (array < tensors)).all())
        self.require(inside, f"{what} names a tensor outside 0..{tensors - 1}")

    def _tensor(self, tensor: Any, index: int, sizes: list[int]) -> None:
        label = f"tensor {index}"
        self.require(tensor is not None, label)
        name = tensor.Name()
        if name is not None:
            label = f"tensor {index} {name.decode('utf-8')!r}"
        self.count(tensor.ShapeLength(), f"dimensions of {label}")
        shape = [int(d) for d in tensor.ShapeAsNumpy()] if tensor.ShapeLength() else []
        self.require(all(0 <= d < 1 << 31 for d in shape), f"{label} has shape {shape}")
        self.require(0 <= tensor.Buffer() < max(1, len(sizes)), f"{label} uses buffer {tensor.Buffer()}")
        stored = sizes[tensor.Buffer()] if sizes else 0
        width = _TYPE_BYTES.get(tensor.Type(), 0)
        if stored and width and not tensor.Sparsity():
            elements = int(np.prod(np.array(shape, object))) if shape else 1
            self.require(stored == elements * width, f"{label} has {stored} bytes for shape {shape}")
        quantisation = tensor.Quantization()
        if quantisation is not None and quantisation.ScaleLength():
            self.count(quantisation.ScaleLength(), f"scales of {label}")
            scales = quantisation.ScaleAsNumpy()
            sound = bool(np.isfinite(scales).all() and (scales >= 0).all())
            self.require(sound, f"{label} has a scale that is no number")
            self.count(quantisation.ZeroPointLength(), f"zero points of {label}")
            quantisation.ZeroPointAsNumpy()


def read(path: Path) -> Any:
    """The flatbuffer of a ``.tflite`` file, validated; ModelError also for models that are sound but unusable."""
    import tflite

    data = path.read_bytes()
    if len(data) < 32 or data[4:8] != _IDENTIFIER:
        raise ModelError(f"{path}: not a .tflite file (no {_IDENTIFIER.decode()} identifier); is it truncated?")
    checker = _Checker(path, data)
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        checker.check(model)
        _refuse_unusable(path, model)
    except ModelError:
        raise
    except Exception as error:  # the flatbuffer reader raises whatever struct, NumPy and codecs do
        raise checker.fail(f"{type(error).__name__} while reading it") from error
    return model


def _refuse_unusable(path: Path, model: Any) -> None:
    """Float models, dynamic shapes and batches, said before the importer says something less clear."""
    import tflite

    subgraph = model.Subgraphs(0)
    quantised = False
    for i in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(i)
        quantisation = tensor.Quantization()
        quantised |= tensor.Type() in (tflite.TensorType.INT8, tflite.TensorType.UINT8) and bool(
            quantisation is not None and quantisation.ScaleLength()
        )
    if not quantised:
        raise ModelError(
            f"{path}: not quantised: no tensor is int8 with a scale; quantise it with tf.lite.TFLiteConverter "
            "(optimizations=[tf.lite.Optimize.DEFAULT], a representative_dataset, TFLITE_BUILTINS_INT8)"
        )
    for i in subgraph.InputsAsNumpy():
        tensor = subgraph.Tensors(int(i))
        name = (tensor.Name() or b"").decode()
        signature = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else ()
        shape = tuple(int(d) for d in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()
        if any(int(d) < 0 for d in list(signature)[1:]):
            raise ModelError(
                f"{path}: input {name!r} has the dynamic shape {tuple(int(d) for d in signature)}; convert the model "
                "again with a fixed input shape"
            )
        if len(shape) > 1 and shape[0] != 1:
            raise ModelError(
                f"{path}: input {name!r} has batch {shape[0]} (shape {shape}); convert the model again with batch 1, "
                "several inputs are launched together at run time"
            )


def load(path: Path) -> Any:
    """The Relax module of a quantised ``.tflite`` file; raises ModelError for any that cannot be imported."""
    model = read(path)
    try:
        mod = import_tflite(model)
    except Refused as error:
        raise ModelError(f"{path}: {error}") from error
    except Exception as error:  # anything the importer trips over is the file's fault to the user
        raise ModelError(
            f"{path}: TVM cannot import it: {first_line(error)}; check the file with another runtime"
        ) from error
    subgraph = model.Subgraphs(0)
    outputs = [(subgraph.Tensors(int(i)).Name() or b"").decode() for i in subgraph.OutputsAsNumpy()]
    return label_main(mod, {SEMANTICS_ATTRIBUTE: LITERT}, outputs)
