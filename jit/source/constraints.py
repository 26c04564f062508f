"""The constraints of operators: what their rules reject, read off the rules' source.

A rule raises :class:`~tilewright.jit.errors.Unsupported` where an operator has no exact form, with a message that a
report shows as the reason of a fallback. ``docs/operators.md`` lists these messages, so none is written twice.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

RAISED = ("Unsupported", "NotRepresentable")
_PARTS = tuple(f"tilewright.jit.{part}." for part in ("source", "layers", "numbers"))


def constraints(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The messages with which a rule, or what it calls in the front ends, rejects an operator; values stand as
    their names in capitals."""
    found: dict[str, None] = {}
    seen: set[FunctionType] = set()
    waiting = [*_functions(rule)]
    while waiting:
        function = waiting.pop(0)
        if function in seen:
            continue
        seen.add(function)
        node = _source(function)
        if node is None:
            continue
        found |= dict.fromkeys(_raised(node))
        waiting += _called(function, node)
        waiting += [inner for cell in function.__closure__ or () for inner in _functions(cell.cell_contents)]
    return tuple(found)


def _functions(value: Any) -> Iterator[FunctionType]:
    """The front ends' functions that a value is, or is made of."""
    if isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _functions(part)
    elif isinstance(value, FunctionType) and f"{value.__module__}.".startswith(_PARTS):
        yield value


@functools.cache
def _module(name: str) -> dict[int, ast.FunctionDef]:
    """The functions of a module by the line in which they begin, decorators included."""
    nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[name])))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return {min([node.lineno, *(d.lineno for d in node.decorator_list)]): node for node in functions}


def _source(function: FunctionType) -> ast.FunctionDef | None:
    return _module(function.__module__).get(function.__code__.co_firstlineno)


def _raised(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if not isinstance(each, ast.Raise) or not isinstance(each.exc, ast.Call):
            continue
        if isinstance(each.exc.func, ast.Name) and each.exc.func.id in RAISED and each.exc.args:
            message = "".join(_text(each.exc.args[0]))
            if any(letter.islower() for letter in message):  # or it is another's
                yield message


def _text(message: ast.expr) -> Iterator[str]:
    if isinstance(message, ast.Constant):
        yield str(message.value)
    elif isinstance(message, ast.JoinedStr):
        for part in message.values:
            yield from _text(part)
    elif isinstance(message, ast.FormattedValue):
        yield from _text(message.value)
    elif isinstance(message, ast.Name):
        yield message.id.strip("_").upper()
    elif isinstance(message, ast.Attribute):
        yield message.attr.strip("_").upper()
    elif isinstance(message, ast.Subscript):
        yield from _text(message.value)
    else:
        yield "..."


def _called(function: FunctionType, node: ast.FunctionDef) -> Iterator[FunctionType]:
    """The functions that are called, or handed on, by their names or as attributes of modules, classes and parameters
    whose class is annotated."""
    known = function.__globals__
    classes = {name: known.get(str(kind)) for name, kind in function.__annotations__.items()}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            yield from _functions(known.get(each.id))
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            owner = classes.get(each.value.id) or known.get(each.value.id)
            if isinstance(owner, ModuleType | type):
                yield from _functions(getattr(owner, each.attr, None))
