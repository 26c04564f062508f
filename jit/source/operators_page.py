"""``docs/operators.md``: where each operator of TFLite and ONNX runs, from the table of operators.

``python -m tilewright.jit.source.operators_page`` brings the page up to date.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tilewright.jit.source.constraints import constraints
from tilewright.jit.source.operator_row import OperatorRow
from tilewright.jit.source.operators import ONNX, TFLITE
from tilewright.pages import write
from tilewright.runtime.litert.schema import schema, written

PAGE = "operators.md"
#: the operators that a rule's docstring begins with; the page has them in a column of their own
_NAMES = re.compile(r"^[A-Z][A-Z_0-9]{2,}(?:(?:, | and )[A-Z][A-Z_0-9]{2,})*(?:[:,]? |$)")
#: by family what an operator is lowered to: cycles of GEMM or ALU per vector of BLOCK_OUT results, in steady state
COSTS: dict[str, str] = {
    "convolution": "GEMM: KH x KW x ceil(IC / BLOCK_IN)",
    "depthwise": "GEMM: KW x KH per column of the window, shared by neighbours",
    "table": "ALU: 2",
    "cast": "ALU: 2",
    "clamp": "ALU: 2",
    "quantisation": "ALU: 2",
    "sum": "ALU: 3, or 2 with constants",
    "slopes": "ALU: 8; GEMM: 1",
    "product": "ALU: 5, 4 where one operand goes with all columns; GEMM: 1 (numbers per channel), ALU: 2 (a number)",
    "pad": "ALU: 2, or none where parts are written in place",
    "move": "ALU: 2 for rows and columns; GEMM: 1 per block of chosen channels",
    "block": "GEMM: one per block of chosen channels",
    "concatenation": "ALU: 2 for each part and 3 for each but the first over pixels; over channels 2, or none in place",
    "transpose": "none, or on the host, in NumPy",
    "extreme": "ALU: rows x columns + 1; over C channels 6 x C / BLOCK_OUT + 17 a pixel",
    "view": "none, or on the host where pixels change their rows",
    "window": "ALU: KH x KW + 1",
    "average": "GEMM: KH x KW, or one per pixel where it takes the whole image",
    "resample": "ALU: 2 (nearest), 2 to 5 (bilinear)",
    "transposed": "GEMM: KH x KW / (stride x stride) x ceil(IC / BLOCK_IN), in the mean",
    "softmax": "on the host, in NumPy",
    "joined": "none",
    "svdf": "of BLOCK_OUT filters: ALU: 21 (state of int16) or 4 (int8); GEMM: ceil(IC / BLOCK_IN) + memory x (4 or 1)",
    "recurrent": "a step of BLOCK_OUT units: ALU: 437 to 469, GEMM: 4 x ceil((IC + units) / BLOCK_IN)",
    "products": "GEMM: ceil(IC / BLOCK_IN); of two activations as much again for each zero point other than 0",
}

#: names of the schema for what no file has as an operator
_NO_OPERATORS = ("DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
_COMMON = 4  #: what is said of more than one rule in so many is said once
_VERSIONS = (1, 2, 3)  #: the least version of an operator that LiteRT knows is one of them


def blocks() -> dict[str, list[str]]:
    """What of the page is generated, by name, as lines of Markdown. Raises KeyError for a rule without a cost."""
    return {
        "tflite": list(_tflite()),
        "other tflite": list(_other_tflite()),
        "onnx": list(_onnx()),
        "other onnx": list(_other_onnx()),
        "rejected": list(_rejected()),
    }


def _tflite() -> Iterator[str]:
    yield "| operator | cycles per vector | what is taken |"
    yield "|---|---|---|"
    for_all = sorted(on_accelerator(TFLITE).items())
    yield from _rows((name, COSTS[row.family], row.says or _documented(row)) for name, row in for_all)


def _documented(row: OperatorRow) -> str:
    """What the rule of an operator says that it takes."""
    text = (row.find(row.rule or "dilation:Dilated.lower").__doc__ or "").partition("\n")[0]
    return _NAMES.sub("", text.rstrip("."))


def _onnx() -> Iterator[str]:
    yield "| operator | cycles per vector | form |"
    yield "|---|---|---|"
    yield from _rows(
        (name, COSTS[row.family], ", ".join(row.forms)) for name, row in sorted(on_accelerator(ONNX).items())
    )


def on_accelerator(rows: Mapping[str, OperatorRow]) -> dict[str, OperatorRow]:
    """Those that take cycles there, in some form."""
    return {name: row for name, row in rows.items() if row.forms}


def _other_tflite() -> Iterator[str]:
    """The operators of TFLite's schema that are not in the table, by whether LiteRT has a kernel."""
    codes = {name: code for name, code in vars(schema().BuiltinOperator).items() if not name.startswith("_")}
    others = sorted(codes.keys() - on_accelerator(TFLITE).keys() - {"CUSTOM", *_NO_OPERATORS})
    known = {name for name in others if _litert_has(codes[name])}
    yield f"**On the CPU, in LiteRT**: {', '.join(name for name in others if name in known)}."
    yield ""
    yield f"**Not at all**, for LiteRT has no kernel: {', '.join(name for name in others if name not in known)}."


def _other_onnx() -> Iterator[str]:
    """The operators of ONNX that are not in the table, by whether they take cycles."""
    from onnx import defs

    names = {known.name for known in defs.get_all_schemas_with_history() if not known.domain}
    free = {name for name, row in ONNX.items() if row.is_free}
    yield f"**Without cycles, on the accelerator**: {', '.join(sorted(free))}."
    yield ""
    yield f"**On the CPU, in ONNX Runtime**: {', '.join(sorted(names - on_accelerator(ONNX).keys() - free))}."


def _rejected() -> Iterator[str]:
    """The messages of rules, of operators of which the same is said together; first those of most operators."""
    said = {
        f"{name} ({form})" if format == "onnx" else name: constraints(row.find(rule))
        for format, rows in (("tflite", TFLITE), ("onnx", ONNX))
        for name, row in rows.items()
        for form, rule in _rules(row)
    }
    times = Counter(message for messages in said.values() for message in messages)
    common = [message for message, count in times.items() if count > len(said) / _COMMON]
    yield f"Of most operators: {'; '.join(sorted(common))}."
    yield ""
    yield "| operator | falls back for |"
    yield "|---|---|"
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, messages in sorted(said.items()):
        own = tuple(sorted(message for message in messages if message not in common))
        alike.setdefault(own, []).append(name)
    for own, names in alike.items():
        if own:
            yield f"| {', '.join(names)} | {'; '.join(own)} |"


def _rules(row: OperatorRow) -> Iterator[tuple[str, str]]:
    """Each form of an operator, and its rule."""
    if row.format == "tflite":
        yield from [("", row.rule)] if row.rule else []
        return
    forms = {"8-bit tensors": row.int8, "between Q/DQ pairs": row.real, "int32 sums": row.sums}
    yield from ((form, rule) for form, rule in forms.items() if rule)


def _litert_has(code: int) -> bool:
    """Whether LiteRT, with its reference kernels or its others, loads a file that names this operator."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    s = schema()
    for version in _VERSIONS:
        model, kind, graph = s.ModelT(), s.OperatorCodeT(), s.SubGraphT()
        kind.builtinCode, kind.deprecatedBuiltinCode, kind.version = code, min(code, 127), version
        graph.tensors, graph.inputs, graph.outputs, graph.operators = [], [], [], []
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [kind], [graph], [s.BufferT()]
        content = written(model)
        for kernels in (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
            try:
                Interpreter(model_content=content, experimental_op_resolver_type=kernels)
            except ValueError as error:
                if "Didn't find op" not in str(error):
                    raise
            else:
                return True
    return False


def _rows(operators: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """A row for all operators, of (name, cost, text), of which the same is said."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, *said in operators:
        alike.setdefault((said[0], said[1]), []).append(name)
    for (cost, text), names in alike.items():
        yield f"| {', '.join(names)} | {cost} | {text} |"


if __name__ == "__main__":
    write(PAGE, blocks())
