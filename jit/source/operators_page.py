"""``docs/operators.md``: where each operator of TFLite and ONNX runs, from the tables of rules.

``python -m tilewright.jit.source.operators_page`` brings the page up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilewright.jit.source.onnx import elements, functions, integer, quantised, real_rules, reduce
from tilewright.jit.source.onnx.units import PASSIVE
from tilewright.jit.source.tflite import dilation, moves, rules, tables
from tilewright.pages import write
from tilewright.runtime.litert.schema import schema, written

PAGE = "operators.md"
#: the operators that a rule's docstring begins with; the page has them in a column of their own
_NAMES = re.compile(r"^[A-Z][A-Z_0-9]{2,}(?:(?:, | and )[A-Z][A-Z_0-9]{2,})*(?:[:,]? |$)")
#: what its rule lowers it to: cycles of GEMM or ALU per vector of BLOCK_OUT results, in steady state
COSTS: dict[str, str] = {
    "convolution": "GEMM: KH x KW x ceil(IC / BLOCK_IN)",
    "depthwise": "GEMM: KW x KH per column of the window, shared by neighbours",
    "table": "ALU: 2",
    "sum": "ALU: 3, or 2 with constants",
    "slopes": "ALU: 8; GEMM: 1",
    "product": "ALU: 5, 4 where one operand goes with all columns; GEMM: 1 (numbers per channel), ALU: 2 (a number)",
    "copy": "ALU: 2, or none where parts are written in place",
    "move": "ALU: 2 for rows and columns; GEMM: 1 per block of chosen channels",
    "block": "GEMM: one per block of chosen channels",
    "pad": "ALU: 2 for each part and 3 for each but the first over pixels; over channels 2, or none in place",
    "arranged": "none, or on the host, in NumPy",
    "extreme": "ALU: rows x columns + 1; over C channels 6 x C / BLOCK_OUT + 17 a pixel",
    "view": "none, or on the host where pixels change their rows",
    "window": "ALU: KH x KW + 1",
    "average": "GEMM: KH x KW, or one per pixel where it takes the whole image",
    "resample": "ALU: 2 (nearest), 2 to 5 (bilinear)",
    "transposed": "GEMM: KH x KW / (stride x stride) x ceil(IC / BLOCK_IN), in the mean",
    "host": "on the host, in NumPy",
    "joined": "none",
    "svdf": "of BLOCK_OUT filters: ALU: 21 (state of int16) or 4 (int8); GEMM: ceil(IC / BLOCK_IN) + memory x (4 or 1)",
    "recurrent": "a step of BLOCK_OUT units: ALU: 437 to 469, GEMM: 4 x ceil((IC + units) / BLOCK_IN)",
    "products": "GEMM: ceil(IC / BLOCK_IN); of two activations as much again for each zero point other than 0",
}
TFLITE: dict[str, str] = {
    **dict.fromkeys((*tables.FUNCTIONS, *tables.OF_A_NUMBER), "table"),
    **dict.fromkeys(("QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1"), "table"),
    **dict.fromkeys(moves.RULES, "move"),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), "block"),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), "extreme"),
    **dict.fromkeys(("PAD", "PADV2"), "copy"),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), "view"),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MEAN", "SUM"), "average"),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), "resample"),
    **dict.fromkeys(("BATCH_MATMUL", "FULLY_CONNECTED"), "products"), "CONV_2D": "convolution",
    **dict.fromkeys(("ADD", "SUB", "MAXIMUM", "MINIMUM"), "sum"),
    "MUL": "product", "PRELU": "slopes", "DEPTHWISE_CONV_2D": "depthwise", "MAX_POOL_2D": "window", "SOFTMAX": "host",
    "CONCATENATION": "pad", "TRANSPOSE": "arranged", "TRANSPOSE_CONV": "transposed",
    "SVDF": "svdf", "UNIDIRECTIONAL_SEQUENCE_LSTM": "recurrent",
    **dict.fromkeys((dilation.DEAL, dilation.GATHER), "joined"),
}  # fmt: skip
ONNX: dict[str, str] = {
    **dict.fromkeys(("Conv", "FusedConv", "FusedGemm", "Gemm", "MatMul"), "convolution"),
    **dict.fromkeys(("ConvInteger", "MatMulInteger", "QGemm", "QLinearConv"), "convolution"),
    "QLinearMatMul": "products", "ConvTranspose": "transposed",
    **dict.fromkeys(functions.KINDS, "table"),
    **dict.fromkeys(("Add", "Max", "Mean", "Min", "QLinearAdd", "Sub", "Sum"), "sum"),
    **dict.fromkeys(("Mul", "QLinearMul"), "product"),
    **dict.fromkeys(elements.KINDS, "move"), **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), "block"),
    "Resize": "resample", **dict.fromkeys(reduce.EXTREMES, "extreme"),
    **dict.fromkeys(("Concat", "QLinearConcat"), "pad"), "Pad": "copy",
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"), "average"),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), "average"),
    "MaxPool": "window", "QLinearSoftmax": "host",
}  # fmt: skip

#: names of the schema for what no file has as an operator
_NO_OPERATORS = ("DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
_VERSIONS = (1, 2, 3)  #: the least version of an operator that LiteRT knows is one of them
#: of ONNX, what is part of the operators around it
_FREE = {*PASSIVE, "Clip", "DequantizeLinear", "QuantizeLinear", "Relu"}


def blocks() -> dict[str, list[str]]:
    """What of the page is generated, by name, as lines of Markdown. Raises KeyError for a rule without a cost."""
    return {
        "tflite": list(_tflite()),
        "other tflite": list(_other_tflite()),
        "onnx": list(_onnx()),
        "other onnx": list(_other_onnx()),
    }


def _tflite() -> Iterator[str]:
    yield "| operator | cycles per vector | what is taken |"
    yield "|---|---|---|"
    joined = dict.fromkeys((dilation.DEAL, dilation.GATHER), dilation.Dilated.lower)
    taken = {**rules.RULES, **joined}
    said = {name: (rule.__doc__ or "").partition("\n")[0].rstrip(".") for name, rule in taken.items()}
    yield from _rows((name, COSTS[TFLITE[name]], _NAMES.sub("", text)) for name, text in sorted(said.items()))


def _onnx() -> Iterator[str]:
    yield "| operator | cycles per vector | form |"
    yield "|---|---|---|"
    forms = {
        "8-bit tensors": {*quantised.RULES, *elements.KINDS, *reduce.EXTREMES},
        "between Q/DQ pairs": {*real_rules.RULES, *elements.KINDS, *reduce.EXTREMES},
        "int32 sums, scaled": set(integer.RULES),
        "of one tensor and numbers": set(functions.KINDS),
    }
    names = sorted(set().union(*forms.values()))
    yield from _rows(
        (name, COSTS[ONNX[name]], ", ".join(form for form in forms if name in forms[form])) for name in names
    )


def _other_tflite() -> Iterator[str]:
    """The operators of TFLite's schema that are not in the table, by whether LiteRT has a kernel."""
    codes = {name: code for name, code in vars(schema().BuiltinOperator).items() if not name.startswith("_")}
    others = sorted(codes.keys() - TFLITE.keys() - {"CUSTOM", *_NO_OPERATORS})
    known = {name for name in others if _litert_has(codes[name])}
    yield f"**On the CPU, in LiteRT**: {', '.join(name for name in others if name in known)}."
    yield ""
    yield f"**Not at all**, for LiteRT has no kernel: {', '.join(name for name in others if name not in known)}."


def _other_onnx() -> Iterator[str]:
    """The operators of ONNX that are not in the table, by whether they take cycles."""
    from onnx import defs

    names = {known.name for known in defs.get_all_schemas_with_history() if not known.domain}
    yield f"**Without cycles, on the accelerator**: {', '.join(sorted(_FREE))}."
    yield ""
    yield f"**On the CPU, in ONNX Runtime**: {', '.join(sorted(names - ONNX.keys() - {*_FREE}))}."


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
