"""Validation of ``.tflite`` files ahead of every reader that trusts its input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.jit.errors import ModelError
from tilewright.jit.source.kinds import described
from tilewright.runtime.litert.schema import DTYPES, IDENTIFIER, PACKED, is_behind, schema

#: bits per element of the tensor types that may hold constants; others are of no fixed size, and not checked
_TYPE_BITS = {
    **{code: 8 * np.dtype(name).itemsize for code, name in DTYPES.items()},
    **{code: bits for code, (_, bits) in PACKED.items()},
    20: 4,  # UINT4
}  # fmt: skip
_REAL = (0, 1, 10, 18)  #: float32, float16, float64, bfloat16
_QUANTISED = (3, 7, 9, 17, 19, 20)  #: integers of 16 bits and fewer


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

    def inside(self, offset: int, size: int, what: str) -> None:
        """Bytes from an offset in the file."""
        self.require(offset + size <= len(self.data), f"{what} behind the file")

    def check(self, model: Any) -> None:
        self.require(model.Version() == 3, f"schema version {model.Version()}, not 3")
        subgraphs = len(self.count(model.SubgraphsLength(), "subgraphs"))
        self.require(subgraphs > 0, "no subgraph")
        codes = len(self.count(model.OperatorCodesLength(), "operator codes"))
        buffers = len(self.count(model.BuffersLength(), "buffers"))
        sizes = []
        for i in range(buffers):
            buffer = model.Buffers(i)
            self.require(buffer is not None and 0 <= buffer.DataLength() <= len(self.data), f"buffer {i}")
            buffer.DataAsNumpy()
            sizes.append(_stored(buffer) if i else 0)  # the first is the empty one, whatever it holds
            if i and _is_behind(buffer):
                self.inside(buffer.Offset(), buffer.Size(), f"buffer {i} ends")
        for i in range(subgraphs):
            self._subgraph(model.Subgraphs(i), codes, sizes, main=i == 0)

    def _subgraph(self, subgraph: Any, codes: int, sizes: list[int], main: bool) -> None:
        tensors = len(self.count(subgraph.TensorsLength(), "tensors"))
        for i in range(tensors):
            self._tensor(subgraph.Tensors(i), i, sizes)
        for i in self.count(subgraph.OperatorsLength(), "operators"):
            op = subgraph.Operators(i)
            self.require(0 <= op.OpcodeIndex() < codes, f"operator {i} has operator code {op.OpcodeIndex()} of {codes}")
            for length, indices in (
                (op.InputsLength(), op.InputsAsNumpy),
                (op.OutputsLength(), op.OutputsAsNumpy),
                (op.IntermediatesLength(), op.IntermediatesAsNumpy),
            ):
                self.count(length, f"operands of operator {i}")
                self._indices(indices() if length else (), tensors, f"operator {i}", low=-1)
            if is_behind(not op.CustomOptionsIsNone(), op.LargeCustomOptionsOffset()):
                size = op.LargeCustomOptionsSize()
                self.inside(op.LargeCustomOptionsOffset(), size, f"the options of operator {i} end")
        for what, length, indices in (
            ("inputs", subgraph.InputsLength(), subgraph.InputsAsNumpy),
            ("outputs", subgraph.OutputsLength(), subgraph.OutputsAsNumpy),
        ):
            self.require(not main or len(self.count(length, what)) > 0 or what == "inputs", f"no {what}")
            if length:
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
        bits = _TYPE_BITS.get(tensor.Type(), 0)
        if stored and bits and not tensor.Sparsity():
            elements = int(np.prod(np.array(shape, object))) if shape else 1
            of = f" of {bits} bits each" if bits < 8 else ""
            self.require(stored == -(-elements * bits // 8), f"{label} has {stored} bytes for shape {shape}{of}")
        quantisation = tensor.Quantization()
        if quantisation is not None and quantisation.ScaleLength():
            self.count(quantisation.ScaleLength(), f"scales of {label}")
            scales = quantisation.ScaleAsNumpy()
            sound = bool(np.isfinite(scales).all() and (scales >= 0).all())
            self.require(sound, f"{label} has a scale that is no number")
            self.count(quantisation.ZeroPointLength(), f"zero points of {label}")
            quantisation.ZeroPointAsNumpy()


def _is_behind(buffer: Any) -> bool:
    return is_behind(not buffer.DataIsNone(), buffer.Offset())


def _stored(buffer: Any) -> int:
    """Bytes of a buffer, wherever they are."""
    return int(buffer.Size() if _is_behind(buffer) else buffer.DataLength())


def validate(path: Path, data: bytes, *, quantised: bool = True) -> None:
    """Raise ModelError unless ``data`` is a sound flatbuffer, and of a model that can be used.

    ``quantised``: whether that is what the reader needs, or else a float model.
    """
    if len(data) < 32 or data[4:8] != IDENTIFIER:
        known = described(path) or f"not a .tflite file (no {IDENTIFIER.decode()} identifier); is it truncated?"
        raise ModelError(f"{path}: {known}")
    checker, root = _Checker(path, data), schema().Model
    try:
        model = root.GetRootAs(data, 0)
        checker.check(model)
        _refuse_unusable(path, model, quantised)
    except ModelError:
        raise
    except Exception as error:  # the flatbuffer reader raises whatever struct, NumPy and codecs do
        raise checker.fail(f"{type(error).__name__} while reading it") from error


def _refuse_unusable(path: Path, model: Any, wanted: bool) -> None:
    """Float models (or those that are quantised already) and dynamic shapes, said before something less clear is."""
    subgraph = model.Subgraphs(0)
    quantised = computed = False
    for i in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(i)
        quantisation = tensor.Quantization()
        if tensor.Type() in _QUANTISED and quantisation is not None and quantisation.ScaleLength() > 0:
            quantised = True  # of constants alone: dynamic-range quantisation, whose activations are float32
            computed |= not (tensor.Buffer() and _stored(model.Buffers(tensor.Buffer())))
    if computed and not wanted:
        raise ModelError(f"{path}: is quantised already; compile it as it is")
    real = any(subgraph.Tensors(i).Type() in _REAL for i in range(subgraph.TensorsLength()))
    if wanted and not quantised and not real:
        raise ModelError(
            f"{path}: no tensor is of int8 or int16 with a scale, and none of float32 to quantise; run it in LiteRT, "
            "the accelerator has nothing to do"
        )
    if wanted and not quantised:
        raise ModelError(
            f"{path}: not quantised: no tensor is of int8 or int16 with a scale; quantise it with "
            "`tilewright quantize`, or with tf.lite.TFLiteConverter "
            "(optimizations=[tf.lite.Optimize.DEFAULT], a representative_dataset, TFLITE_BUILTINS_INT8)"
        )
    for i in subgraph.InputsAsNumpy() if subgraph.InputsLength() else ():
        tensor = subgraph.Tensors(int(i))
        name = (tensor.Name() or b"").decode()
        signature = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else ()
        if any(int(d) < 0 for d in list(signature)[1:]):
            raise ModelError(
                f"{path}: input {name!r} has the dynamic shape {tuple(int(d) for d in signature)}; convert the model "
                "again with a fixed input shape"
            )
