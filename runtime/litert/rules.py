"""What LiteRT's kernels take without looking, beside types and scales: shapes, numbers of constants and options.

A rule says what is wrong with an operator, or nothing. It passes where it cannot know: shapes that only LiteRT's own
preparation tells are looked at after that, numbers that are computed while the model runs are not seen at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.litert.model import Operator

Rule = Callable[[Operator], str]
_MOST = 8  #: dimensions of what is broadcast


def rank(position: int, low: int, high: int) -> Rule:
    """An input has so many dimensions."""

    def rule(op: Operator) -> str:
        shape = op.shape(position)
        if shape is None or low <= len(shape) <= high:
            return ""
        wanted = str(low) if low == high else f"{low} to {high}"
        return f"input {position} has {len(shape)} dimensions; LiteRT's kernel takes {wanted}"

    return rule


def filled(position: int, *axes: int) -> Rule:
    """An input has elements along the axes, or along all."""

    def rule(op: Operator) -> str:
        shape = op.shape(position)
        sizes = [] if shape is None else [shape[a] for a in axes if a < len(shape)] if axes else shape
        return f"input {position} has the shape {said(shape)}, and is read as if none was 0" if 0 in sizes else ""

    return rule


def same_shape(op: Operator) -> str:
    """Both inputs have one shape."""
    x, y = op.shape(0), op.shape(1)
    if x is None or y is None or x == y:
        return ""
    return f"inputs 0 and 1 have the shapes {said(x)} and {said(y)}; LiteRT's kernel takes them for one"


def broadcast(op: Operator) -> str:
    """What is broadcast has at most eight dimensions."""
    shapes = [shape for shape in (op.shape(k) for k in range(len(op.inputs))) if shape is not None]
    if len(shapes) < len(op.inputs) or max(map(len, shapes), default=0) <= _MOST:
        return ""
    if len(set(shapes)) == 1 and op.kind not in ("MAXIMUM", "MINIMUM"):
        return ""
    return f"inputs of {max(map(len, shapes))} dimensions; LiteRT broadcasts at most {_MOST}, and ends the process"


def values(position: int, wanted: str, holds: Callable[[Operator, Any], bool]) -> Rule:
    """A constant input's numbers; ``wanted`` says what they are to be."""

    def rule(op: Operator) -> str:
        given = op.value(position)
        if given is None or holds(op, given):
            return ""
        shown = ", ".join(str(v) for v in given.reshape(-1)[:6]) + (", ..." if given.size > 6 else "")
        return f"input {position} holds {shown}; LiteRT's kernel takes {wanted}"

    return rule


def option(name: str, wanted: str, holds: Callable[[Any], bool]) -> Rule:
    """A number among the options."""

    def rule(op: Operator) -> str:
        given = op.option(name)
        return "" if holds(given) else f"the option {name} is {given}; LiteRT's kernel takes {wanted}"

    return rule


def states_type(name: str) -> Rule:
    """An option that sets the type of the last output agrees with it."""

    def rule(op: Operator) -> str:
        made = op.outputs[-1]
        set_type = {2: "int32", 4: "int64"}.get(op.option(name), "another type")
        if made is None or made.type == set_type:
            return ""
        return f"output {len(op.outputs) - 1} is {made.type}, and the option {name} makes it {set_type}"

    return rule


# -- constants -----------------------------------------------------------------------------------------


def permutes(op: Operator, perm: Any) -> bool:
    """Each axis once."""
    shape = op.shape(0)
    count = perm.size if shape is None else len(shape)
    return perm.size == count and sorted(int(p) % count if count else 0 for p in perm.reshape(-1)) == list(range(count))


def within_sequence(op: Operator, lengths: Any) -> bool:
    """No sequence is longer than its axis."""
    shape, axis = op.shape(0), op.option("seqDim")
    most = math.inf if shape is None or not 0 <= axis < len(shape) else shape[axis]
    return bool((lengths >= 0).all() and (lengths <= most).all())


def _traps(op: Operator, divisor: Any) -> bool:
    if not (divisor == -1).any():
        return False
    given = op.value(0)
    return given is not None and bool((given == np.iinfo(given.dtype).min).any())


def no_overflow(op: Operator) -> str:
    """Not the least integer by -1, which processors trap."""
    wide = op.type(0) in ("int32", "int64")
    return _UNTRAPPED(op) if wide else ""


_UNTRAPPED = values(1, "no -1 beside the least integer", lambda op, divisor: not _traps(op, divisor))


def broadcastable(op: Operator, other: Any) -> bool:
    """Shapes that fit, held by both inputs."""
    given = op.value(0)
    if given is None:
        return True
    pairs = zip(given.reshape(-1)[::-1], other.reshape(-1)[::-1])
    return all(int(a) == int(b) or 1 in (int(a), int(b)) for a, b in pairs)


def each(op: Operator, steps: Any) -> bool:
    """A number of 1 or more for each dimension."""
    shape = op.shape(0)
    return bool((steps >= 1).all()) and (shape is None or steps.shape == (len(shape),))


def sparse_rows(op: Operator, indices: Any) -> bool:
    """EMBEDDING_LOOKUP_SPARSE: every index lies in the dense shape."""
    dense = op.value(2)
    if indices.ndim != 2 or indices.shape[1] < 1 or (dense is not None and dense.shape != (indices.shape[1],)):
        return False
    inside = indices[:, :-1]
    return bool((inside >= 0).all() and (dense is None or (inside < dense[:-1]).all()))


def gathers(op: Operator) -> str:
    """STABLEHLO_GATHER: every axis among the options is one."""
    operand, indices = op.shape(0), op.shape(1)
    if operand is None or indices is None:
        return ""
    count, place, sizes = len(operand), op.option("indexVectorDim"), op.dims("sliceSizes")
    offsets = len(op.dims("offsetDims"))
    result = offsets + len(indices) - (place < len(indices))
    sound = (
        _axes(op.dims("collapsedSliceDims"), count) and _axes(op.dims("startIndexMap"), count)
        and _axes(op.dims("offsetDims"), result) and 0 <= place <= len(indices) and len(sizes) == count
        and all(0 <= s <= d for s, d in zip(sizes, operand)) and offsets + len(op.dims("collapsedSliceDims")) == count
        and len(op.dims("startIndexMap")) == (indices[place] if place < len(indices) else 1)
    )  # fmt: skip
    return "" if sound else "options that name axes or sizes which the inputs do not have, which LiteRT does not check"


def scatters(op: Operator) -> str:
    """STABLEHLO_SCATTER: every axis among the options is one, and the updates are as many as the indices."""
    operand, indices, updates = op.shape(0), op.shape(1), op.shape(2)
    if operand is None or indices is None or updates is None:
        return ""
    window, inserted = op.dims("updateWindowDims"), op.dims("insertedWindowDims")
    targets, place = op.dims("scatterDimsToOperandDims"), op.option("indexVectorDim")
    kept = [d for k, d in enumerate(updates) if k not in window]
    sound = (
        _axes(window, len(updates)) and _axes(inserted, len(operand)) and _axes(targets, len(operand))
        and 0 <= place <= len(indices) and len(window) + len(inserted) == len(operand)
        and len(targets) == (indices[place] if place < len(indices) else 1)
        and kept == [d for k, d in enumerate(indices) if k != place]
    )  # fmt: skip
    return "" if sound else "options that name axes which the inputs do not have, which LiteRT does not check"


def _axes(named: Sequence[int], count: int) -> bool:
    return len(set(named)) == len(named) and all(0 <= axis < count for axis in named)


# -- shapes of several operands ------------------------------------------------------------------------


def diagonal(op: Operator) -> str:
    """MATRIX_SET_DIAG: as many elements on the diagonal as it has."""
    x, given = op.shape(0), op.shape(1)
    if x is None or given is None or len(x) < 2:
        return ""
    least = math.prod(x[:-2]) * min(x[-2:])
    if math.prod(given) >= least:
        return ""
    return f"input 1 has the shape {said(given)}; LiteRT's kernel reads {least} elements"


def recurrent(op: Operator) -> str:
    """BIDIRECTIONAL_SEQUENCE_RNN: square recurrent weights, and operands beside them that fit."""
    shapes = [op.shape(k) for k in range(len(op.inputs))]
    for k in (2, 6):
        units = shapes[k - 1]
        if shapes[k] is not None and units and shapes[k] != (units[0], units[0]):
            return f"input {k} has the shape {said(shapes[k])}; LiteRT's kernel reads {units[0]} x {units[0]} elements"
    x, beside = shapes[0], shapes[9] if len(shapes) == 12 else None
    given, cells = shapes[10:12], [shapes[1], shapes[5]]
    if x is None or beside is None or not all(given) or not all(cells):
        return ""
    fits = [w == (u[0], beside[-1]) for w, u in zip(given, cells) if u is not None]
    sound = len(beside) == 3 and beside[:2] == x[:2] and all(fits)
    return "" if sound else f"input 9 has the shape {said(beside)}, which does not fit the other inputs"


def merged(op: Operator) -> str:
    """Bidirectional layers of several sequences, both directions in one result, as the kernels can do them.

    The LSTM's writes to other places than those of the result where the batch comes first. The RNN's goes through the
    batch where the time comes first, and asks for the zero point of each sequence, of which integer weights without
    ``asymmetricQuantizeInputs`` have none.
    """
    x, time_major = op.shape(0), bool(op.option("timeMajor"))
    if x is None or len(x) != 3 or not op.option("mergeOutputs") or x[1 if time_major else 0] < 2:
        return ""
    if op.kind == "BIDIRECTIONAL_SEQUENCE_LSTM" and not time_major:
        return "mergeOutputs of several sequences with the batch first, of which LiteRT's kernel leaves out a part"
    integer = op.type(1) in ("int8", "uint8") and not op.option("asymmetricQuantizeInputs")
    if op.kind == "BIDIRECTIONAL_SEQUENCE_RNN" and time_major and integer:
        return "mergeOutputs of several sequences with the time first, for which LiteRT's kernel reads zero points"
    return ""


def anchored(op: Operator) -> str:
    """TFLite_Detection_PostProcess: an anchor of four numbers for each box."""
    boxes, anchors = op.shape(0), op.shape(2)
    if boxes is None or anchors is None or (len(boxes) == 3 and anchors == (boxes[1], 4)):
        return ""
    return f"input 2 has the shape {said(anchors)}; LiteRT's kernel reads four numbers for each box of {said(boxes)}"


def kept_rank(op: Operator) -> str:
    """FULLY_CONNECTED: what keeps its dimensions has some."""
    return "an input without dimensions, which it is to keep" if op.option("keepNumDims") and op.shape(0) == () else ""


def intermediates(op: Operator) -> str:
    """An integer LSTM has all of them."""
    if op.type(0) == "int8" and min(op.intermediates, default=-1) < 0:
        return "an intermediate tensor is left out, which LiteRT's kernel does not expect"
    return ""


def biased(op: Operator) -> str:
    """An LSTM whose input gate has weights has its bias, too."""
    for weights, bias in ((1, 12), (18, 29)) if op.kind.startswith("BIDIRECTIONAL") else ((1, 12),):
        if len(op.inputs) > bias and op.inputs[weights] is not None and op.inputs[bias] is None:
            return f"input {bias}, the bias of the input gate, is left out, which LiteRT's kernel does not expect"
    return ""


def whole_bytes(op: Operator) -> str:
    """Elements that are moved as bytes have some."""
    for operand in (*op.inputs, *op.outputs):
        if operand is not None and operand.type in ("int4", "uint4", "int2"):
            return f"{operand.name} is {operand.type}; LiteRT's kernel takes a byte for each element"
    return ""


def wide_state(op: Operator) -> str:
    """SVDF: weights over time and state of the integer kernel."""
    narrow = [k for k in (2, 4) if op.type(0) == "int8" and op.type(k) == "int8"]
    return f"input {narrow[-1]} is int8; LiteRT's kernel takes int16 there, and goes beyond it" if narrow else ""


def read_bias(op: Operator) -> str:
    """Weighted sums of int16: LiteRT reads a bias as int64, whatever its type, unless the options say int32."""
    data, bias = (2, 3) if op.kind == "TRANSPOSE_CONV" else (0, 2)
    if op.type(data) != "int16" or op.type(bias) != "int32" or op.option("quantizedBiasType") == 2:
        return ""
    return (
        f"input {bias}, the bias, is int32, and the option quantizedBiasType does not say so; LiteRT's kernel takes "
        "int64 there, and goes beyond it"
    )


def widened(op: Operator) -> str:
    """FULLY_CONNECTED of 8 bits to int16: LiteRT has one kernel for it, of uint8, and of a bias."""
    made = op.outputs[0] if op.outputs else None
    if made is None or made.type != "int16" or op.type(0) not in ("int8", "uint8"):
        return ""
    if op.type(0) == "int8":
        return "int8 to a result of int16, for which LiteRT's kernel takes input and weights for uint8"
    return "" if op.type(2) else "a result of int16 without a bias, input 2, which LiteRT's kernel reads"


def narrowed(op: Operator) -> str:
    """MUL to fewer bits does not broadcast."""
    made = op.outputs[0]
    return same_shape(op) if made is not None and made.type != op.type(0) else ""


def one_handle(op: Operator) -> str:
    """VAR_HANDLE: LiteRT gives its result the memory of one number, whatever its shape."""
    made = op.outputs[0] if op.outputs else None
    if made is None or math.prod(made.shape or ()) == 1:
        return ""
    return f"output 0 has the shape {said(made.shape)}, and is one number"


def single(position: int) -> Rule:
    """An input is a single number."""

    def rule(op: Operator) -> str:
        operand = op.inputs[position] if position < len(op.inputs) else None
        if operand is None or operand.shape is None or math.prod(operand.shape) == 1:
            return ""
        return f"input {position} has the shape {said(operand.shape)}, and is one number"

    return rule


def said(shape: Sequence[int] | None) -> str:
    """A shape as it is said."""
    return "unknown" if shape is None else str(list(shape))
