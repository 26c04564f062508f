"""STABLEHLO_COMPOSITE written out: what stands for a whole layer is the operators of the subgraph that it names.

litert-torch and other converters keep norms and activations together so, for delegates that know them by name. LiteRT
itself runs the subgraph, and so do these operators in its place, which may then run anywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.jit.source.operators import tflite_row
from tilewright.runtime.litert.schema import blocks_of, keep_used_codes, kinds, vector

_KIND = "STABLEHLO_COMPOSITE"
_STATE = ("handle", "initial")  #: families of operators with which a subgraph has state of its own
_NESTED = 16  #: composites within each other; more are left as they are, cycles among them


def inline_composites(model: Any) -> None:
    """Puts the operators of its subgraph in the place of every composite of the main subgraph of a ``ModelT``.

    Those whose subgraph has state or scales for blocks, or takes or gives other tensors than the composite says, stay.
    """
    for _ in range(_NESTED):
        names = kinds(model)
        main = model.subgraphs[0]
        made: list[Any] = []
        for op in vector(main.operators):
            made += _written_out(model, names, main, op) if names[op.opcodeIndex] == _KIND else [op]
        if len(made) == len(vector(main.operators)) and all(a is b for a, b in zip(made, main.operators, strict=True)):
            return
        main.operators = made


def drop_other_subgraphs(model: Any) -> None:
    """Keeps the main subgraph alone where no operator of it runs another: other signatures are models of their own."""
    if not any(_runs_others(op) for op in vector(model.subgraphs[0].operators)):
        model.subgraphs = model.subgraphs[:1]
        keep_used_codes(model)


def _runs_others(op: Any) -> bool:
    options = (op.builtinOptions, op.builtinOptions2)
    return any("ubgraphIndex" in name for found in options if found is not None for name in vars(found))


def _written_out(model: Any, names: list[str], main: Any, op: Any) -> list[Any]:
    """The operators that do what the composite does, their tensors added to the main subgraph; else itself."""
    index = getattr(op.builtinOptions2, "decompositionSubgraphIndex", -1)
    if not 0 < index < len(model.subgraphs):
        return [op]
    inner = model.subgraphs[index]
    outside, inside = [*vector(op.inputs), *vector(op.outputs)], [*vector(inner.inputs), *vector(inner.outputs)]
    operators = vector(inner.operators)
    written = [int(t) for each in operators for t in vector(each.outputs)]
    bound = any(t.isVariable or blocks_of(t) is not None for t in inner.tensors)
    bound |= any(tflite_row(names[each.opcodeIndex]).family in _STATE for each in operators)
    fits = (
        len(vector(op.inputs)) == len(vector(inner.inputs))
        and len(outside) == len(inside) == len({int(t) for t in inside})
        and all(
            a >= 0 and b >= 0 and _alike(main.tensors[a], inner.tensors[b])
            for a, b in zip(outside, inside, strict=True)
        )
        and all(int(t) in written for t in vector(inner.outputs))
    )
    if bound or not fits:
        return [op]
    places = {int(b): int(a) for a, b in zip(outside, inside, strict=True)}
    title = main.tensors[int(op.outputs[0])].name or b""
    for number, tensor in enumerate(inner.tensors):
        if number not in places:
            places[number] = len(main.tensors)
            own = copy.copy(tensor)
            own.name = title + b"/" + (tensor.name or b"%d" % number)
            main.tensors.append(own)
    return [_moved(each, places) for each in operators]


def _alike(a: Any, b: Any) -> bool:
    """Of one type, shape and meaning: LiteRT hands the bytes over as they are."""
    one, other = ([_numbers(t, name) for name in ("scale", "zeroPoint")] for t in (a, b))
    return a.type == b.type and list(vector(a.shape)) == list(vector(b.shape)) and one == other


def _numbers(tensor: Any, name: str) -> list[float]:
    found = tensor.quantization
    return [] if found is None else np.asarray(vector(getattr(found, name)), np.float64).tolist()


def _moved(op: Any, places: Mapping[int, int]) -> Any:
    made = copy.copy(op)
    for name in ("inputs", "outputs", "intermediates"):
        if (values := getattr(op, name)) is not None:
            setattr(made, name, [places.get(int(t), -1) for t in values])
    return made
