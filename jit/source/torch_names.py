"""Names in a PyTorch program that its loader looks up or evaluates: which of them stand for no more than arithmetic."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

#: operators of tensors, and functions of the integers that shapes are computed with
_OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.(?!__)\w+(\.(?!__)\w+)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(getitem|eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|lshift|rshift)"
    r"|math\.(trunc|ceil|floor)|torch\.(_sym_sqrt|sym_(not|int|float|ite|max|min|sum|sqrt))"
)
_FILES = re.compile(r"torch\.ops\.aten\.(save|from_file|warn|_print)\b.*")  #: reach beyond the program
_SYMBOLS = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Mod", "Max", "Min", "Abs", "And", "Or", "Not", "Equality",
    "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan", "floor", "ceiling", "Half", "One",
    "Zero", "NegativeOne", "true", "false", "BooleanTrue", "BooleanFalse", "Where", "FloorDiv", "ModularIndexing",
    "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat",
    "TruncToInt", "RoundToInt", "ToFloat", "Identity",
}  # fmt: skip
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
_LONGEST = 2000  #: characters of an expression of a shape
_WAY = "export the program again"


def refused_name(key: str, name: str) -> str | None:
    """Why the string ``name`` at ``key`` of a program's JSON is not handed to PyTorch; None where it may be."""
    if key in ("target", "as_operator"):
        if not _OPERATORS.fullmatch(name) or _FILES.fullmatch(name):
            return f"calls {name[:80]!r}, which is no operator of PyTorch's own that computes with tensors; {_WAY}"
    elif key == "expr_str":
        if not _is_expression(name):
            return f"has a shape of {name[:80]!r}, which is no expression of sizes; {_WAY}"
    elif key in ("in_spec", "out_spec"):
        return _refused_container(name)
    return None


def _is_expression(text: str) -> bool:
    """Whether SymPy's evaluation of ``text`` calls nothing but SymPy's functions of sizes."""
    if len(text) > _LONGEST:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return _is_size(tree)


def _is_size(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) or (isinstance(node.value, str) and bool(re.fullmatch(r"\w+", node.value)))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_size(node.operand)
    if isinstance(node, ast.Name):
        return node.id in _SYMBOLS or bool(re.fullmatch(r"[su]\d+", node.id))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id == "Pow":  # of a symbol by few: numbers would grow without end
        base, power = (*node.args, None, None)[:2]
        small = isinstance(power, ast.Call) and len(power.args) == 1 and isinstance(power.args[0], ast.Constant)
        symbol = isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "Symbol"
        return len(node.args) == 2 and not node.keywords and small and symbol and all(map(_is_size, node.args))
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return node.func.id in _SYMBOLS and all(_is_size(value) for value in values)


def _refused_container(text: str) -> str | None:
    """Inputs and results in containers that are built by importing what the file names."""
    waiting: list[Any] = [json.loads(text)[1]]
    while waiting:
        spec = waiting.pop()
        kind, context = spec["type"], spec["context"]
        if kind not in _CONTAINERS or "__enum__" in str(context):
            return f"takes or gives a {str(kind)[:80]}; only tuples, lists and dicts of tensors can be"
        waiting += spec["children_spec"]
    return None
