"""A way round an optimiser of ONNX Runtime that makes a shared int8 constant uint8 once for each of its readers.

It gives all of them one name and then refuses the model ("Attempt to replace the existing tensor"). Weights are shared
by heads that run on several feature maps, by tied layers, and by fresh normalisations, which exporters merge; zero
points by whatever merges equal constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

#: what ONNX Runtime says of a model in which an int8 constant is shared
REFUSAL = "Attempt to replace the existing tensor"


def separated(model: bytes) -> bytes:
    """The ONNX model with a constant of its own, and a DequantizeLinear where there is one, for each reader of an int8
    constant.

    Constants may be computed by other operators, which ONNX Runtime does while it loads: clipped to fewer bits,
    widened, quantised. Raises ModuleNotFoundError without the package onnx.
    """
    import onnx

    proto = onnx.load_from_string(model)
    _separate(proto.graph)
    return bytes(proto.SerializeToString())


def _separate(graph: Any) -> None:
    """Of a graph, and of bodies of loops and branches, which have constants of their own."""
    made = _Separation(graph).nodes()
    del graph.node[:]  # its elements live on in the list
    graph.node.extend(made)
    for body in _bodies(graph):
        _separate(body)


class _Separation:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._initial = {t.name: t for t in graph.initializer}
        self._eights = {name for name, t in self._initial.items() if _is_int8(t)}
        self._makers: dict[str, Any] = {}  #: of what follows from constants alone, by its name
        for node in graph.node:
            if all(name in self._initial or name in self._makers for name in node.input if name):
                self._makers.update({name: node for name in node.output if len(node.output) == 1})
        self._decoders = {
            node.output[0]: node
            for node in graph.node
            if node.op_type == "DequantizeLinear" and self._is_constant(node.input[0]) and self._may_be_int8(node)
        }
        elsewhere = {value.name for value in graph.output} | set(_captured(graph))
        self._handed_on: dict[str, str] = {}  #: what ONNX Runtime takes for the same -> what the decoder makes
        for node in graph.node:
            root = self._handed_on.get(node.input[0], node.input[0]) if _hands_on(node) else ""
            if root in self._decoders and node.output[0] not in elsewhere:
                self._handed_on[node.output[0]] = root
        self._taken = {value.name for value in graph.output}
        self._names = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
        self._nodes: list[Any] = []

    def nodes(self) -> list[Any]:
        """The nodes, copies ahead of their readers; constants are added to the graph."""
        for node in self._graph.node:
            if node.output and node.output[0] in self._handed_on:
                continue
            computed = any(self._makers.get(name) is node for name in node.output)
            for place, read in enumerate(node.input):
                name = node.input[place] = self._handed_on.get(read, read)
                if name in self._decoders:
                    if name in self._taken:
                        node.input[place] = self._copy(self._decoders[name])
                    self._taken.add(name)
                elif name in self._eights and not computed:  # else when somebody reads what is computed of it
                    node.input[place] = self._own(name)
            if node.output and node.output[0] in self._decoders:
                self._claim(node)
            self._nodes.append(node)
        return self._nodes

    def _claim(self, decoder: Any) -> None:
        """The values and their zero point are read by nobody else; scales stay shared."""
        for place in (0, *range(2, len(decoder.input))):
            if self._is_constant(decoder.input[place]):
                decoder.input[place] = self._own(decoder.input[place])

    def _own(self, name: str) -> str:
        """The name of the same constant that nobody has taken yet, which is taken now."""
        maker, free = self._makers.get(name), name not in self._taken
        self._taken.add(name)
        if maker is None:
            return name if free else self._copied(name)
        if free:
            self._claim_values(maker)
            return name
        return self._copy(maker)

    def _claim_values(self, maker: Any) -> None:
        """What is computed from nobody else's int8 constants: ONNX Runtime merges computations that are alike."""
        maker.input[:] = [self._own(t) if place == 0 or t in self._eights else t for place, t in enumerate(maker.input)]

    def _copy(self, node: Any) -> str:
        """Appends the node once more, with values of its own; returns what the copy makes."""
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name, copy.output[0] = self._another(node.name), self._another(node.output[0])
        if node.op_type == "DequantizeLinear":
            self._claim(copy)
        else:
            self._claim_values(copy)
        self._nodes.append(copy)
        return str(copy.output[0])

    def _copied(self, name: str) -> str:
        copy = self._graph.initializer.add()
        copy.CopyFrom(self._initial[name])
        copy.name = self._another(name)
        self._initial[copy.name] = copy
        if name in self._eights:
            self._eights.add(copy.name)
        self._taken.add(copy.name)
        return str(copy.name)

    def _another(self, name: str) -> str:
        found = next(new for k in itertools.count(1) if (new := f"{name}_{k}") not in self._names)
        self._names.add(found)
        return found

    def _is_constant(self, name: str) -> bool:
        return name in self._initial or name in self._makers

    def _may_be_int8(self, decoder: Any) -> bool:
        return all(_is_int8(self._initial[t]) for t in (decoder.input[0], *decoder.input[2:]) if t in self._initial)


def _bodies(graph: Any) -> Iterator[Any]:
    """Of loops and branches."""
    for node in graph.node:
        for attribute in node.attribute:
            yield from (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)


def _captured(graph: Any) -> Iterator[str]:
    """What bodies may read of the graph around them."""
    for body in _bodies(graph):
        yield from (name for node in body.node for name in node.input)
        yield from (value.name for value in body.output)
        yield from _captured(body)


def _hands_on(node: Any) -> bool:
    """Whether it gives the float32 that it takes."""
    if node.op_type == "Cast":
        return any(a.name == "to" and a.i == 1 for a in node.attribute)
    return bool(node.op_type == "Identity")


def _is_int8(tensor: Any) -> bool:
    return bool(tensor.data_type == tensor.INT8)
