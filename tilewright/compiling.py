"""``compile``: from a model file to an :class:`Executable`, through the cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from tilewright import cache as artifact_cache
from tilewright.config import DEFAULT_CONFIG, Config, load_config
from tilewright.errors import TilewrightError
from tilewright.files import is_special, name_of, read_bytes
from tilewright.kinds import function, shown
from tilewright.model_files import model_digest
from tilewright.progress import Progress, silent
from tilewright.ranges import flag, whole
from tilewright.runtime.artifact import Artifact, Intermediate, is_artifact
from tilewright.runtime.device import Device
from tilewright.runtime.executable import Executable, opened
from tilewright.runtime.folding import folded
from tilewright.runtime.records import EXACT, MOST_JOBS, OBJECTIVES, Exact, Objective
from tilewright.runtime.steps import InterpreterStep, LaunchStep, PackStep, Step, UnpackStep

if TYPE_CHECKING:
    from tilewright.jit.compiler import CompiledGraph
    from tilewright.jit.importer import ImportedModel
    from tilewright.jit.network import CompiledModel
    from tilewright.jit.place.energy import Power
    from tilewright.jit.source import Source


class CompileError(TilewrightError):
    """A model cannot be compiled as it was asked for; names the model and what is in the way."""


class Named(TypedDict, total=False):
    """What :func:`compile` takes by name alone, whatever it compiles."""

    device: str | Device
    keep_intermediates: bool
    fast_host: bool
    exact: Exact
    compare: bool
    objective: str | None
    jobs: int
    host_watts: float | None
    host_idle_watts: float | None
    energy_table: str | Path | None
    cache: bool
    progress: Progress | None


@dataclass(frozen=True)
class Options:
    """What of it an artifact depends on and keeps. Raises :class:`CompileError` for what an option cannot be."""

    keep_intermediates: bool = False
    fast_host: bool = False
    exact: Exact = "default"
    compare: bool = True
    objective: Objective | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        for name in ("keep_intermediates", "fast_host", "compare"):
            flag(name, getattr(self, name), error=CompileError)
        chosen = {"exact": (self.exact, EXACT), "objective": (self.objective, (None, *OBJECTIVES))}
        for name, (value, known) in chosen.items():
            if not (value is None or isinstance(value, str)) or value not in known:
                raise CompileError(f"{name} {shown(value)}: must be one of {', '.join(filter(None, known))}")
        whole("jobs", self.jobs, 1, MOST_JOBS, of="threads of the CPU", error=CompileError)

    def keyed(self, config: Config, device: Device, power: Power | None) -> dict[str, Any]:
        """For the cache: these, and what placement goes by besides the model, the Config's shapes and the compiler.

        The CPU's times are in cycles of the clock, cores may share a part, and all share the DRAM.
        """
        found = asdict(self)
        if self.objective is None:
            del found["jobs"]  # nothing is placed: they are the device's
        else:
            chosen_by = ("clock_mhz", "cores", "dram_bandwidth")
            found |= {name: getattr(config, name) for name in chosen_by} | {"shares": device.shares}
        if power is not None:
            found |= {"watts": (power.host, power.idle), "energy_table": power.table.text}
        return found


@overload
def compile(model: str | Path, config: str | Path | Config = DEFAULT_CONFIG, **named: Unpack[Named]) -> Executable: ...


@overload
def compile(
    model: Any, example: Any = None, config: str | Path | Config = DEFAULT_CONFIG, **named: Unpack[Named]
) -> Executable: ...


def compile(
    model: Any,
    *arguments: Any,
    config: str | Path | Config | None = None,
    example: Any = None,
    device: str | Device = "sim",
    keep_intermediates: bool = False,
    fast_host: bool = False,
    exact: Exact = "default",
    compare: bool = True,
    objective: str | None = None,
    jobs: int = 1,
    host_watts: float | None = None,
    host_idle_watts: float | None = None,
    energy_table: str | Path | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> Executable:
    """Compile a network for a Config: ``compile(file, config)`` or ``compile(torch_module, example, config)``.

    :param model: a quantised ``.tflite``, QDQ ``.onnx`` or ``.pt2`` file (``torch.export``, quantised by PT2E), or a
        ``torch.nn.Module``.
    :param example: of a module, N inputs stacked: their ranges quantise it, unless PT2E has quantised it already.
    :param config: a preset's name, a ``.toml`` file or a :class:`Config`; ``pynq-z2`` where it is left out.
    :param device: what :meth:`Executable.run` runs it on: a name or an opened device.
    :param keep_intermediates: store every operator's output, which costs cycles.
    :param fast_host: run fallback operators in the interpreter's optimised kernels. Their integers may differ from the
        reference by an LSB.
    :param exact: which layers of ``.onnx`` fall back to ONNX Runtime: with ``proven`` those that are not proven equal
        for every input, with ``default`` those that are known or measured to differ, with ``close`` none for this
        reason.
    :param compare: run the result beside the whole file's interpreter on up to eight inputs. An operator that makes it
        differ falls back, with a warning (:class:`~tilewright.agreement.Misread`).
    :param objective: place operators on accelerator and CPU by what they cost on this machine (``docs/placement.md``):
        ``latency`` of one inference, ``throughput`` or ``energy``. Without it the accelerator gets all that it takes.
    :param jobs: threads of the CPU for ``throughput``.
    :param host_watts: for ``energy``, which needs it: what this CPU takes while one thread works, in watts.
    :param host_idle_watts: for ``energy``: what it takes while it waits for a core, in watts (0).
    :param energy_table: for ``energy``: a TOML file with energies per action of your own.
    :param cache: reuse a result of the same model, Config, options and compiler from memory or disk.
    :param progress: called with (what is being done, steps done, of how many).
    :raises TilewrightError: naming what is wrong and the way out.
    """
    is_file = isinstance(model, (str, Path))
    if is_file and example is not None:
        raise CompileError(f"{model}: example: is for a PyTorch module; a quantised file has its ranges, leave it out")
    example, config = _bound(arguments, {} if is_file else {"example": example}, config)
    config = load_config(config)
    function("progress", progress, error=CompileError)
    options = Options(keep_intermediates, fast_host, exact, compare, objective, jobs)  # type: ignore[arg-type]
    flag("cache", cache, error=CompileError)
    target = opened(device, config)
    path, content = (Path(model), None) if is_file else _exported(model, example, progress or silent)
    if content is None and (path.is_dir() or is_special(path)):
        _refuse_no_file(path)
    data = read_bytes(path) if content is None else content
    if is_artifact(data):
        raise CompileError(f"{path}: is a compiled artifact, not a model; load it with tilewright.load")
    power = None
    if objective == "energy" or any(option is not None for option in (host_watts, host_idle_watts, energy_table)):
        _check_compiler(path)
        from tilewright.jit.place.energy import power_of

        power = power_of(objective, host_watts, host_idle_watts, energy_table)
    keyed = options.keyed(config, target, power)
    digest = model_digest(path, data)
    key = artifact_cache.cache_key(digest, path.suffix, config, keyed)
    artifact = artifact_cache.lookup(key) if cache else None
    cached = artifact is not None
    if artifact is None:
        artifact = compile_artifact(path, config, options, content, progress or silent, target.shares, power)
        if content is None and model_digest(path, read_bytes(path)) != digest:  # or kept as what it is not
            raise CompileError(f"{path}: changed while it was compiled; compile it again")
        if cache:
            artifact_cache.store(key, artifact)
    # two models of one content, or two configs that differ in name only, share an entry
    # which model it was, so that --check of an artifact finds it
    known = {"model_suffix": _suffix(path), "model_sha256": digest}
    artifact = replace(artifact, name=name_of(path), config=config, options=artifact.options | known)
    executable = Executable(artifact, target, verified=not cached)
    executable.cached = cached
    return executable


def _bound(arguments: tuple[Any, ...], named: dict[str, Any], config: Any) -> tuple[Any, Any]:
    """(example, config) of what was given by position, after the model, and by name."""
    names = [*named, "config"]
    given = dict(zip(names, arguments))
    twice = [name for name, value in {**named, "config": config}.items() if value is not None and name in given]
    if len(arguments) > len(names) or twice:
        raise TypeError(f"compile takes {' and '.join(names)} after the model, each once")
    found = {**named, "config": config, **given}
    return found.get("example"), DEFAULT_CONFIG if found["config"] is None else found["config"]


def _suffix(path: Path) -> str:
    """The kind of a model file by its name; empty for one by another name than its kind has."""
    return path.suffix if path.suffix in (".tflite", ".onnx", ".pt2") else ""


def _exported(module: Any, example: Any, progress: Progress) -> tuple[Path, bytes]:
    """A PyTorch module as a file would hold it: its name and its content as ONNX."""
    from tilewright.from_torch import module_to_onnx

    progress("exporting", 0, 0)
    return Path(f"{type(module).__name__}.onnx"), module_to_onnx(module, example)


def _refuse_no_file(path: Path) -> None:
    from tilewright.jit.source.kinds import check_model_file

    check_model_file(path)


def _check_compiler(path: Path) -> None:
    if find_spec("flatbuffers") is None:
        raise CompileError(f"{path}: compiling needs the compiler's packages: pip install 'tilewright[compile]'")


def compile_artifact(
    path: Path,
    config: Config,
    options: Options,
    content: bytes | None = None,
    progress: Progress = silent,
    shares: bool = False,
    power: Power | None = None,
) -> Artifact:
    """Import and compile a model file, without the cache; ``content``: as ONNX, where there is no file; ``shares``:
    programs on cores of the device can share memory; ``power``: for objective energy."""
    _check_compiler(path)
    from tilewright.agreement import agreed
    from tilewright.jit.network import compile_source
    from tilewright.jit.place.problem import PlacementError
    from tilewright.jit.source import open_source

    start = time.perf_counter()
    progress("importing", 0, 0)
    source = open_source(path, content, exact=options.exact)
    result, unplaced = None, ""
    if options.objective is not None:
        try:
            result = _placed(source, config, options, progress, shares, power)
        except PlacementError as refusal:
            if options.objective != "throughput":
                raise
            unplaced = str(refusal)  # but what inferences in flight give is worth having

    def made(left: Mapping[int, str], exact: Exact) -> Artifact:
        opened = source if exact == options.exact else open_source(path, content, exact=exact)
        found = compile_source(
            opened, config, keep_intermediates=options.keep_intermediates, fast_host=options.fast_host,
            progress=progress, left=left,
        )  # fmt: skip
        placed = "some operators were computed otherwise than by the file's interpreter" if options.objective else ""
        return _artifact(found, options, placed)

    if result is None:
        result = compile_source(
            source, config, keep_intermediates=options.keep_intermediates, fast_host=options.fast_host,
            progress=progress,
        )  # fmt: skip
    artifact = _artifact(result, options, unplaced)
    if options.compare:
        elements = sum(tensor.form.elements for tensor in result.compiled.graph.tensors.values())
        artifact = agreed(artifact, source, elements, made, progress)
    return replace(artifact, compile_seconds=time.perf_counter() - start)


def _artifact(result: CompiledModel, options: Options, unplaced: str) -> Artifact:
    """What a file was compiled to; ``unplaced``: why it has no placement, where one was asked for."""
    compiled, source = result.compiled, result.model.source
    intermediates = _intermediates(result.model, compiled) if options.keep_intermediates else ()
    kept = [*(tensor.name for tensor in result.model.outputs), *(i.tensor.name for i in intermediates)]
    return Artifact(
        name=compiled.graph.name,
        config=compiled.config,
        programs=tuple(compiled.programs),
        steps=folded(compiled.steps, result.model.inputs, compiled.states, kept),
        inputs=tuple(result.model.inputs),
        outputs=tuple(result.model.outputs),
        intermediates=intermediates,
        blobs=compiled.blobs,
        host_layers=compiled.host_layers,
        batch=source.batch,
        states=tuple(compiled.states),
        output_names=result.model.built.output_names,
        options={
            **asdict(options), "operators": result.operators(), "moved": result.moved, "rejected": compiled.rejected,
            **({"unplaced": unplaced} if unplaced else {}),
            **({"left_out": [*source.left_out]} if source.left_out else {}),
            **({"index_limits": dict(source.index_limits)} if source.index_limits else {}),
        },
    )  # fmt: skip


def _placed(
    source: Source, config: Config, options: Options, progress: Progress, shares: bool, power: Power | None
) -> CompiledModel | None:
    """By the best placement; None if it is no better than leaving to the accelerator all that it takes."""
    from tilewright.jit.place.placed import place_source
    from tilewright.jit.place.settle import settle

    assert options.objective is not None
    if options.keep_intermediates:
        raise CompileError(
            f"{source.path}: keep_intermediates stores every operator's output, which no placement counts"
        )
    placed = place_source(source, config, options.objective, progress=progress, jobs=options.jobs, power=power)
    settled, compiled = settle(source, placed, fast_host=options.fast_host, progress=progress, shares=shares)
    return compiled if settled.best.cost < settled.greedy.cost else None


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
