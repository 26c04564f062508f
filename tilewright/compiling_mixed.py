"""Networks with operators that have no exact integer lowering: these run on the CPU through TVM.

The result is an artifact of one :class:`TvmStep`: a library with the CPU parts, which calls ``tilewright.run`` with
the artifact of each accelerator part. The report lists the CPU operators, each with the reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.runtime.artifact import Artifact, accelerator_layers
from tilewright.runtime.steps import TensorIo, TvmStep

if TYPE_CHECKING:
    from tilewright.jit.graph import Graph
    from tilewright.jit.importer import ImportedModel

LIBRARY = "cpu.so"  #: the blob that holds the exported library

Progress = Callable[[str, int, int], None]


class MixedError(TilewrightError):
    """A model that is partly on the CPU cannot be compiled; names the operators in the way."""


def compile_mixed(model: ImportedModel, config: Config, progress: Progress | None = None) -> Artifact:
    """The artifact of a model that is partly on the CPU. Raises :class:`MixedError` if all of it would be."""
    from tvm import relax

    from tilewright.jit import compat
    from tilewright.jit.partition import regions
    from tilewright.jit.region import compile_region
    from tilewright.jit.vm import compile_regions

    if not regions(model.partitioned):
        name, reason = model.host_ops[0]
        raise MixedError(f"{model.path}: no operator can run on the accelerator; the first, {name}: {reason}")
    main = model.module["main"]
    results = _results(compat.result(main))
    names = compat.output_names(model.module) or [f"output{k}" for k in range(len(results))]
    inputs = tuple(TensorIo(str(v.name), compat.shape(v), compat.dtype(v)) for v in main.params)
    outputs = tuple(TensorIo(n, compat.shape(v), compat.dtype(v)) for n, v in zip(names, results, strict=True))
    parts: list[Artifact] = []

    def compile_part(graph: Graph, part_config: Config) -> bytes:
        parts.append(compile_region(graph, part_config, progress))
        return parts[-1].to_bytes()

    compiled = compile_regions(model.partitioned, config, compile_part)
    operators = tuple(name for name, _ in model.host_ops)
    step = TvmStep(tuple(t.name for t in inputs), tuple(t.name for t in outputs), LIBRARY, operators=operators)
    return Artifact(
        name=model.path.stem,
        config=config,
        programs=(),
        steps=(step,),
        inputs=inputs,
        outputs=outputs,
        blobs={LIBRARY: _export(relax.build(compiled, "llvm"))},
        host_layers=tuple(
            {"name": name, "op": name.split("_", 1)[-1], "place": "host", "reason": reason}
            for name, reason in model.host_ops
        ),
        options={"accelerator_layers": [layer for part in parts for layer in accelerator_layers(part)]},
    )


def _results(expr: Any) -> list[Any]:
    """What a function returns, as things with a type: its fields where it is a tuple."""
    fields = getattr(expr.ty, "fields", None)
    return [expr] if fields is None else [SimpleNamespace(ty=ty) for ty in fields]


def _export(executable: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / LIBRARY
        executable.export_library(str(path))
        return path.read_bytes()
