"""Which float32 tensors become 8-bit ones under the policy ``close``.

Layers run on the accelerator between 8-bit tensors. A file that leaves others between its layers (the sum of a residual
and a convolution, a SiLU, a pool) gets a QuantizeLinear and a DequantizeLinear at each of them, with a range that is
measured on sample inputs, and is then read as any other. Which of them help shows when it is: those that have no layer
of the accelerator on either side go again, and so do those around what feeds no layer with weights and no output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Graph, HostOp, Interpreted
from tilewright.jit.source.input_ranges import state_ranges
from tilewright.jit.source.onnx import resize
from tilewright.jit.source.onnx.constants import stored
from tilewright.jit.source.onnx.layerwise import Layers
from tilewright.jit.source.onnx.pairs import Pair, made, takes_pairs
from tilewright.jit.source.onnx.prepared import Node, Prepared
from tilewright.jit.source.onnx.units import Unit, is_dequantised
from tilewright.jit.source.operators import onnx_row
from tilewright.jit.stages import idle_islands
from tilewright.runtime import interpreters
from tilewright.runtime.random_inputs import sample_inputs

_SEED = 21  #: of the sample inputs: not those that results are compared on
_CLAMPS = ("Relu", "Clip")  #: part of the layer that they follow


S = TypeVar("S", bound=Layers)


def most_accelerated(opened: Callable[[Mapping[str, Pair]], S]) -> S:
    """A file with the pairs that let the accelerator take more of it; ``opened``: as it is read with some."""
    plain = opened({})
    if not takes_pairs(plain.prepared.model):
        return plain
    built = plain.build({})
    names = list(_candidates(plain, built.graph))
    pairs = _measured(plain, built.graph, names) if names else {}
    while pairs:
        source = opened(pairs)
        useless = _useless(source, pairs)
        if not useless:
            return source
        pairs = {name: pair for name, pair in pairs.items() if name not in useless}
    return plain


def _candidates(source: Layers, graph: Graph) -> Iterator[str]:
    """Float32 tensors of the file, made or given, where what the interpreter runs for now could come apart."""
    prepared, file = source.prepared, _file_tensors(source.prepared)
    left = {i for op in graph.ops if isinstance(op, Interpreted) for i in op.covers}
    nodes = [node for unit in source.units if unit.covers & left for node in unit.nodes]
    roots = _roots(prepared)
    known = {t for node in nodes if not is_dequantised(prepared, node) for t in node.makes}
    known |= {t for node in nodes for t in node.reads if t in prepared.inputs}
    yield from (t for node in nodes for t in _inside(prepared, node))
    for name in sorted(known & file, key=lambda t: prepared.producers[t].index if t in prepared.producers else -1):
        if prepared.types[name][0] == "float32" and _ends_group(prepared, roots, name):
            yield name


def _inside(prepared: Prepared, node: Node) -> list[str]:
    """Results of layers that ONNX Runtime computes in one node with another activation than clamps."""
    if node.attribute("activation", "") in ("", *_CLAMPS):
        return []
    file = prepared.file.graph.node
    return [t for position in node.origin for t in file[position].output if t not in node.makes]


def _file_tensors(prepared: Prepared) -> set[str]:
    """The tensors of the file that nodes of its main graph make, and its inputs."""
    return {t for node in prepared.file.graph.node for t in node.output if t} | set(prepared.inputs)


def _roots(prepared: Prepared) -> dict[str, str]:
    """For each float32 tensor the one that it is a function of, element by element: itself where there is none.

    A clamp of nothing else's result is part of the layer that makes that, and so a tensor of its own.
    """
    roots: dict[str, str] = {}
    for node in prepared.nodes:
        row, read = onnx_row(node.kind), {roots.get(t, t) for t in node.reads if _varies(prepared, t)}
        for name in node.makes:
            roots[name] = name
            alone = len(read) == 1 and row.elementwise and row.family != "quantisation"
            (root,) = read if alone else (name,)
            if alone and prepared.types.get(root, ("",))[0] == "float32" and _is_alike(prepared, name, root):
                roots[name] = name if node.kind in _CLAMPS and _is_fused(prepared, root) else root
    return roots


def _varies(prepared: Prepared, name: str) -> bool:
    """Whether a tensor depends on the inputs."""
    node = prepared.producers.get(name)
    constant = node is not None and is_dequantised(prepared, node) and node.inputs[0] in prepared.constants
    return name not in prepared.constants and not constant


def _is_alike(prepared: Prepared, name: str, root: str) -> bool:
    return prepared.types[name][1] == prepared.types[root][1]


def _is_fused(prepared: Prepared, name: str) -> bool:
    """Whether a clamp alone reads a layer's result."""
    node, readers = prepared.producers.get(name), prepared.readers.get(name, [])
    computed = node is not None and not is_dequantised(prepared, node) and name not in prepared.outputs
    return computed and len(readers) == 1 and readers[0].kind in _CLAMPS


def _ends_group(prepared: Prepared, roots: Mapping[str, str], name: str) -> bool:
    """Whether something reads a tensor that is neither a QuantizeLinear nor part of the same function."""
    readers = [n for n in prepared.readers.get(name, []) if n.kind != "QuantizeLinear"]
    if name in prepared.outputs:
        return name not in prepared.inputs
    if roots.get(name, name) == name and _is_fused(prepared, name):
        return False
    outside = [n for n in readers if all(roots.get(t) != roots.get(name, name) for t in n.makes)]
    if name in prepared.inputs:
        return bool(outside)  # functions of what the user gives in float32 are as good in float32
    return bool(readers if roots.get(name, name) == name else outside)


def _measured(source: Layers, graph: Graph, names: list[str]) -> dict[str, Pair]:
    """A pair for each tensor: with the numbers that the file has for it, or those of what it moves, or its range."""
    prepared, pairs = source.prepared, dict[str, Pair]()
    kinds = Counter(dtype for dtype, _ in prepared.types.values() if dtype in ("int8", "uint8"))
    dtype = max(kinds, key=lambda kind: kinds[kind], default="uint8")
    ranges, stated = _ranges(source, graph, names), _stated(prepared)
    for name in names:
        found = stated.get(name) or _moved(prepared, pairs, name)
        if found is None and np.isfinite(ranges[name]).all():
            found = Pair.of_range(*ranges[name], dtype)
        if found is not None:
            pairs[name] = found
    return pairs


def _ranges(source: Layers, graph: Graph, names: list[str]) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of tensors, 0 among them, on sample inputs."""
    from onnx import ValueInfoProto

    prepared = source.prepared
    state_ranges(graph)
    specs = tuple(graph.tensors[name] for name in graph.inputs)
    inputs = sample_inputs(specs, _SEED, sum(operator.macs for operator in source.operators))
    computed = [name for name in names if name not in prepared.inputs]
    exposed = type(prepared.file)()
    exposed.CopyFrom(prepared.file)
    del exposed.graph.output[:]
    exposed.graph.output.extend(ValueInfoProto(name=name) for name in computed)
    run = interpreters.load("onnxruntime", exposed.SerializeToString(), "the float32 tensors of a model")
    ranges = dict.fromkeys(names, (0.0, 0.0))
    for k in range(len(inputs[0])):
        given = [x[k].reshape(prepared.types[n][1]) for n, x in zip(prepared.inputs, inputs, strict=True)]
        values = dict(zip([*prepared.inputs, *computed], [*given, *run(given)], strict=True))
        for name, (low, high) in ranges.items():
            ranges[name] = float(np.min(values[name], initial=low)), float(np.max(values[name], initial=high))
    return ranges


def _stated(prepared: Prepared) -> dict[str, Pair]:
    """The numbers of the QuantizeLinear nodes of the file, by what they read: ONNX Runtime's optimiser renames them."""
    nodes = [node for node in prepared.file.graph.node if node.op_type == "QuantizeLinear"]
    names = {name for node in nodes for name in node.input[1:]}
    part = type(prepared.file.graph)()
    part.initializer.extend(t for t in prepared.file.graph.initializer if t.name in names)
    part.node.extend(n for n in prepared.file.graph.node if n.op_type == "Constant" and n.output[0] in names)
    constants, found = stored(part), dict[str, Pair]()
    for node in nodes:
        numbers = [constants.get(name) for name in node.input[1:]]
        pair = _pair(numbers[0], numbers[1]) if len(numbers) == 2 else None
        if pair is not None:
            found.setdefault(node.input[0], replace(pair, quantised=node.output[0]))
    return found


def _pair(scale: NDArray[Any] | None, zero_point: NDArray[Any] | None) -> Pair | None:
    """Of 8 bits with one scale; None for others."""
    if scale is None or zero_point is None or scale.size != 1 or zero_point.size != 1:
        return None
    dtype = zero_point.dtype.name
    return Pair(float(scale.reshape(())), int(zero_point.reshape(())), dtype) if dtype in ("int8", "uint8") else None


def _moved(prepared: Prepared, pairs: Mapping[str, Pair], name: str) -> Pair | None:
    """The numbers of the tensor whose elements these are."""
    node = prepared.producers.get(name)
    if node is None or not onnx_row(node.kind).keeps_values or resize.is_linear(node):
        return None
    source = node.inputs[0]
    ahead = prepared.producers.get(source)
    found = pairs.get(source)
    if found is None and ahead is not None and ahead.kind == "DequantizeLinear":
        numbers = [prepared.array(t) for t in ahead.inputs[1:] if t in prepared.constants]
        found = _pair(*numbers) if len(numbers) == 2 else None
    return None if found is None else Pair(found.scale, found.zero_point, found.dtype)


def _only_dequantises(unit: Unit) -> bool:
    return all(node.kind == "DequantizeLinear" or onnx_row(node.kind).is_view for node in unit.nodes)


def _useless(source: Layers, pairs: Mapping[str, Pair]) -> set[str]:
    """Tensors whose pair has no layer of the accelerator on either side that computes towards one with weights, or
    towards an output."""
    graph = source.build({}).graph
    left = {i for op in graph.ops if isinstance(op, Interpreted) for i in op.covers} | idle_islands(graph).keys()
    computed = {i for op in graph.ops if not isinstance(op, HostOp) for i in op.covers}
    makers = {t: unit for unit in source.units for t in unit.outputs}
    readers: dict[str, list[Unit]] = {}
    for unit in source.units:
        for name in unit.inputs:
            readers.setdefault(name, []).append(unit)
    useful: set[int] = set()
    for unit in reversed(source.units):
        behind = [reader for name in unit.outputs for reader in readers.get(name, [])]
        shown = {t for u in (unit, *filter(_only_dequantises, behind)) for t in u.outputs} & {*source.prepared.outputs}
        ends = bool(unit.covers & computed and shown)
        weighted = any(onnx_row(node.kind).is_weighted for node in unit.nodes)
        if not unit.covers & left and (weighted or ends or any(id(reader) in useful for reader in behind)):
            useful.add(id(unit))

    def helps(name: str) -> bool:
        beside = [*filter(None, [makers.get(name)]), *readers.get(name, [])]
        return not beside or any(id(unit) in useful for unit in beside)

    return {name for name, pair in pairs.items() if not helps(pair.quantised or made(name))}
