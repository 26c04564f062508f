"""Which axis of each tensor holds the channels.

ONNX images are NCHW, and NCL where convolutions are over one axis; models made from NHWC ones have transposes at
their edges, outside of which the channels come last. Both follow from the operators around a tensor.
"""

from __future__ import annotations

from tilewright.jit.source.onnx.prepared import Node, Prepared
from tilewright.jit.source.operators import onnx_row

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def orders(prepared: Prepared) -> dict[str, tuple[int, ...] | None]:
    """The axes of every tensor in the order NHWC has them; None where they already are."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    first: list[str] = []
    last: list[str] = []
    for node in prepared.nodes:
        read = [t for t in node.reads if t not in prepared.constants]
        layout = onnx_row(node.kind).layout
        if layout == "alike" or _is_over_channels(prepared, node):
            for name in (*read, *node.makes):
                if _rank(prepared, name) == _rank(prepared, node.makes[0]):
                    parent[find(name)] = find(node.makes[0])
        elif layout == "image" and not node.attribute("channels_last", 0):
            first += [*read[:1], *node.makes[:1]]
        elif layout == "matrix":  # the last two axes of each are a matrix
            last += [*read, *node.makes]
        elif node.kind == "Transpose" and _permutation(node) in (TO_FIRST, TO_LAST):
            inward = _permutation(node) == TO_FIRST
            last += read[:1] if inward else node.makes[:1]
            first += node.makes[:1] if inward else read[:1]
    leading, trailing = {find(t) for t in first}, {find(t) for t in last}
    found: dict[str, tuple[int, ...] | None] = {}
    for name in prepared.types:
        root, rank = find(name), _rank(prepared, name)
        image = root in leading or (rank == 4 and root not in trailing)
        found[name] = ((0, *range(2, rank), 1) if rank in (3, 4) else None) if image else None
    return found


def _is_over_channels(prepared: Prepared, node: Node) -> bool:
    """Whether a softmax is over the second of three axes or more, and no others."""
    if node.kind != "QLinearSoftmax" or int(node.attribute("opset")) < 13:
        return False
    rank = _rank(prepared, node.inputs[0])
    return rank > 2 and int(node.attribute("axis", -1)) % rank == 1


def _rank(prepared: Prepared, name: str) -> int:
    return len(prepared.types[name][1])


def _permutation(node: Node) -> tuple[int, ...]:
    return tuple(node.attribute("perm", ()))
