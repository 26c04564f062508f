"""``compile``: from a model file to an :class:`Executable`, through the cache."""

from __future__ import annotations

import dataclasses
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright import cache as artifact_cache
from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.files import read_bytes
from tilewright.progress import Progress, silent
from tilewright.runtime.artifact import Artifact, Intermediate, is_artifact
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.steps import InterpreterStep, LaunchStep, PackStep, Step, UnpackStep

if TYPE_CHECKING:
    from tilewright.jit.compiler import CompiledGraph
    from tilewright.jit.importer import ImportedModel


class CompileError(TilewrightError):
    """A model cannot be compiled as it was asked for; names the model and what is in the way."""


def compile(
    model: str | Path,
    config: str | Path | Config = "pynq-z2",
    *,
    device: str | Device = "sim",
    keep_intermediates: bool = False,
    fast_host: bool = False,
    proven_only: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Executable:
    """Compile a quantised ``.tflite`` or QDQ ``.onnx`` file for a Config (preset name, ``.toml`` file or object).

    ``keep_intermediates`` makes the programs store every operator's output, which costs cycles. ``fast_host`` lets the
    operators that stay on the host run in their interpreter's optimised kernels, whose integers may differ from the
    reference by an LSB. ``proven_only`` leaves layers to their interpreter whose integers are not proven to be its own
    for every input (``.onnx`` layers that ONNX Runtime computes in float32). With ``cache``, a result of the same
    model, Config, options and compiler is reused from memory or disk. ``progress`` is called with (what, done, total).
    Raises :class:`TilewrightError` naming what is wrong and the way out.
    """
    config = load_config(config)
    path = Path(model)
    data = read_bytes(path)
    if is_artifact(data):
        raise CompileError(f"{path}: is a compiled artifact, not a model; load it with tilewright.load")
    target = open_device(device, config) if isinstance(device, str) else device
    options = {"keep_intermediates": keep_intermediates, "fast_host": fast_host, "proven_only": proven_only}
    key = artifact_cache.cache_key(data, path.suffix, config, options)
    artifact = artifact_cache.lookup(key) if cache else None
    cached = artifact is not None
    if artifact is None:
        artifact = compile_artifact(path, config, progress=progress or silent, **options)
        if cache:
            artifact_cache.store(key, artifact)
    # two models of one content, or two configs that differ in name only, share an entry
    artifact = dataclasses.replace(artifact, name=path.stem, config=config)
    executable = Executable(artifact, target, verified=not cached)
    executable.cached = cached
    return executable


def compile_artifact(
    path: Path,
    config: Config,
    *,
    keep_intermediates: bool = False,
    fast_host: bool = False,
    proven_only: bool = False,
    progress: Progress = silent,
) -> Artifact:
    """Import and compile a model file, without the cache."""
    if find_spec("flatbuffers") is None:
        raise CompileError(f"{path}: compiling needs the compiler's packages: pip install 'tilewright[compile]'")
    from tilewright.jit.network import compile_source
    from tilewright.jit.source import open_source

    start = time.perf_counter()
    progress("importing", 0, 0)
    source = open_source(path, proven_only=proven_only)
    result = compile_source(
        source, config, keep_intermediates=keep_intermediates, fast_host=fast_host, progress=progress
    )
    compiled, graph = result.compiled, result.compiled.graph
    return Artifact(
        name=graph.name,
        config=config,
        programs=tuple(compiled.programs),
        steps=tuple(compiled.steps),
        inputs=tuple(result.model.inputs),
        outputs=tuple(result.model.outputs),
        intermediates=_intermediates(result.model, compiled) if keep_intermediates else (),
        blobs=compiled.blobs,
        host_layers=compiled.host_layers,
        compile_seconds=time.perf_counter() - start,
        options={
            "keep_intermediates": keep_intermediates, "fast_host": fast_host, "proven_only": proven_only,
            "operators": result.operators(), "moved": result.moved, "rejected": compiled.rejected,
        },
    )  # fmt: skip


def _intermediates(model: ImportedModel, compiled: CompiledGraph) -> tuple[Intermediate, ...]:
    """The outputs of the model file's operators that the steps produce.

    An operator that the importer made part of another (a reshape) shares the tensor that holds its values.
    """
    produced = {name for step in compiled.steps for name in _outputs_of(step)}
    found = []
    for operator, name in model.sources.items():
        if name in produced:
            found.append(Intermediate(operator, compiled.graph.tensors[name]))
    return tuple(found)


def _outputs_of(step: Step) -> tuple[str, ...]:
    if isinstance(step, UnpackStep):
        return (step.tensor,)
    if isinstance(step, InterpreterStep):
        return step.outputs
    return () if isinstance(step, (LaunchStep, PackStep)) else (getattr(step, "output", ""),)
