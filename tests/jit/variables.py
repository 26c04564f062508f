"""Models that keep resource variables, written with the schema's object API."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as s
from numpy.typing import NDArray

from tests.fuzz.tensors import Tensor


def keep(path: Path, variables: Mapping[str, tuple[Tensor, Tensor, NDArray[Any]]]) -> Path:
    """Rewrites a model: an input is read from a variable (by name), which at the end becomes a result; and its first
    value, which a second subgraph assigns once."""
    file = _File(s.ModelT.InitFromObj(s.Model.GetRootAs(path.read_bytes(), 0)))
    main, initial = file.model.subgraphs[0], file.subgraph("init")
    operators, main.operators = main.operators, []
    file.operator(main, "CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    handles = {name: file.handle(main, name) for name in variables}
    for name, (read, _, _) in variables.items():
        file.operator(main, "READ_VARIABLE", [handles[name]], [int(read.key)])
        main.inputs = [t for t in main.inputs if t != read.key]
    main.operators += operators
    for name, (read, written, value) in variables.items():
        file.operator(main, "ASSIGN_VARIABLE", [handles[name], int(written.key)], [])
        like = main.tensors[int(read.key)]
        first = file.tensor(initial, list(like.shape), like.type, like.quantization, value)
        file.operator(initial, "ASSIGN_VARIABLE", [file.handle(initial, name), first], [])
    return file.save(path)


def branches(path: Path) -> Path:
    """A model of a condition and a value: where it holds, the value is kept and given, else what was kept."""
    file = _File(s.ModelT())
    file.model.version, file.model.buffers, file.model.operatorCodes, file.model.subgraphs = 3, [s.BufferT()], [], []
    main, initial, kept, known = (file.subgraph(name) for name in ("main", "init", "kept", "known"))
    shape, kind, scale = [1, 4], s.TensorType.INT8, s.QuantizationParametersT()
    scale.scale, scale.zeroPoint = np.array([0.5], np.float32), np.zeros(1, np.int64)
    condition = file.tensor(main, [], s.TensorType.BOOL)
    x, y = (file.tensor(main, shape, kind, scale) for _ in range(2))
    file.operator(main, "CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    file.operator(main, "IF", [condition, x], [y], "IfOptions", thenSubgraphIndex=2, elseSubgraphIndex=3)
    main.inputs, main.outputs = [condition, x], [y]
    first = file.tensor(initial, shape, kind, value=np.full(shape, 9, np.int8))
    file.operator(initial, "ASSIGN_VARIABLE", [file.handle(initial, "v"), first], [])
    for subgraph in (kept, known):
        subgraph.inputs = [file.tensor(subgraph, shape, kind)]
    file.operator(kept, "ASSIGN_VARIABLE", [file.handle(kept, "v"), 0], [])
    kept.outputs = [0]
    handle = file.handle(known, "v")
    known.outputs = [file.tensor(known, shape, kind)]
    file.operator(known, "READ_VARIABLE", [handle], known.outputs)
    return file.save(path)


def around(path: Path, kind: str, handles: int) -> Path:
    """A model that keeps its float input, gives ``kind`` of it, and adds what it kept: by one handle or two."""
    file = _File(s.ModelT())
    file.model.version, file.model.buffers, file.model.operatorCodes, file.model.subgraphs = 3, [s.BufferT()], [], []
    main, numbers = file.subgraph("main"), s.QuantizationParametersT()
    numbers.scale, numbers.zeroPoint = np.array([0.5], np.float32), np.zeros(1, np.int64)
    given, result = (file.tensor(main, [1, 4], s.TensorType.INT8, numbers) for _ in range(2))
    x, y, kept, total = (file.tensor(main, [1, 4], s.TensorType.FLOAT32) for _ in range(4))
    file.operator(main, "RELU", [given], [result])
    first = file.handle(main, "v")
    file.operator(main, "ASSIGN_VARIABLE", [first, x], [])
    file.operator(main, kind, [x], [y])
    file.operator(main, "READ_VARIABLE", [first if handles == 1 else file.handle(main, "v")], [kept])
    file.operator(main, "ADD", [y, kept], [total], "AddOptions", fusedActivationFunction=0)
    main.inputs, main.outputs = [given, x], [result, total]
    return file.save(path)


class _File:
    def __init__(self, model: Any) -> None:
        self.model = model

    def subgraph(self, name: str) -> Any:
        made = s.SubGraphT()
        made.name, made.inputs, made.outputs, made.tensors, made.operators = name, [], [], [], []
        self.model.subgraphs.append(made)
        return made

    def tensor(
        self, subgraph: Any, shape: list[int], kind: int, quantisation: Any = None, value: NDArray[Any] | None = None
    ) -> int:
        made = s.TensorT()
        made.name, made.shape, made.type = f"{subgraph.name}{len(subgraph.tensors)}", shape, kind
        made.quantization, made.buffer = quantisation, 0
        if value is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(value.tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            made.buffer = len(self.model.buffers) - 1
        subgraph.tensors.append(made)
        return len(subgraph.tensors) - 1

    def operator(
        self, subgraph: Any, name: str, inputs: list[int], outputs: list[int], options: str = "", **fields: Any
    ) -> None:
        made = s.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self._code(name), inputs, outputs
        if options:
            made.builtinOptions = getattr(s, f"{options}T")()
            made.builtinOptionsType = getattr(s.BuiltinOptions, options)
            vars(made.builtinOptions).update(fields)
        subgraph.operators.append(made)

    def handle(self, subgraph: Any, name: str) -> int:
        """A handle of a variable."""
        made = self.tensor(subgraph, [], s.TensorType.RESOURCE)
        self.operator(subgraph, "VAR_HANDLE", [], [made], "VarHandleOptions", container="", sharedName=name)
        return made

    def save(self, path: Path) -> Path:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path

    def _code(self, name: str) -> int:
        code = s.OperatorCodeT()
        code.builtinCode, code.version = getattr(s.BuiltinOperator, name), 1
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1
