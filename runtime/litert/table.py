"""For each operator, the rules that LiteRT's kernel does not apply itself."""

from __future__ import annotations

from tilewright.runtime.litert import rules, scale_rules
from tilewright.runtime.litert.bounds import bounded
from tilewright.runtime.litert.rules import Rule, filled, option, rank, single, values
from tilewright.runtime.litert.slices import strided

_COMPARED = scale_rules.compared("int8", "uint8")
_EQUAL = scale_rules.compared("int8", "uint8", "int16")
_SIZES = values(1, "sizes of 1 and more", lambda _, sizes: bool((sizes > 0).all()))
_COUNTS = values(0, "sizes of 0 and more", lambda _, sizes: bool((sizes >= 0).all()))
_SCALES8 = ("int8", "uint8", "int16")
_STEPS = tuple(values(k, "a number of 1 or more for each dimension", rules.each) for k in range(5))
_ACTIVATIONS = rank(0, 3, 3)

RULES: dict[str, tuple[Rule, ...]] = {
    "ADD": (rules.broadcast, scale_rules.sum_scales(20, _SCALES8)),
    "ARG_MAX": (rules.states_type("outputType"),),
    "ARG_MIN": (rules.states_type("outputType"),),
    "ATAN2": (rules.same_shape,),
    "AVERAGE_POOL_2D": (bounded,),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (rules.biased, rules.merged),
    "BIDIRECTIONAL_SEQUENCE_RNN": (
        _ACTIVATIONS, *(rank(k, 2, 2) for k in (1, 2, 5, 6)), rank(3, 1, 1), rank(7, 1, 1), rules.recurrent,
        rules.merged,
    ),
    "BITCAST": (rules.whole_bytes,),
    "BITWISE_XOR": (rules.broadcast,),
    "BROADCAST_ARGS": (values(1, "shapes that fit each other", rules.broadcastable),),
    "CONV_2D": (scale_rules.hybrid(0), rules.read_bias),
    "DEPTHWISE_CONV_2D": (scale_rules.hybrid(3),),
    "DEQUANTIZE": (scale_rules.per_channel,),
    "DILATE": (filled(0), single(2), rules.whole_bytes, _STEPS[1]),
    "DIV": (rules.broadcast,),
    "EMBEDDING_LOOKUP_SPARSE": (values(1, "indices within the dense shape", rules.sparse_rows),),
    "EQUAL": (rules.broadcast, _EQUAL),
    "FLOOR_DIV": (rules.broadcast,),
    "FLOOR_MOD": (rules.broadcast, rules.no_overflow),
    "FULLY_CONNECTED": (rules.kept_rank, scale_rules.hybrid(0), rules.read_bias, rules.widened),
    "GREATER": (rules.broadcast, _COMPARED),
    "GREATER_EQUAL": (rules.broadcast, _COMPARED),
    "LESS": (rules.broadcast, _COMPARED),
    "LESS_EQUAL": (rules.broadcast, _COMPARED),
    "LOCAL_RESPONSE_NORMALIZATION": (option("radius", "0 to 65535", lambda radius: 0 <= radius < 1 << 16),),
    "LOG": (scale_rules.scaled16,),
    "LOGICAL_AND": (rules.broadcast,),
    "LOGICAL_OR": (rules.broadcast,),
    "LOG_SOFTMAX": (scale_rules.exponents,),
    "LSTM": (rank(0, 2, 2), rules.intermediates, rules.biased),
    "MATRIX_SET_DIAG": (rules.diagonal,),
    "MAXIMUM": (rules.broadcast,),
    "MAX_POOL_2D": (bounded,),
    "MINIMUM": (rules.broadcast,),
    "MUL": (rules.broadcast, rules.narrowed),
    "NOT_EQUAL": (rules.broadcast, _EQUAL),
    "NumericVerify": (rules.same_shape,),
    "POW": (rules.broadcast,),
    "PRELU": (rules.broadcast,),
    "QUANTIZE": (scale_rules.per_channel,),
    "RANDOM_STANDARD_NORMAL": (_COUNTS,),
    "RANDOM_UNIFORM": (_COUNTS,),
    "REDUCE_WINDOW": (single(1), *_STEPS[2:5]),
    "RESIZE_BILINEAR": (filled(0, 1, 2), _SIZES),
    "RESIZE_NEAREST_NEIGHBOR": (filled(0, 1, 2), _SIZES),
    "REVERSE_SEQUENCE": (values(1, "lengths from 0 to that of the axis seqDim", rules.within_sequence),),
    "RIGHT_SHIFT": (rules.broadcast,),
    "RNN": (rank(0, 2, 2), rank(1, 2, 2), rank(2, 2, 2), rank(3, 1, 1)),
    "RSQRT": (scale_rules.scaled16,),
    "SHAPE": (rules.states_type("outType"),),
    "SOFTMAX": (scale_rules.exponents,),
    "SQRT": (scale_rules.scaled16,),
    "SQUARED_DIFFERENCE": (rules.broadcast, scale_rules.sum_scales(14, ("int8",), square=True)),
    "STABLEHLO_GATHER": (rules.gathers,),
    "STABLEHLO_REDUCE_WINDOW": (single(1),),
    "STABLEHLO_SCATTER": (rules.scatters,),
    "STABLEHLO_SHIFT_LEFT": (rules.same_shape,),
    "STRIDED_SLICE": (strided,),
    "SUB": (rules.broadcast, scale_rules.sum_scales(20, _SCALES8, larger=True)),
    "SVDF": (rank(0, 2, 2), rank(1, 2, 2), rank(2, 2, 2), rank(3, 1, 1), filled(1), filled(2)),
    "TFLite_Detection_PostProcess": (rules.anchored,),
    "TRANSPOSE": (rank(0, 1, 8), values(1, "each axis once", rules.permutes)),
    "TRANSPOSE_CONV": (scale_rules.hybrid(0), rules.read_bias),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (_ACTIVATIONS, rules.intermediates, rules.biased),
    "VAR_HANDLE": (rules.one_handle,),
}  # fmt: skip
#: those that hold only while it runs: the compiler mends the operator in the parts that it cuts out
RUNNING_RULES: dict[str, tuple[Rule, ...]] = {"SVDF": (rules.wide_state,)}
#: those whose kernels the numbers of an inference may end, whatever the model is
ENDING_RULES: dict[str, tuple[Rule, ...]] = {"SOFTMAX": (scale_rules.wide_sum,)}
