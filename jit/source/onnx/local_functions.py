"""Local functions of a model written out in the place of their calls, as ONNX Runtime does first."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Any

from tilewright.model_files import every_node
from tilewright.runtime import interpreters

_ONNX = ("", "ai.onnx")  #: two names of one domain


def written_out(model: Any) -> Any:
    """The model without local functions, or as it was where they cannot be written out: ONNX Runtime says so then.

    Attributes that a call leaves out have the default that the function declares. A function by the name of an
    operator that ONNX Runtime has itself is none to it.
    """
    if not model.functions:
        return model
    from onnx import checker, inliner

    made = type(model)()
    made.CopyFrom(model)
    _drop_known(made)
    try:
        for identity in _callers_first(made):
            _give_defaults(made, identity)
            made = inliner.inline_selected_functions(made, [identity])
    except (CycleError, RuntimeError, checker.ValidationError):  # functions that call themselves, or lack an input
        return model
    return made


def _drop_known(model: Any) -> None:
    """Drops the functions that are operators of ONNX Runtime's own, in the version that the model imports."""
    if not interpreters.is_installed("onnxruntime"):
        return
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    versions = {_domain(entry.domain): entry.version for entry in model.opset_import}
    wanted = {_identity(function) for function in model.functions}
    own = {
        (_domain(schema.domain), schema.name) for schema in get_all_operator_schema()
        if schema.since_version <= versions.get(_domain(schema.domain), 0)
    } & wanted  # fmt: skip
    kept = [function for function in model.functions if _identity(function) not in own]
    del model.functions[:]
    model.functions.extend(kept)


def _callers_first(model: Any) -> list[tuple[str, str]]:
    """The (domain, name) of every function, ahead of those that it calls. Raises CycleError."""
    known = {(function.domain, function.name) for function in model.functions}
    calls: dict[tuple[str, str], set[tuple[str, str]]] = {identity: set() for identity in known}
    for function in model.functions:
        own = {(node.domain, node.op_type) for node in every_node(function.node)}
        calls[function.domain, function.name] |= own & known
    return [*TopologicalSorter(calls).static_order()][::-1]


def _give_defaults(model: Any, identity: tuple[str, str]) -> None:
    """Gives the calls of the main graph, to a function that nothing else calls any more, the attributes that they
    leave out."""
    functions = {f.overload: f for f in model.functions if (f.domain, f.name) == identity}
    for node in every_node(model.graph.node):
        if (node.domain, node.op_type) == identity and node.overload in functions:
            given = {attribute.name for attribute in node.attribute}
            defaults = functions[node.overload].attribute_proto
            node.attribute.extend(attribute for attribute in defaults if attribute.name not in given)


def _identity(function: Any) -> tuple[str, str]:
    return _domain(function.domain), function.name


def _domain(name: str) -> str:
    return "" if name in _ONNX else name
