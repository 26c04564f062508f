"""Convolutions whose padding is a word, as ones with numbers, which are what PT2E's quantisers look for."""

from __future__ import annotations

from typing import Any


def state_padding(module: Any) -> bool:
    """Every convolution with ``padding="same"`` or ``"valid"`` of a ``GraphModule`` gets numbers; whether any did.

    Where "same" takes one more at an end than at its beginning, a layer ahead pads. What the nodes say of their shapes
    is lost: export the module again.

    ``module``: of an ``ExportedProgram``.
    """
    import torch

    aten = torch.ops.aten
    stated = {getattr(aten, f"conv{n}d").padding: getattr(aten, f"conv{n}d").default for n in (1, 2, 3)}
    found = [node for node in module.graph.nodes if node.target in stated]
    for node in found:
        schema = node.target._schema.arguments
        given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
        given |= {argument.name: value for argument, value in zip(schema, node.args)} | dict(node.kwargs)
        kernel = given["weight"].meta["val"].shape[2:]
        dilation = list(given["dilation"]) * (len(kernel) if len(given["dilation"]) == 1 else 1)
        whole = [d * (k - 1) if given["padding"] == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
        pads, image = [total // 2 for total in whole], given["input"]
        if any(total % 2 for total in whole):
            ends = [end for total in reversed(whole) for end in (total // 2, total - total // 2)]
            with module.graph.inserting_before(node):
                image, pads = module.graph.call_function(aten.pad.default, (image, ends)), [0] * len(whole)
        node.target, node.kwargs = stated[node.target], {}
        node.args = (
            image, given["weight"], given["bias"], given["stride"], pads, given["dilation"], given["groups"]
        )  # fmt: skip
    if found:
        module.recompile()
    return bool(found)
