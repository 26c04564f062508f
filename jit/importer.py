"""``import_model``: a model file as Relax, partitioned Relax and, where everything was claimed, one integer graph."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.jit import compat
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.frontend import load_model
from tilewright.jit.frontend.edges import EdgeSpec, peel
from tilewright.jit.frontend.extract import Extraction
from tilewright.jit.graph import Graph
from tilewright.jit.partition import extract_main, fuse, merge

_FROM_FILE = re.compile(r"op\d+_")


@dataclass
class ImportedModel:
    """What became of a model file.

    ``graph`` is the whole model, or None where ``host_ops`` is not empty: then the regions of ``partitioned`` are
    what Tilewright computes, and the rest stays in Relax. ``sources`` maps the file's operators (``op003_ADD``) to
    the graph tensors that hold their results.
    """

    path: Path
    module: Any  #: the tvm.IRModule as imported
    partitioned: Any  #: after partition_for_tilewright
    graph: Graph | None
    host_ops: list[tuple[str, str]]  #: (operator, reason) for each that no pattern claims
    inputs: list[EdgeSpec] = field(default_factory=list)  #: empty without a graph
    outputs: list[EdgeSpec] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    exactness: list[LayerExactness] = field(default_factory=list)


def import_model(path: str | Path, config: Config | None = None) -> ImportedModel:
    """Imports a quantised ``.tflite`` or QDQ ``.onnx`` file; raises ModelError where that is impossible.

    With a ``config``, operators that its memories cannot hold are left to the CPU.
    """
    path = Path(path)
    module = load_model(path)
    reasons: dict[str, str] = {}
    fused = fuse(module, reasons, config)
    host_ops = unclaimed(fused, reasons)
    model = ImportedModel(path, module, merge(fused), None, host_ops)
    if not host_ops:
        edges = peel(fused["main"])
        try:
            extraction = extract_main(fused, path.stem, edges)
        except Unsupported as error:
            raise ModelError(f"{path}: {error}; export the model again without it") from error
        model.graph = extraction.graph
        model.sources, model.exactness = extraction.sources, extraction.exactness
        model.inputs, model.outputs = _specs(edges, extraction, compat.output_names(module))
    return model


def _specs(edges: Any, extraction: Extraction, names: list[str]) -> tuple[list[EdgeSpec], list[EdgeSpec]]:
    graph = extraction.graph

    def spec(edge: Any, tensor: str, name: str) -> EdgeSpec:
        held = graph.tensors[tensor]
        return EdgeSpec(
            name,
            tensor,
            compat.shape(edge.outer),
            compat.dtype(edge.outer),
            held.scale,
            held.zero_point,
            edge.permutation,
        )

    inputs = [spec(e, t, str(e.outer.name)) for e, t in zip(edges.inputs, graph.inputs, strict=True)]
    labels = names or graph.outputs
    outputs = [spec(e, t, n) for e, t, n in zip(edges.outputs, graph.outputs, labels, strict=True)]
    return inputs, outputs


def unclaimed(fused: Any, reasons: dict[str, str]) -> list[tuple[str, str]]:
    """(operator, reason) of every operator that stayed in ``main``, dequantise and quantise helpers left out."""
    main = fused["main"]
    skip = peel(main).skip
    named = any(_FROM_FILE.match(b.name) for b in compat.bindings(main))
    out: dict[str, str] = {}
    for binding in compat.bindings(main):
        name = compat.op_name(binding.value)
        if not name or binding.var in skip or (named and not _FROM_FILE.match(binding.name)):
            continue  # nothing of the file's own: a step within an operator, or a transpose of ours
        reason = reasons.get(binding.name, "")
        if name in ("relax.dequantize", "relax.quantize"):
            operand = compat.arguments(binding.value)[0]
            if reason and compat.is_var(operand) and str(operand.name) in out:
                out[str(operand.name)] = reason  # a match ends in quantize; what it could not take is what feeds it
            elif reason:
                out[binding.name] = reason
            continue
        out[binding.name] = reason or f"no pattern claims {name.removeprefix('relax.')} in this form"
    return list(out.items())
