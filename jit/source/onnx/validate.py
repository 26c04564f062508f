"""Validation of ``.onnx`` files ahead of every reader that trusts its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from tilewright.files import keep_input
from tilewright.jit.errors import ModelError
from tilewright.jit.source.kinds import described
from tilewright.jit.source.onnx.local_functions import written_out
from tilewright.jit.source.onnx.prepared import marked, parse_node, refused
from tilewright.jit.source.onnx.zero_points import complete_zero_points
from tilewright.jit.source.operators import onnx_row
from tilewright.model_files import every_node, locations, subgraphs
from tilewright.runtime import interpreters

FLOAT_HINT = (
    "quantise it with `tilewright quantize`, or with onnxruntime.quantization.quantize_static(..., "
    "quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8, per_channel=True)"
)
NOTHING_TO_DO = "run it in ONNX Runtime, the accelerator has nothing to do"

#: version of the file format as every ONNX Runtime that has the operators takes it: onnx writes newer ones than the
#: Runtime of the same year knows, which say nothing else of the operators
NEWEST_IR = 10

#: operators of their makers' own domains that quantise, and what to do
_FOREIGN = (
    (("Quant", "IntQuant", "BipolarQuant", "FloatQuant", "Trunc"),
     "quantised as QONNX ({}); export it with QuantizeLinear and DequantizeLinear, from Brevitas by export_onnx_qcdq"),
    (("VitisQuantizeLinear", "VitisDequantizeLinear", "ExtendedQuantizeLinear", "ExtendedDequantizeLinear",
      "BFPQuantizeDequantize", "MXQuantizeDequantize"),
     "quantised by operators of AMD Quark's own ({}); quantise the float model with its configuration XINT8 or A8W8"),
)  # fmt: skip
_WHERE_ZERO_POINTS = (3, 6)  #: of the two operands of a QLinearWhere
_NOT_FOLDED = ("random", "quantisation", "control")  #: families that ONNX Runtime does not fold, of constants
_ONNX_RUNTIME = ("", "ai.onnx", "com.microsoft")  #: domains with kernels in it


def read(path: Path, content: bytes | None = None) -> Any:
    """The protobuf of an ``.onnx`` file, or of ``content``, as onnx or at least ONNX Runtime takes it.

    Nodes stand behind those that they read, and dimensions are not negative. Raises ModelError.
    """
    import onnx

    model = _loaded(path, content)
    model = written_out(model)
    _fix_initial(model)
    model.ir_version = min(model.ir_version, NEWEST_IR)
    _open_dimensions(model.graph)
    _sort(model.graph)
    _refuse_foreign(path, model)
    _refuse_random(path, model.graph, {})
    _refuse_computed_zero_points(path, model.graph, frozenset())
    _refuse_fatal(path, model)
    try:
        onnx.checker.check_model(model)
    except Exception:  # noqa: BLE001  # the checker raises kinds of its own
        ask_onnx_runtime(path, model)
    return model


def _refuse_fatal(path: Path, model: Any) -> None:
    """Raises ModelError for a model that ends the process in which ONNX Runtime loads it: it takes branches that are
    always taken out of their If, and does not survive some of those that stand in others."""
    if not interpreters.is_installed("onnxruntime"):
        return  # which is said where it is needed
    branches = any(node.op_type == "If" for node in every_node(model.graph.node))
    if branches and (how := interpreters.fatal(model.SerializeToString())):
        raise ModelError(f"{path}: {how}, where ONNX Runtime loads it; export it without branches always taken")


def _loaded(path: Path, content: bytes | None) -> Any:
    """The protobuf, with what the file keeps beside itself. Raises ModelError."""
    import onnx

    try:
        if content is None:
            model = onnx.load(str(path), load_external_data=False)
            for name in locations(model):
                keep_input(path.parent / name)
            onnx.load_external_data_for_model(model, str(path.parent))
        else:
            model = onnx.load_from_string(content)
        if not all(isinstance(name, str) for name in _names(model.graph)):
            raise ValueError("a name that is no text")
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{path}: {_first_line(error)}; it belongs beside the model") from error
    except Exception as error:  # protobuf raises kinds of its own
        known = described(path) if content is None else None
        raise ModelError(
            f"{path}: {known or f'corrupt or truncated .onnx file: {_first_line(error)}; download or export it again'}"
        ) from error
    return model


def untouched(path: Path, content: bytes | None, instead: bytes) -> bytes:
    """The model as it is given, for ONNX Runtime; ``instead`` where that does not load it so.

    But for zero points without which it would stop later. Raises ModelError.
    """
    model = _loaded(path, content)
    complete_zero_points(model)
    given = model.SerializeToString()
    try:
        interpreters.onnxruntime_session(given, interpreters.onnxruntime_options)
    except Exception as error:  # its errors have no common public base
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        return instead
    return bytes(given)


def _first_line(error: Exception) -> str:
    return interpreters.first_line(error).rstrip(".")


def _fix_initial(model: Any) -> None:
    """Up to IR version 3 every constant is declared as an input, too, which nobody can give."""
    if model.ir_version >= 4:
        return
    initial = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in initial]
    if len(given) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(given)
        model.ir_version = 4


def ask_onnx_runtime(path: Path, model: Any) -> None:
    """Raises ModelError for what ONNX Runtime does not load either.

    It takes what onnx refuses: outputs without a shape, its own operators under onnx' name (LayerNormalization before
    opset 17, as its optimiser of transformers writes it), graphs without a name.
    """
    try:
        interpreters.onnxruntime_session(marked(model).SerializeToString(), interpreters.onnxruntime_options)
    except Exception as error:  # its errors have no common public base
        known = described(path) if path.suffix.lower() == ".onnx" else None
        raise ModelError(f"{path}: {known}" if known else f"{refused(path, error)}{_in_float32(model)}") from error


def _in_float32(model: Any) -> str:
    """What goes with "export it again" for tensors of types that ONNX Runtime has few operators for; else nothing."""
    from onnx import TensorProto

    given = {value.type.tensor_type.elem_type for value in model.graph.input}
    given |= {tensor.data_type for tensor in model.graph.initializer}
    others = {TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    kinds = sorted(TensorProto.DataType.Name(kind).lower() for kind in given & others)
    return f" in float32 rather than {' and '.join(kinds)} (PyTorch: module.float())" if kinds else ""


def _open_dimensions(graph: Any) -> None:
    """Negative dimensions become ones that are left open, which ONNX Runtime takes them for."""
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.Clear()


def _sort(graph: Any) -> None:
    """Every node behind those whose results it reads, where it is not so yet: ONNX Runtime takes them in any order."""
    nodes = [parse_node(index, proto) for index, proto in enumerate(graph.node)]
    makers = {name: node.index for node in nodes for name in node.makes}
    needs = {node.index: {makers[name] for name in node.reads if name in makers} for node in nodes}
    if all(before < index for index in needs for before in needs[index]):
        return
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError:
        return  # the checker says so
    ordered = [nodes[index].proto for index in order]
    made = type(graph)(node=ordered)
    del graph.node[:]
    graph.node.extend(made.node)


def _names(graph: Any) -> Iterator[object]:
    """Every name of the main graph; protobuf gives those that are no text as bytes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    yield from (value.name for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer))


def operator_form(model: Any) -> list[str]:
    """Operators of the file that compute on integers by themselves, rather than between Q and DQ nodes."""
    kinds = _kinds(model.graph)
    return sorted(k for k in kinds if k.startswith("QLinear") or k.endswith("Integer") or k == "QGemm")


def is_quantised(model: Any) -> bool:
    """Whether anything of it is, branches and bodies of loops included."""
    kinds = _kinds(model.graph)
    return any(onnx_row(kind).quantised for kind in kinds) or bool(operator_form(model))


def _kinds(graph: Any, domains: tuple[str, ...] = ()) -> set[str]:
    """Of all nodes, those of branches and of bodies of loops included, except those of ``domains``."""
    found = set()
    for node in graph.node:
        if node.domain not in domains:
            found.add(node.op_type)
        found.update(kind for a in node.attribute for part in subgraphs(a) for kind in _kinds(part, domains))
    return found


def _refuse_foreign(path: Path, model: Any) -> None:
    """Raises ModelError for a model that is quantised in ways that ONNX itself has not, ahead of ONNX Runtime, which
    knows neither the operators nor, often, their domain."""
    foreign = _kinds(model.graph, _ONNX_RUNTIME)
    for known, what in _FOREIGN:
        if named := sorted(foreign.intersection(known)):
            raise ModelError(f"{path}: {what.format(', '.join(named))}")


def _refuse_random(path: Path, graph: Any, around: Mapping[str, Any]) -> None:
    """Raises ModelError for operators that give other numbers each time; no two runs of such a model are equal.

    Likewise for those of training that ONNX Runtime writes to nowhere for, and that end the process.

    ``around``: constants of the graphs that this one is a part of.
    """
    stored = [(node.output[0], a.t) for node in graph.node for a in node.attribute if _is_value(node, a)]
    constants = {**around, **{tensor.name: tensor for tensor in graph.initializer}, **dict(stored)}
    for node in graph.node:
        if node.domain in ("", "ai.onnx") and (_is_random(node) or _drops(node, constants)):
            training = " in training mode" if node.op_type == "Dropout" else ""
            way_out = "export it for inference" if training else "make them an input of the model"
            raise ModelError(f"{path}: {node.op_type}{training} ({node.output[0]}) gives random numbers; {way_out}")
        if _leaves_out_statistics(node):
            raise ModelError(
                f"{path}: BatchNormalization in training mode ({node.output[0]}) leaves out its statistics, which ends "
                "ONNX Runtime; export it for inference"
            )
        for attribute in node.attribute:
            for part in subgraphs(attribute):
                _refuse_random(path, part, constants)


def _is_value(node: Any, attribute: Any) -> bool:
    return bool(node.op_type == "Constant" and attribute.name == "value")


def _is_random(node: Any) -> bool:
    return onnx_row(node.op_type).family == "random"


def _drops(node: Any, constants: Mapping[str, Any]) -> bool:
    """Whether a Dropout is one of training: since opset 12 by its third input."""
    from onnx import numpy_helper

    if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    training = constants.get(node.input[2])
    return training is None or bool(numpy_helper.to_array(training).any())


def _leaves_out_statistics(node: Any) -> bool:
    training = any(a.name == "training_mode" and a.i for a in node.attribute)
    return node.op_type == "BatchNormalization" and training and not all(node.output)


def _refuse_computed_zero_points(path: Path, graph: Any, around: frozenset[str]) -> None:
    """Raises ModelError for a QLinearWhere with a zero point that the network computes, which ends ONNX Runtime: its
    kernel reads them before there is any inference.

    ``around``: names of constants of the graphs that this one is a part of.
    """
    known = {*around, *(tensor.name for tensor in graph.initializer)}
    for node in graph.node:
        computed = [n for p, n in enumerate(node.input) if p in _WHERE_ZERO_POINTS and n and n not in known]
        if node.op_type == "QLinearWhere" and computed:
            raise ModelError(
                f"{path}: QLinearWhere ({node.output[0]}) with a computed zero point {computed[0]!r}, which ends ONNX "
                "Runtime; export it with a constant one"
            )
        if all(name in known for name in node.input if name) and onnx_row(node.op_type).family not in _NOT_FOLDED:
            known.update(node.output)
        for attribute in node.attribute:
            for part in subgraphs(attribute):
                _refuse_computed_zero_points(path, part, frozenset(known))


def refuse_float(path: Path, model: Any) -> None:
    """Raises ModelError for a model without anything quantised."""
    if is_quantised(model):
        return
    if blocks := sorted(kind for kind in _kinds(model.graph) if onnx_row(kind).family == "blocks"):
        hint = FLOAT_HINT.replace("quantise it", "quantise the float model", 1)
        raise ModelError(f"{path}: only weights are quantised, in blocks ({', '.join(blocks)}); {hint}")
    if path.suffix.lower() == ".pt2":
        raise ModelError(f"{path}: not quantised: nothing in it is PT2E's; quantise it with `tilewright quantize`")
    without = "no QuantizeLinear or DequantizeLinear in it"
    if not _has_float(model.graph):
        raise ModelError(f"{path}: {without}, and nothing of float32 to quantise; {NOTHING_TO_DO}")
    raise ModelError(f"{path}: not quantised: {without}; {FLOAT_HINT}")


def _has_float(graph: Any) -> bool:
    from onnx import TensorProto

    kinds = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    kinds |= {tensor.data_type for tensor in graph.initializer}
    return bool(kinds & {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})


def input_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Of the inputs that the user gives; dimensions that are left open are 0."""
    constants = {init.name for init in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in constants]
    return {value.name: tuple(int(d.dim_value) for d in value.type.tensor_type.shape.dim) for value in given}


def fix_batch(model: Any) -> list[str]:
    """A leading dimension of the inputs that is left open becomes 1, in other inputs with one of its name too.

    Wherever else the name stands it is left open, since a file may call dimensions by it that are others: ONNX Runtime
    follows numbers there, and no names. Returns the inputs that had one.
    """
    names, fixed = set(), []
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initial]
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value") and all(d.HasField("dim_value") for d in dims[1:]):
            names.add(dims[0].dim_param)
            dims[0].dim_value = 1
            fixed.append(value.name)
    for value in inputs:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param in names:
                dim.dim_value = 1
    return fixed


@contextmanager
def leading_dimension_named(fixed: list[str]) -> Iterator[None]:
    """Adds to a ModelError that a dimension was taken for a batch, which it need not be: steps of a sound, say."""
    try:
        yield
    except ModelError as error:
        if not fixed:
            raise
        raise ModelError(
            f"{error}. The first dimension of {', '.join(fixed)} is open, and was taken for a batch of 1: if it is not "
            "one, fix it with onnxruntime.tools.make_dynamic_shape_fixed"
        ) from error


def refuse_shapes(path: Path, model: Any) -> None:
    """Raises ModelError for inputs whose shape is not fixed."""
    constants = {init.name for init in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        if not value.type.tensor_type.HasField("shape"):
            what = value.type.WhichOneof("value").removesuffix("_type")
            raise ModelError(
                f"{path}: input {value.name!r} is a {what} without a shape; export the model with tensors of "
                "fixed shapes"
            )
        dims = value.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in dims)
        if any(not isinstance(d, int) or d <= 0 for d in shape):
            fixed = ",".join(str(d) if isinstance(d, int) and d > 0 else "N" for d in shape)
            way_out = (
                "export it again without dynamic_shapes"
                if path.suffix.lower() == ".pt2"
                else "fix it, for instance with onnxruntime.tools.make_dynamic_shape_fixed "
                f"--input_name {value.name} --input_shape {fixed}, a number for each N"
            )
            raise ModelError(f"{path}: input {value.name!r} has the dynamic shape {shape}; {way_out}")
