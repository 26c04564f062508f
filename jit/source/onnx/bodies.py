"""Names of bodies of loops and branches, after ONNX Runtime's optimiser has been at them.

It names what it adds in each graph by itself, so that a body and the graph around it may make a tensor of one name:
such a model it writes, and does not read again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tilewright.model_files import bodies


def rename_hidden(model: Any) -> None:
    """Gives what bodies make names that nothing outside of them has, and nothing anywhere had."""
    used = set(_everywhere(model.graph))
    free = (name for k in itertools.count() if (name := f"inner@{k}") not in used)
    _rename(model.graph, _names(model.graph), free)


def _names(graph: Any) -> set[str]:
    """Of everything that a graph makes, takes or stores itself."""
    made = {t for node in graph.node for t in node.output}
    stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return made | {v.name for v in graph.input} | stored


def _everywhere(graph: Any) -> Iterator[str]:
    """Names in a graph and in the bodies in it, however deep."""
    yield from _names(graph)
    for node in graph.node:
        for body in bodies(node):
            yield from _everywhere(body)


def _rename(graph: Any, taken: set[str], free: Iterator[str]) -> None:
    for node in graph.node:
        for body in bodies(node):
            own = _names(body)
            changed = {name: next(free) for name in sorted((own & taken) - {""})}
            _apply(body, changed)
            taken |= own | set(changed.values())
            _rename(body, taken, free)


def _apply(graph: Any, changed: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = changed.get(value.name, value.name)
    for tensor in graph.sparse_initializer:
        tensor.values.name = changed.get(tensor.values.name, tensor.values.name)
    for node in graph.node:
        node.input[:] = [changed.get(t, t) for t in node.input]
        node.output[:] = [changed.get(t, t) for t in node.output]
        for body in bodies(node):
            hidden = _names(body)
            _apply(body, {old: new for old, new in changed.items() if old not in hidden})
