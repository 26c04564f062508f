"""Versions of operators that LiteRT's set of reference kernels has not been told of, though its kernels have them.

A version says which types and options a reader must know. ``register.cc`` was raised for some operators without
``register_ref.cc``, so that an int8 TILE, as TensorFlow's converter writes it for UpSampling2D and ``tf.tile``, does
not load with the reference kernels. The kernels themselves look at the types, whatever the version, and refuse those
that they do not have: so the reference of such a model is the same kernel, under the version that it is known by.
"""

from __future__ import annotations

from tilewright.runtime.litert.schema import UNREADABLE, Codes, kinds, read_model, written

#: the highest version in ``register_ref.cc`` of what ``register.cc`` has a higher one of (LiteRT 2.3)
KNOWN = {
    "ABS": 3, "ADD": 5, "ARG_MAX": 2, "ARG_MIN": 2, "COS": 1, "DEPTHWISE_CONV_2D": 6, "DEPTH_TO_SPACE": 1, "GELU": 2,
    "MUL": 7, "RANGE": 1, "SIN": 1, "SOFTMAX": 3, "SQUEEZE": 1, "STRIDED_SLICE": 4, "TILE": 2, "TRANSPOSE": 8,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 3,
}  # fmt: skip


def as_known(content: bytes) -> bytes:
    """The model with versions that the reference kernels are known by; bytes that are none as they are."""
    try:
        codes = Codes(content)
        if all(code.version <= KNOWN.get(kind, code.version) for code, kind in zip(codes.operatorCodes, kinds(codes))):
            return content
        model = read_model(content)
        for code, kind in zip(model.operatorCodes, kinds(model)):
            code.version = min(code.version, KNOWN.get(kind, code.version))
        return written(model)
    except UNREADABLE:
        return content
