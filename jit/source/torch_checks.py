"""What a PyTorch program does that an inference of fixed integers cannot: refused by name ahead of its export.

PyTorch's exporter writes all of it without a word: batch normalisation with the statistics of training as that of
inference, dropout as noise, pools without a divisor of their own, an LSTM without its projections, and a buffer that
the program changes as the constant that it was.
"""

from __future__ import annotations

from typing import Any

_CHANCE = ("p", "dropout_p", "dropout")  #: arguments that are the share of elements that noise takes away
_MODES = ("training", "train")


def unrepeatable(program: Any) -> str | None:
    """Why an ``ExportedProgram`` is not exported, and the way out; None where nothing of the above is in it."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        if "::choose_qparams" in node.target._schema.name:
            return (
                f"{node.name} takes the scale from each input (dynamic quantisation), which PyTorch cannot write as "
                "ONNX; quantise with is_dynamic=False"
            )
        given = _arguments(node)
        if given.get("divisor_override") is not None:
            return (
                f"{node.name} ({_kind(node)}) divides by {given['divisor_override']}, which PyTorch's exporter leaves "
                "out; pool without divisor_override and multiply what that gives"
            )
        if _kind(node) == "lstm" and _has_projections(given):
            return f"{node.name} has projections (proj_size), which ONNX's LSTM does not; put a Linear behind it"
        noise = any(isinstance(given.get(name), float) and given[name] > 0 for name in _CHANCE)
        if any(given.get(name) is True for name in _MODES) and (noise or not any(name in given for name in _CHANCE)):
            return (
                f"{node.name} ({_kind(node)}) is in training mode; export module.eval(), or what "
                "move_exported_model_to_eval of torchao.quantization.pt2e makes of a converted one"
            )
        off = any(given.get(name) is False for name in _MODES)
        if _is_random(node.target) and not off and (noise or not any(name in given for name in _CHANCE)):
            return f"{node.name} ({_kind(node)}) gives random numbers; make them an input of the module"
    changed = _changed_buffers(program)
    if changed:
        return (
            f"buffer {changed[0]} goes from one inference to the next, which ONNX cannot keep; make it an input and an "
            "output of the module"
        )
    return None


def _kind(node: Any) -> str:
    return str(node.target._schema.name).removeprefix("aten::")


def _arguments(node: Any) -> dict[str, Any]:
    """Those of a call by name, defaults included."""
    schema = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return values | {argument.name: value for argument, value in zip(schema, node.args)} | dict(node.kwargs)


def _has_projections(given: dict[str, Any]) -> bool:
    """Of an LSTM: each direction of a layer has two matrices, two biases or none, and one matrix more."""
    directions = given.get("num_layers", 1) * (2 if given.get("bidirectional") else 1)
    return len(given.get("params", ())) // directions % 2 == 1


def _is_random(target: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in target.tags


def _changed_buffers(program: Any) -> list[str]:
    """Buffers that the program changes and that its results are made from; counters that nothing reads are none."""
    signature = program.graph_signature
    buffers = dict(signature.inputs_to_buffers)
    changed = set(signature.buffers_to_mutate.values())
    aliases: dict[Any, str] = {}  #: nodes that share a buffer's memory
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in buffers:
            aliases[node] = buffers[node.name]
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args):
            if argument.alias_info is None or not isinstance(value, type(node)) or value not in aliases:
                continue
            aliases[node] = aliases[value]
            if argument.alias_info.is_write:
                changed.add(aliases[value])
    read = _ancestors(program)
    return sorted(name for name in changed if any(buffers.get(node.name) == name for node in read))


def _ancestors(program: Any) -> set[Any]:
    """The nodes that the user's results are made from, changed buffers apart."""
    results = set(program.graph_signature.user_outputs)
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    waiting = [node for node in output.all_input_nodes if node.name in results]
    found: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found
