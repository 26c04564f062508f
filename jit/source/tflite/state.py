"""What operators of a ``.tflite`` file keep from one invocation to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.file import File, Operator


def states_of(file: File, op: Operator) -> tuple[str, ...]:
    """Names of all that an operator of the main subgraph keeps, itself or in the subgraphs that it runs; operators with
    a common one share it."""
    handles = {t: _name(other) for other in file.operators if other.kind == "VAR_HANDLE" for t in other.outputs}
    found = [handles[t] for t in op.inputs if t in handles]
    found += [f"tensor {t}" for t in op.inputs if t >= 0 and file.tensors[t].variable]
    if tflite_row(op.kind).family == "random":  # whose kernel keeps the state of a generator
        found.append(f"generator of operator {op.index}")
    for index in _run_by(file, op.options, set()):
        subgraph = file.model.subgraphs[index]
        operators, tensors = subgraph.operators or [], subgraph.tensors or []
        inside = [other for other in operators if file.kinds[other.opcodeIndex] == "VAR_HANDLE"]
        found += [_name(other) for other in inside]
        random = any(tflite_row(file.kinds[other.opcodeIndex]).family == "random" for other in operators)
        if random or any(tensor.isVariable for tensor in tensors):
            found.append(f"subgraph {index}")
    return tuple(dict.fromkeys(found))


def _name(handle: Any) -> str:
    """Of a variable: that of its handles, which may be several."""
    options = handle.options if isinstance(handle, Operator) else handle.builtinOptions
    return f"variable {getattr(options, 'container', None)!r} {getattr(options, 'sharedName', None)!r}"


def _run_by(file: File, options: Any, known: set[int]) -> Iterator[int]:
    """The subgraphs that an operator with these options runs, and those that they run."""
    for name, index in vars(options).items() if options is not None else ():
        if "ubgraphIndex" in name and 0 < index < len(file.model.subgraphs) and index not in known:
            known.add(index)
            yield index
            for op in file.model.subgraphs[index].operators or []:
                yield from _run_by(file, op.builtinOptions, known)
