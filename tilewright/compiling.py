"""``compile``: from a model file to an :class:`Executable`, through the cache."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright import cache as artifact_cache
from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.runtime.artifact import Artifact, Intermediate, is_artifact
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.files import read_bytes
from tilewright.runtime.steps import (
    DequantizeStep,
    LaunchStep,
    QuantizeStep,
    ReshapeStep,
    Step,
    TensorIo,
    TransposeStep,
    UnpackStep,
)

if TYPE_CHECKING:
    from tilewright.jit.compiler import CompiledGraph
    from tilewright.jit.frontend.edges import EdgeSpec
    from tilewright.jit.importer import ImportedModel

Progress = Callable[[str, int, int], None]  #: called with (what, done, total)


class CompileError(TilewrightError):
    """A model cannot be compiled as it was asked for; names the model and what is in the way."""


def compile(
    model: str | Path,
    config: str | Path | Config = "pynq-z2",
    *,
    device: str | Device = "sim",
    keep_intermediates: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Executable:
    """Compile a quantised ``.tflite`` or QDQ ``.onnx`` file for a Config (preset name, ``.toml`` file or object).

    ``keep_intermediates`` makes the programs store every operator's output, which costs cycles. With ``cache``,
    a result of the same model, Config, options and compiler is reused from memory or disk. ``progress`` is called
    with (what, done, total). Raises :class:`TilewrightError` naming what is wrong and the way out.
    """
    config = load_config(config)
    path = Path(model)
    data = read_bytes(path)
    if is_artifact(data):
        raise CompileError(f"{path}: is a compiled artifact, not a model; load it with tilewright.load")
    target = open_device(device, config) if isinstance(device, str) else device
    options = {"keep_intermediates": keep_intermediates}
    key = artifact_cache.cache_key(data, path.suffix, config, options)
    artifact = artifact_cache.lookup(key) if cache else None
    cached = artifact is not None
    if artifact is None:
        artifact = compile_artifact(path, config, keep_intermediates=keep_intermediates, progress=progress)
        if cache:
            artifact_cache.store(key, artifact)
    # two models of one content, or two configs that differ in name only, share an entry
    artifact = dataclasses.replace(artifact, name=path.stem, config=config)
    executable = Executable(artifact, target, verified=not cached)
    executable.cached = cached
    return executable


def compile_artifact(
    path: Path, config: Config, *, keep_intermediates: bool = False, progress: Progress | None = None
) -> Artifact:
    """Import and compile a model file, without the cache."""
    if find_spec("tvm") is None:
        raise CompileError(f"{path}: compiling needs TVM, which is not installed: pip install 'tilewright[compile]'")
    from tilewright.jit.compiler import compile_graph
    from tilewright.jit.importer import import_model
    from tilewright.jit.kernels.base import PlaceError

    start = time.perf_counter()
    if progress is not None:
        progress("importing", 0, 0)
    model = import_model(path)
    compiled = None
    if model.graph is not None:
        try:
            compiled = compile_graph(model.graph, config, keep_intermediates=keep_intermediates, progress=progress)
        except PlaceError:
            model = import_model(path, config)  # once more, with what this config cannot hold left to the CPU
            if not model.host_ops:
                raise
    if compiled is None:
        from tilewright.compiling_mixed import compile_mixed

        if keep_intermediates:
            names = ", ".join(name for name, _ in model.host_ops[:3])
            raise CompileError(f"{path}: intermediates need a model all on the accelerator; {names} run on the CPU")
        artifact = compile_mixed(model, config, progress)
        return dataclasses.replace(artifact, compile_seconds=time.perf_counter() - start)
    return build_artifact(model, compiled, time.perf_counter() - start, keep_intermediates)


def build_artifact(model: ImportedModel, compiled: CompiledGraph, seconds: float, keep_intermediates: bool) -> Artifact:
    """The artifact of a compiled graph, with the steps at its edges: float quantisation and axis order."""
    graph = compiled.graph
    before = [step for edge in model.inputs for step in _input_steps(edge, graph.tensors[edge.tensor].dtype)]
    after = [step for edge in model.outputs for step in _output_steps(edge)]
    steps: list[Step] = [*before, *compiled.steps, *after]
    programs = tuple(compiled.programs)
    return Artifact(
        name=graph.name,
        config=compiled.config,
        programs=programs,
        steps=tuple(steps),
        inputs=tuple(_tensor(edge) for edge in model.inputs),
        outputs=tuple(_tensor(edge) for edge in model.outputs),
        intermediates=_intermediates(model, compiled) if keep_intermediates else (),
        host_layers=compiled.host_layers,
        compile_seconds=seconds,
        options={"keep_intermediates": keep_intermediates},
    )


def _tensor(edge: EdgeSpec) -> TensorIo:
    return TensorIo(edge.name, edge.shape, edge.dtype, edge.scale, edge.zero_point)


def _is_identity(permutation: tuple[int, ...]) -> bool:
    return permutation == tuple(range(len(permutation)))


def _input_steps(edge: EdgeSpec, dtype: str) -> list[Step]:
    """From the user's tensor to the graph's."""
    steps: list[Step] = []
    name = edge.name
    if edge.dtype == "float32":
        steps.append(QuantizeStep(name, edge.tensor, edge.scale, edge.zero_point, dtype))
        name = edge.tensor
    if not _is_identity(edge.permutation):
        steps.append(TransposeStep(name, edge.tensor, edge.permutation))
        name = edge.tensor
    if name != edge.tensor:
        steps.append(ReshapeStep(name, edge.tensor, edge.shape))
    return steps


def _output_steps(edge: EdgeSpec) -> list[Step]:
    """From the graph's tensor to the user's."""
    steps: list[Step] = []
    name = edge.tensor
    if not _is_identity(edge.permutation):
        inverse = tuple(edge.permutation.index(axis) for axis in range(len(edge.permutation)))
        steps.append(TransposeStep(name, edge.name, inverse))
        name = edge.name
    if edge.dtype == "float32":
        steps.append(DequantizeStep(name, edge.name, edge.scale, edge.zero_point))
        name = edge.name
    if name != edge.name:
        steps.append(ReshapeStep(name, edge.name, edge.shape))
    return steps


def _intermediates(model: ImportedModel, compiled: CompiledGraph) -> tuple[Intermediate, ...]:
    """The outputs of the model file's operators that the steps produce.

    An operator that the importer made part of another (a reshape) shares the tensor that holds its values.
    """
    produced = {_output_of(step) for step in compiled.steps}
    sources = model.sources or {op.name: op.output for op in compiled.graph.ops}
    found = []
    for operator, name in sources.items():
        if name in produced:
            spec = compiled.graph.tensors[name]
            tensor = TensorIo(name, spec.shape, spec.dtype, spec.scale, spec.zero_point)
            found.append(Intermediate(operator, tensor))
    return tuple(found)


def _output_of(step: Step) -> Any:
    if isinstance(step, UnpackStep):
        return step.tensor
    return None if isinstance(step, LaunchStep) else getattr(step, "output", None)
