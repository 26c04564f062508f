"""The check: an operator that LiteRT would take without looking is refused by name before an interpreter sees it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.runtime.litert.model import Malformed, Operand, Operator, Shapes, Subgraph, Watched, read
from tilewright.runtime.litert.signatures import mismatch
from tilewright.runtime.litert.sparsity import read_as_dense, sparsity_defect
from tilewright.runtime.litert.table import ENDING_RULES, RULES, RUNNING_RULES

_WAY_OUT = "the file is damaged or its converter wrong: convert the model again, or leave the operator out"
#: operators that run subgraphs: options that name them, the first input that goes to them
_CALLS = {
    "IF": (("thenSubgraphIndex", "elseSubgraphIndex"), 1),
    "WHILE": (("condSubgraphIndex", "bodySubgraphIndex"), 0),
    "CALL_ONCE": (("initSubgraphIndex",), 0),
    "STABLEHLO_COMPOSITE": (("decompositionSubgraphIndex",), 0),
}


def unsound(content: bytes, prepared: Shapes | None = None, *, running: bool = True) -> str:
    """What is wrong with a model that LiteRT would read or write other memory for, or end the process; or nothing.

    ``prepared``: shapes as LiteRT has prepared them. Without them only what the file itself fixes is looked at.
    ``running``: the model is to be run as it is, and not only prepared.
    """
    try:
        subgraphs = read(content, prepared)
    except Malformed as error:
        return str(error)
    for number, subgraph in enumerate(subgraphs):
        for operand in subgraph.operands:
            if said := _operand_defect(operand, subgraph):
                return f"{_place(number)}tensor {operand.index} ({operand.name}): {said}; {_WAY_OUT}"
        for op in subgraph.operators:
            if said := next(filter(None, _defects(op, subgraph, subgraphs, running)), ""):
                return f"{_place(number)}operator {op.index} ({op.kind}): {said}; {_WAY_OUT}"
    return _cycle(subgraphs)


def unseen(content: bytes, prepared: Shapes) -> str:
    """The first operator of a sound model that its numbers may make unsound while it runs, and why; or nothing."""
    for number, subgraph in enumerate(read(content, prepared)):
        for op in subgraph.operators:
            watched = Watched(**vars(op))
            for rule in RULES.get(op.kind, ()):
                rule(watched)
            said = "; ".join(filter(None, [*watched.unseen, *(rule(op) for rule in ENDING_RULES.get(op.kind, ()))]))
            if said:
                return f"{_place(number)}operator {op.index} ({op.kind}): {said}"
    return ""


def _place(subgraph: int) -> str:
    return f"subgraph {subgraph}, " if subgraph else ""


def _defects(op: Operator, subgraph: Subgraph, subgraphs: Sequence[Subgraph], running: bool) -> Iterator[str]:
    """What each look at an operator says, mostly nothing."""
    for t in op.inputs:
        if t is not None and subgraph.makers.get(t.index, -1) >= op.index:
            yield f"it reads {t.name} before operator {subgraph.makers[t.index]} makes it"
    for t in op.outputs:
        if running and t is not None and t.variable and t.index not in subgraph.states:
            yield f"it makes {t.name}, which the file calls a state, and which LiteRT may have no memory for"
    yield mismatch(op)
    yield read_as_dense(op)
    if op.kind in _CALLS:
        yield _call_defect(op, subgraphs)
    if op.kind == "READ_VARIABLE":
        yield _variable_defect(op, subgraph, subgraphs)
    if op.kind == "TFLite_Detection_PostProcess":
        yield _custom_defect(op.custom)
    for rule in (*RULES.get(op.kind, ()), *(RUNNING_RULES.get(op.kind, ()) if running else ())):
        yield rule(op)


def _operand_defect(operand: Operand, subgraph: Subgraph) -> str:
    if operand.stored and (operand.index in subgraph.inputs or operand.index in subgraph.makers):
        return "it is given or computed, and holds data, which LiteRT would write over in the file's own memory"
    if operand.sparsity is not None and (said := sparsity_defect(operand)):
        return said
    if operand.strings and not _sound_strings(operand):
        return "strings that lie outside the constant, which LiteRT does not check"
    if operand.blocks is not None and not _sound_blocks(operand, subgraph):
        return "scales of blocks that do not fit it, which LiteRT does not check"
    return ""


def _sound_blocks(operand: Operand, subgraph: Subgraph) -> bool:
    """Blocks along the last axis, and a float16 scale stored for each."""
    size, index, shape = operand.blocks.blockSize, operand.blocks.scales, operand.shape or ()
    if size < 1 or not shape or shape[-1] % size or not 0 <= index < len(subgraph.operands):
        return False
    scales = subgraph.operands[index]
    return scales.type == "float16" and scales.value is not None and scales.value.size >= math.prod(shape) // size


def _sound_strings(operand: Operand) -> bool:
    """A count, the places where strings begin and the last ends, the strings."""
    if len(operand.strings) < 4:
        return False
    count = int.from_bytes(operand.strings[:4], "little", signed=True)
    if count != math.prod(operand.shape or ()) or len(operand.strings) < 4 * (count + 2):
        return False
    places = np.frombuffer(operand.strings, "<i4", count + 1, 4)
    return bool(places[0] >= 4 * (count + 2) and (np.diff(places) >= 0).all() and places[-1] <= len(operand.strings))


# -- other subgraphs -----------------------------------------------------------------------------------


def _called(op: Operator) -> list[int]:
    names, _ = _CALLS[op.kind]
    return [int(op.option(name)) for name in names]


def _call_defect(op: Operator, subgraphs: Sequence[Subgraph]) -> str:
    """Subgraphs exist, and take and give what the operator hands over: LiteRT counts memory by the one, and writes by
    the other."""
    _, first = _CALLS[op.kind]
    given = [None if t is None else t.type for t in op.inputs[first:]]
    made = [None if t is None else t.type for t in op.outputs]
    for place, index in enumerate(_called(op)):
        if not 0 < index < len(subgraphs):
            return f"it runs subgraph {index} of {len(subgraphs)}"
        called = subgraphs[index]
        condition = op.kind == "WHILE" and place == 0
        for what, outside, inside in (
            ("input", given, called.inputs), ("output", ["bool"] if condition else made, called.outputs),
        ):  # fmt: skip
            if any(not -1 <= t < len(called.operands) for t in inside) or len(outside) != len(inside):
                return f"subgraph {index} has {len(inside)} {what}s, the operator {len(outside)}"
            for k, (kind, t) in enumerate(zip(outside, inside)):
                if kind is not None and t >= 0 and called.operands[t].type != kind:
                    return f"{what} {k} is {kind}, and {called.operands[t].type} in subgraph {index}"
    return ""


def _cycle(subgraphs: Sequence[Subgraph]) -> str:
    """A subgraph that runs itself, over others or at once: LiteRT follows it until the stack ends."""
    calls = [[i for op in s.operators if op.kind in _CALLS for i in _called(op)] for s in subgraphs]
    ended: set[int] = set()
    while True:
        found = {k for k, inner in enumerate(calls) if k not in ended and ended.issuperset(inner)}
        if not found:
            break
        ended |= found
    left = sorted(set(range(len(subgraphs))) - ended)
    return f"subgraphs {', '.join(map(str, left))} run one another in a circle; {_WAY_OUT}" if left else ""


def _variable_defect(op: Operator, subgraph: Subgraph, subgraphs: Sequence[Subgraph]) -> str:
    """READ_VARIABLE copies as many bytes as its output has, whatever was assigned."""
    made = op.outputs[0] if op.outputs else None
    if made is None or not made.shape:
        return ""
    wanted = _handle(op, subgraph)
    for other in subgraphs:
        for assign in other.operators:
            if assign.kind != "ASSIGN_VARIABLE" or len(assign.inputs) < 2 or assign.inputs[1] is None:
                continue
            name, value = _handle(assign, other), assign.inputs[1]
            if name is not None and wanted is not None and name != wanted:
                continue
            if value.type == made.type and value.shape is not None and math.prod(value.shape) < math.prod(made.shape):
                return f"output 0 has the shape {list(made.shape)}, and {list(value.shape)} is assigned"
    return ""


def _handle(op: Operator, subgraph: Subgraph) -> tuple[object, object] | None:
    """The name of a variable, where a VAR_HANDLE of the same subgraph tells it."""
    handle = op.inputs[0] if op.inputs else None
    handles = (o for o in subgraph.operators if o.kind == "VAR_HANDLE" and handle is not None)
    made = next((o for o in handles if handle in o.outputs), None)
    return None if made is None else (made.option("container"), made.option("sharedName"))


def _custom_defect(options: bytes) -> str:
    """Options of a custom operator are a flexbuffer, which LiteRT reads without a look at its bounds."""
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]

    try:
        sound = isinstance(flexbuffers.Loads(options), dict)
    except Exception:  # noqa: BLE001 - it raises whatever struct, slices and codecs do
        sound = False
    return "" if sound else "its options are no sound flexbuffer, and LiteRT reads them unchecked"
