"""Versions of operators that LiteRT's set of reference kernels has not been told of, though its kernels have them.

A version says which types and options a reader must know. ``register.cc`` was raised for some operators without
``register_ref.cc``, so that an int8 TILE, as TensorFlow's converter writes it for UpSampling2D and ``tf.tile``, does
not load with the reference kernels. The kernels themselves look at the types, whatever the version, and refuse those
that they do not have: so the reference of such a model is the same kernel, under the version that it is known by. A
version that ``register.cc`` has not either may say what no kernel looks at, and is LiteRT's own to refuse.
"""

from __future__ import annotations

from tilewright.runtime.litert.schema import UNREADABLE, Codes, kinds, read_model, written

#: the highest versions in ``register_ref.cc`` and ``register.cc`` of what the latter has a higher one of (LiteRT 2.3)
KNOWN = {
    "ABS": (3, 5), "ADD": (5, 6), "ARG_MAX": (2, 3), "ARG_MIN": (2, 3), "COS": (1, 2), "DEPTHWISE_CONV_2D": (6, 7),
    "DEPTH_TO_SPACE": (1, 2), "GELU": (2, 3), "MUL": (7, 8), "RANGE": (1, 2), "SIN": (1, 2), "SOFTMAX": (3, 4),
    "SQUEEZE": (1, 2), "STRIDED_SLICE": (4, 8), "TILE": (2, 3), "TRANSPOSE": (8, 9),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (3, 4),
}  # fmt: skip


def as_known(content: bytes) -> bytes:
    """The model with versions that the reference kernels are known by; bytes that are none as they are."""
    try:
        codes = Codes(content)
        if not any(_is_unheard_of(kind, code.version) for code, kind in zip(codes.operatorCodes, kinds(codes))):
            return content
        model = read_model(content)
        for code, kind in zip(model.operatorCodes, kinds(model)):
            if _is_unheard_of(kind, code.version):
                code.version = KNOWN[kind][0]
        return written(model)
    except UNREADABLE:
        return content


def _is_unheard_of(kind: str, version: int) -> bool:
    """Whether a version is one of those that the reference kernels alone are not known by."""
    reference, newest = KNOWN.get(kind, (0, 0))
    return reference < version <= newest
