"""Types of operands that LiteRT's kernels take; what a row forbids, some kernel or the next one would not refuse.

Many kernels look at one operand and take the others to be of the type that goes with it: they read and write elements
of four bytes where there are some of one. Others set the type of their result, whatever the file says, and the next
kernel's memory is counted by the file. So rows are kept for both. Operators that are not here check all of it
(``tflite/kernels`` of LiteRT 2.3), or do not depend on it.

A row reads ``inputs > outputs``, with types joined by ``/``, ``*`` for any, capitals for one that is the same wherever
it stands, ``?`` behind what may be left out and ``...`` behind what comes once or oftener.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.runtime.litert.model import Operand, Operator

_INT = "int32/int64"
_LSTM = (  # weights, peepholes, biases, projection, states, normalisation
    f"float32 {'W? ' * 8}{'W? ' * 3}{'float32? ' * 4}W? float32? float32 float32 {'float32? ' * 4}> float32",
    f"int8 {'int8? ' * 8}{'int16? ' * 3}{'int32? ' * 4}int8? int32? int8 int16 {'int16? ' * 4}> int8",
)
_HALF = f"{'W? ' * 8}{'W? ' * 3}{'float32? ' * 4}W? float32? "  # of a bidirectional LSTM
_CONV = "float32 {} float32? > float32", "uint8 uint8 int32? > uint8", "int8 int8/int4 int32? > int8"

#: signatures, one of which must fit -> the operators
_ROWS: dict[tuple[str, ...], str] = {
    ("T > T",): """
        ABS AVERAGE_POOL_2D CEIL COS DENSIFY DEPTH_TO_SPACE ELU EXP FLOOR GELU HARD_SWISH L2_NORMALIZATION L2_POOL_2D
        LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX MAX_POOL_2D NEG RELU RELU6
        RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SPACE_TO_DEPTH SQRT SQUARE SQUEEZE TANH ZEROS_LIKE""",
    ("float32 > float32",): "FAKE_QUANT",
    ("T T > T",): """
        ADD ATAN2 BITWISE_XOR DIV FLOOR_DIV FLOOR_MOD LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM POW RIGHT_SHIFT
        SQUARED_DIFFERENCE STABLEHLO_ADD STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY STABLEHLO_PAD
        STABLEHLO_REDUCE_WINDOW STABLEHLO_SHIFT_LEFT SUB""",
    ("T T > bool",): "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL",
    ("T T > T", "int16 int16 > int8/uint8"): "MUL",
    ("T... > T",): "ADD_N CONCATENATION PACK",
    ("T > T...",): "UNPACK",
    ("T int32 > T",): """
        CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
        REVERSE_V2 SEGMENT_SUM SUM TRANSPOSE""",
    (f"T {_INT} > T",): "BROADCAST_TO EXPAND_DIMS MIRROR_PAD REVERSE_SEQUENCE STABLEHLO_GATHER TILE",
    ("T int32 int32 > T",): "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN "
    "UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM",
    ("T > T", "T * > T"): "RESHAPE",
    ("T * T? > T",): "PAD PADV2",
    ("T I I > T",): "SLICE",
    ("I I > I",): "BROADCAST_ARGS",
    ("complex64 > float32", "complex128 > float64"): "COMPLEX_ABS IMAG REAL",
    ("T int32 int32 int32 > T",): "STRIDED_SLICE",
    ("int32 T > T...",): "SPLIT",
    (f"T {_INT} int32 > T...",): "SPLIT_V",
    ("bool T T > T",): "SELECT SELECT_V2",
    ("T int16/int32/int64 > T",): "GATHER GATHER_ND",
    (f"T {_INT} T > T",): "STABLEHLO_SCATTER",
    ("T T int64 int64 int64 > T",): "REDUCE_WINDOW",
    (f"T T {_INT} > T",): "DYNAMIC_UPDATE_SLICE",
    ("int32 T int32 > T",): "SCATTER_ND",
    (f"{_INT} {_INT} T T > T",): "SPARSE_TO_DENSE",
    (f"{_INT} int32 T T > T",): "ONE_HOT",
    (f"{_INT} T > T",): "FILL",
    ("T T T > T",): "RANGE",
    ("T int16/int32 > T int16/int32",): "TOPK_V2",
    (f"T > T {_INT}",): "UNIQUE",
    (f"* > {_INT}",): "SHAPE",
    (f"* {_INT} > {_INT}",): "ARG_MAX ARG_MIN",
    ("* > int32",): "BUCKETIZE RANK",
    ("* > int64",): "WHERE",
    ("* > float32",): "DEQUANTIZE",
    ("int32 > float32",): "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM",
    ("float32 int32 > complex64",): "RFFT2D",
    ("T T > T", "int16 int8 > int16"): "PRELU",
    ("T > T", "uint8/int8 > int16"): "SOFTMAX",
    ("D > D",): "MATRIX_DIAG",
    ("D D > D",): "MATRIX_SET_DIAG",
    ("T int32 T > T",): "DILATE",
    ("float32 float32/int8 > float32", "int8 int8 > int8/int32", "int16 int16/int8 > int16/int32"): "BATCH_MATMUL",
    (*(row.format("float32/int8/uint8/int4") for row in _CONV), f"int16 int8 {_INT}? > int16"): "CONV_2D",
    (*(row.format("float32/int8") for row in _CONV), "int16 int8 int64? > int16"): "DEPTHWISE_CONV_2D",
    ("int32 T > T", "int32 * > float32/float16"): "EMBEDDING_LOOKUP",
    ("int32 int32 int32 float32 float32 > float32",): "EMBEDDING_LOOKUP_SPARSE",
    ("float32 * float32? > int32",): "LSH_PROJECTION",
    (
        "float32 W W float32? float32 > float32", "int8 int8 int16 int32? int8/int16 > int8",
        "int8 int8 int8 int32? int8 > int8",
    ): "SVDF",
    ("float32 W W float32 float32 > float32",): "RNN UNIDIRECTIONAL_SEQUENCE_RNN",
    (f"float32 {'W W float32 float32 ' * 2}float32? W? W? > float32 float32?",): "BIDIRECTIONAL_SEQUENCE_RNN",
    _LSTM: "UNIDIRECTIONAL_SEQUENCE_LSTM",
    (*_LSTM, "* * * * * > * * * *"): "LSTM",
    (f"float32 {_HALF * 2}{'float32 ' * 4}float32? {'W? ' * 8}> float32 float32?",): "BIDIRECTIONAL_SEQUENCE_LSTM",
    tuple(f"{box} float32/uint8 {box} > {'float32 ' * 4}" for box in ("float32", "uint8")):
        "TFLite_Detection_PostProcess",
    ("> resource",): "VAR_HANDLE",
}  # fmt: skip
_CAPITALS = {
    "D": ("int64", "int32", "int16", "int8", "uint8", "float32"), "I": ("int32", "int64"),
    "W": ("float32", "int8", "uint8"),
}  # fmt: skip


@dataclass(frozen=True)
class _Slot:
    types: tuple[str, ...]
    optional: bool
    repeated: bool


def _slots(text: str) -> tuple[_Slot, ...]:
    return tuple(
        _Slot(tuple(word.rstrip("?.").split("/")), word.endswith("?"), word.endswith("...")) for word in text.split()
    )


def _parsed(row: str) -> tuple[tuple[_Slot, ...], tuple[_Slot, ...]]:
    inputs, outputs = row.split(">")
    return _slots(inputs), _slots(outputs)


SIGNATURES = {kind: tuple(map(_parsed, rows)) for rows, kinds in _ROWS.items() for kind in kinds.split()}


def mismatch(op: Operator) -> str:
    """What no signature of the operator allows, and what would be; empty where one fits or none is kept."""
    found = [_tried(op, *signature) for signature in SIGNATURES.get(op.kind, ())]
    if not found or any(not wrong for _, wrong, _ in found):
        return ""
    furthest = max(place for place, _, _ in found)
    said = next(wrong for place, wrong, _ in found if place == furthest)
    wanted = dict.fromkeys(t for place, _, types in found if place == furthest for t in types)
    return f"{said}; LiteRT's kernel takes {' or '.join(wanted)} there" if wanted else said


def _tried(op: Operator, inputs: Sequence[_Slot], outputs: Sequence[_Slot]) -> tuple[int, str, tuple[str, ...]]:
    """(how far it fits, what is wrong or nothing, what would be right)."""
    bound: dict[str, str] = {}
    place = 0
    for side, slots, given in (("input", inputs, op.inputs), ("output", outputs, op.outputs)):
        least = len(slots)
        while least and slots[least - 1].optional:
            least -= 1
        most = None if slots and slots[-1].repeated else len(slots)
        if len(given) < least or (most is not None and len(given) > most):
            return place, f"it has {len(given)} {side}s, and needs {least if len(given) < least else most}", ()
        for k, operand in enumerate(given):
            slot = slots[min(k, len(slots) - 1)]
            place += 1
            if operand is None:
                if not slot.optional:
                    return place, f"{side} {k} is left out, which LiteRT's kernel does not expect", ()
                continue
            wanted = _wanted(slot, bound, operand.type)
            if operand.type not in wanted and "*" not in wanted:
                return place, f"{side} {k}{_named(operand)} is {operand.type}", wanted
    return place, "", ()


def _wanted(slot: _Slot, bound: dict[str, str], found: str) -> tuple[str, ...]:
    (first, *_) = slot.types
    if not first[:1].isupper():
        return slot.types
    if first not in bound:
        allowed = _CAPITALS.get(first, (found,))
        if found in allowed:
            bound[first] = found
        return allowed
    return (bound[first],)


def _named(operand: Operand) -> str:
    return f" ({operand.name})" if operand.name else ""
