"""A file's graph as ONNX Runtime prepares it: what its kernels are really called with.

ONNX Runtime fuses some quantised patterns into integer kernels and leaves others in float32; it turns int8 tensors
into uint8 ones, merges adjacent requantisations, quantises float biases. Which of these it does decides about the
last bit, so nothing of it is guessed: its own optimiser (the extended level, which holds for every machine) is run on
the file, and everything else here works on the graph that it gives. Nodes carry the positions of the file's nodes
through it in their names.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.source.onnx import averages, folded, foreign
from tilewright.jit.source.onnx.bodies import rename_hidden
from tilewright.jit.source.sizes import refuse_huge
from tilewright.model_files import subgraphs
from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import InterpreterError

_POSITION = re.compile(r"#(\d+)")
_PREFACE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (This is an invalid model\. )?(Error: )?")
_AT_NODE = re.compile(r'^In Node, \("(.*?)", (.*?), .*, Error ')
_ON_ZEROS = " on inputs of zeros, which tell the shapes of its tensors"
_CONSTANT_SHAPES = "export it again with constants for what decides shapes"
_OPTIMISED = " after its own optimiser, only without that"
_Level = Literal["disabled", "extended", "all"]


@dataclass(frozen=True)
class Node:
    """A node of the prepared graph; ``origin`` are the positions in the file that it stands for.

    ``inputs``: names, "" where left out; ``captured``: tensors that its subgraphs read from around it.
    """

    index: int
    kind: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    origin: tuple[int, ...]
    proto: Any = field(repr=False)

    @property
    def reads(self) -> tuple[str, ...]:
        """Everything it reads, once each."""
        return tuple(dict.fromkeys(t for t in (*self.inputs, *self.captured) if t))

    @property
    def makes(self) -> tuple[str, ...]:
        """The outputs that it gives."""
        return tuple(t for t in self.outputs if t)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, as Python has it."""
        from onnx import helper

        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default


class Prepared:
    """The graph that ONNX Runtime runs for a model, with the shape and type of every tensor in it."""

    def __init__(self, path: Path, model: Any) -> None:
        self.path = path
        self.file = marked(model)
        self.model = optimised(path, self.file, "extended")
        if fixed := folded.foldable(self.model):
            folded.replace(self.model, fixed, run_once(path, folded.part(self.model, fixed), {}))
        graph = self.model.graph
        self._initializers = {tensor.name: tensor for tensor in graph.initializer}
        self._arrays: dict[str, NDArray[Any]] = {}
        self.constants = set(self._initializers) | {t.values.name for t in graph.sparse_initializer}
        self.inputs = [v.name for v in graph.input if v.name not in self.constants]
        self.outputs = [v.name for v in graph.output]
        self.nodes = [parse_node(index, proto) for index, proto in enumerate(graph.node)]
        self.producers = {t: node for node in self.nodes for t in node.makes}
        self.readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for tensor in node.reads:
                self.readers.setdefault(tensor, []).append(node)
        self.types = self._types()

    def _types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        try:
            return tensor_types(self.path, self.model)
        except ModelError as error:
            if not isinstance(error.__cause__, Exception) or not _runs(self.path, self.file):
                raise
            blocks = any(a.name == "block_size" and a.i for node in self.file.graph.node for a in node.attribute)
            way_out = (
                "quantise its weights with one scale a channel, not in blocks"
                if blocks
                else "export it again, or update onnxruntime"
            )
            raise refused(self.path, error.__cause__, _OPTIMISED, way_out) from error

    def array(self, name: str) -> NDArray[Any]:
        """The value of a constant; raises Unsupported where the tensor is none."""
        if name not in self._arrays:
            if name not in self._initializers:
                raise Unsupported("a value that is not constant")
            from onnx import numpy_helper

            self._arrays[name] = numpy_helper.to_array(self._initializers[name])
        return self._arrays[name]

    def initializer(self, name: str) -> Any:
        """The protobuf of a constant, None for other tensors."""
        return self._initializers.get(name)

    def is_eight_bit(self, name: str) -> bool:
        """Whether a tensor is a computed or given one of int8 or uint8."""
        return name not in self.constants and self.types[name][0] in ("int8", "uint8")


def tensor_types(path: Path, model: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """(type, shape) of every tensor that is no constant: found by running the graph once, on zeros.

    Raises ModelError, also for what only other numbers than zeros have a shape for.
    """
    types = computed_types(path, model, [t for node in model.graph.node for t in node.output if t])
    for name in (v.name for v in model.graph.output if v.name in types):
        if foreign.is_foreign(types[name][0]) and types[name][0] not in foreign.GIVEN:
            raise ModelError(
                f"{path}: output {name!r} is of type {types[name][0]}, which NumPy has not; end the model with a "
                "DequantizeLinear or a Cast"
            )
    return types


def computed_types(path: Path, model: Any, made: list[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """(type, shape) of the inputs and of these tensors, which nodes of the graph make: found as :func:`tensor_types`
    says. Raises ModelError."""
    import onnx

    constants = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    types = {v.name: _declared(path, v) for v in model.graph.input if v.name not in constants}
    refuse_huge(path, ((name, shape) for name, (_, shape) in types.items()))
    for name, (dtype, _) in types.items():
        if made and foreign.is_foreign(dtype):
            raise ModelError(f"{path}: input {name!r} is of type {dtype}, which NumPy has not; make it float32 or int8")
    if not made:
        return types
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    values = run_once(path, probe, {name: np.zeros(shape, dtype) for name, (dtype, shape) in types.items()})
    for name, value in zip(made, values, strict=True):
        types[name] = (value.dtype.name, value.shape) if isinstance(value, np.ndarray) else ("object", ())
    return types


def _runs(path: Path, model: Any) -> bool:
    """Whether ONNX Runtime runs a model on zeros as it is, without its optimiser."""
    try:
        computed_types(path, model, [v.name for v in model.graph.output])
    except ModelError:
        return False
    return True


def run_once(path: Path, model: Any, inputs: dict[str, NDArray[Any]]) -> list[Any]:
    """All outputs of a model that is not optimised any further; of types that NumPy lacks, as ml_dtypes has them.

    Raises ModelError.
    """
    try:
        session = _session(model.SerializeToString(), "disabled")
        averages.refuse_empty(path, model, session, lambda body: _session(body.SerializeToString(), "disabled"))
        if kinds := foreign.results(session):
            session = _session(foreign.as_float(model, kinds).SerializeToString(), "disabled")
        values = dict(zip([v.name for v in model.graph.output], session.run(None, inputs), strict=True))
        return [value.astype(kinds[name]) if name in kinds else value for name, value in values.items()]
    except ModelError:
        raise
    except Exception as error:  # ONNX Runtime's errors have no common public base
        when = (_ON_ZEROS, _CONSTANT_SHAPES) if inputs else ()
        raise refused(path, error, *when) from error


def optimised(path: Path, model: Any, level: _Level) -> Any:
    """The model after ONNX Runtime's optimiser. "all" chooses layouts too, by the machine that it runs on.

    Raises ModelError.
    """
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "prepared.onnx"
        try:
            _session(model.SerializeToString(), level, target)
            made = onnx.load(str(target))
        except InterpreterError as error:
            raise ModelError(f"{path}: {error}") from error
        except Exception as error:  # ONNX Runtime's errors have no common public base
            raise refused(path, error) from error
    rename_hidden(made)
    return made


def positions(name: str) -> tuple[int, ...]:
    """The positions in the file that an optimised node's name tells of."""
    return tuple(dict.fromkeys(int(p) for p in _POSITION.findall(name)))


def marked(model: Any) -> Any:
    """The model, each node named after its position in the file."""
    import onnx

    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    for position, node in enumerate(marked.graph.node):
        node.name = f"#{position}"
    return marked


def _session(content: bytes, level: _Level, target: Path | None = None) -> Any:
    if not interpreters.is_installed("onnxruntime"):
        raise InterpreterError("reading .onnx files needs onnxruntime, which is not installed: pip install onnxruntime")
    import onnxruntime

    kinds = onnxruntime.GraphOptimizationLevel
    levels = {"disabled": kinds.ORT_DISABLE_ALL, "extended": kinds.ORT_ENABLE_EXTENDED, "all": kinds.ORT_ENABLE_ALL}

    def options(relaxed: bool) -> Any:
        made = interpreters.onnxruntime_options(relaxed)
        made.add_session_config_entry("session.disable_prepacking", "1")
        made.graph_optimization_level = levels[level]
        if target is not None:
            made.optimized_model_filepath = str(target)
        return made

    return interpreters.onnxruntime_session(content, options)


def refused(path: Path, error: Exception, when: str = "", way_out: str = "export it again") -> ModelError:
    """What is said of a model that ONNX Runtime refuses, in its words, with the operator named as elsewhere.

    ``when``: on which inputs, or in which form; ``way_out``: what the user can do.
    """
    said = _PREFACE.sub("", interpreters.first_line(error)).rstrip(".")
    said = _AT_NODE.sub(r"\1 (\2): ", said)
    said = _POSITION.sub(lambda found: f"op{int(found[1]):03d}", said)
    return ModelError(f"{path}: onnxruntime cannot run it{when}: {said}; {way_out}")


def _declared(path: Path, value: Any) -> tuple[str, tuple[int, ...]]:
    from onnx import helper

    tensor = value.type.tensor_type
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name if tensor.elem_type else "object"
    except KeyError as error:
        raise ModelError(
            f"{path}: input {value.name!r} has elements of type {tensor.elem_type}, which ONNX has not; export it again"
        ) from error
    return dtype, tuple(int(d.dim_value) for d in tensor.shape.dim)


def parse_node(index: int, proto: Any) -> Node:
    """A node of the protobuf at a position in its graph."""
    captured = tuple(dict.fromkeys(t for a in proto.attribute for g in subgraphs(a) for t in _free(g)))
    names, origin = (tuple(proto.input), tuple(proto.output)), positions(proto.name)
    return Node(index, proto.op_type, proto.domain, *names, captured, origin, proto)


def _free(graph: Any) -> list[str]:
    """Tensors that a subgraph reads without making them."""
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    found: list[str] = []
    for node in graph.node:
        inner = [t for a in node.attribute for g in subgraphs(a) for t in _free(g)]
        found += [t for t in (*node.input, *inner) if t and t not in known]
        known |= set(node.output)
    return found + [v.name for v in graph.output if v.name not in known]
