"""A ``.tflite`` file through the object API of the schema: read, written, and its numbers as names."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError

#: TensorType of the schema -> NumPy type; types that NumPy lacks (strings, resources) have none
DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 8: "complex64", 9: "int8",
    10: "float64", 12: "uint64", 15: "uint32", 16: "uint16",
}  # fmt: skip
#: TensorType of the schema -> signed integers of which several share a byte, and their bits
PACKED = {17: ("int4", 4), 19: ("int2", 2)}
IDENTIFIER = b"TFL3"
#: what flatbuffers and NumPy raise for bytes that are no model, which loading refuses
UNREADABLE = (struct.error, ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError)


class FormatError(TilewrightError):
    """The schema's classes are not installed."""


def schema() -> Any:
    """The classes of the schema. Raises FormatError where they are not installed."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError as error:
        raise FormatError(".tflite files need ai-edge-litert: pip install 'tilewright[check]'") from error
    return schema_py_generated


class Codes:
    """The operator codes of a model alone, without reading the rest; raises what :func:`read_model` does."""

    def __init__(self, content: bytes) -> None:
        model = schema().Model.GetRootAs(content, 0)
        unpack = schema().OperatorCodeT.InitFromObj
        self.operatorCodes = [unpack(model.OperatorCodes(k)) for k in range(model.OperatorCodesLength())]


def is_behind(held: bool, offset: int) -> bool:
    """Whether LiteRT takes bytes from ``offset`` in the file, as large files have them behind the flatbuffer.

    It does not where the flatbuffer holds a vector of them, even an empty one; 0 and 1 are no offsets.
    """
    return not held and offset > 1


def read_model(content: bytes) -> Any:
    """The schema's ``ModelT`` with the bytes that LiteRT takes: those behind the flatbuffer are brought into it.

    The first buffer is the empty one, whatever it holds. Raises one of :data:`UNREADABLE` where the bytes are no model.
    """
    s = schema()
    model = s.ModelT.InitFromObj(s.Model.GetRootAs(content, 0))
    for number, buffer in enumerate(vector(model.buffers)):
        if number == 0:
            buffer.data = None
        elif is_behind(buffer.data is not None, buffer.offset):
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    for subgraph in vector(model.subgraphs):
        for op in vector(subgraph.operators):
            size, offset = op.largeCustomOptionsSize, op.largeCustomOptionsOffset
            if is_behind(op.customOptions is not None, offset):
                op.customOptions = np.frombuffer(content, np.uint8, size, offset)
            op.largeCustomOptionsOffset = op.largeCustomOptionsSize = 0
    return model


def written(model: Any) -> bytes:
    """A ``ModelT`` as a file."""
    import flatbuffers  # type: ignore[import-untyped]

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def keep_used_codes(model: Any) -> None:
    """Drops operator codes of a ``ModelT`` that no operator has: LiteRT looks all of them up. Operators are changed."""
    operators = [op for subgraph in vector(model.subgraphs) for op in vector(subgraph.operators)]
    used = sorted({op.opcodeIndex for op in operators})
    places = {old: new for new, old in enumerate(used)}
    for op in operators:
        op.opcodeIndex = places[op.opcodeIndex]
    model.operatorCodes = [model.operatorCodes[k] for k in used]


def kinds(model: Any) -> list[str]:
    """The name of each operator code of a ``ModelT``; ``CUSTOM`` where the file brings the name itself."""
    names = {value: name for name, value in vars(schema().BuiltinOperator).items() if isinstance(value, int)}
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in vector(model.operatorCodes)]
    return [names.get(code, f"BUILTIN_{code}") for code in codes]


def blocks_of(tensor: Any) -> Any:
    """The ``BlockwiseQuantizationT`` of a ``TensorT``, which names tensors of its subgraph; None where it has none."""
    details = getattr(tensor.quantization, "details", None)
    return details if hasattr(details, "blockSize") else None


def scales_and_zero_points(tensor: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Those of a ``TensorT`` that LiteRT takes: none beside scales for blocks, whatever the file has."""
    found = tensor.quantization
    if found is None or blocks_of(tensor) is not None:
        return [], []
    return vector(found.scale), vector(found.zeroPoint)


def vector(values: Any) -> Sequence[Any]:
    """A vector of the schema, which is None where it is empty."""
    return [] if values is None else values


def text(stored: bytes | None) -> str:
    """A name of the schema, which is None where it is empty."""
    return (stored or b"").decode("utf-8", "replace")
