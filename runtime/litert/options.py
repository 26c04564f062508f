"""The options of an operator that LiteRT reads: those in the table of its kind.

The flatbuffer says which table an operator has, and LiteRT asks for the one that it knows for the kind
(``flatbuffer_conversions.cc``). Where there is another, its fields mean nothing, whatever their names: all options are
0 then, as without any.
"""

from __future__ import annotations

import functools
from typing import Any

from tilewright.runtime.litert.schema import schema

#: kinds of operators whose table has another name than they have
_OTHER = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"),
                    "ReducerOptions"),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), "RandomOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}  # fmt: skip


def options_of(kind: str, op: Any) -> Any:
    """The options of an ``OperatorT`` of this kind; None where LiteRT reads none."""
    wanted = f"{_table(kind)}T"
    for found in (op.builtinOptions, op.builtinOptions2):
        if type(found).__name__ == wanted:
            return found
    return None


@functools.cache
def _table(kind: str) -> str:
    """The name of the table of a kind; empty where it has none."""
    if kind in _OTHER:
        return _OTHER[kind]
    plain = f"{kind.replace('_', '')}OPTIONS"
    names = (name for union in (schema().BuiltinOptions, schema().BuiltinOptions2) for name in vars(union))
    return next((name for name in names if name.upper() == plain), "")
