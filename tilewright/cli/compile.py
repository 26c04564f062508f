"""``tilewright compile`` and ``tilewright inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.arguments import UsageProblem, refuse_vain
from tilewright.cli.paths import READ, WRITTEN
from tilewright.cli.placing import (
    FAST_HOST,
    JOBS,
    OBJECTIVE,
    OBJECTIVES,
    Exact,
    HostIdleWatts,
    HostWatts,
    OwnEnergies,
    check_objective,
    exact_of,
    refuse_compiled,
)
from tilewright.cli.run import artifact_of
from tilewright.config import DEFAULT_CONFIG, load_config
from tilewright.files import check_writable
from tilewright.printable import say
from tilewright.runtime import records
from tilewright.runtime.artifact import Artifact, accelerator_layers, dropped_macs, placed_macs
from tilewright.runtime.executable import of_batch
from tilewright.runtime.records import BOUND
from tilewright.runtime.report.measured import measured_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def compile_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A quantised .tflite, QDQ .onnx or .pt2 model."), READ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="A.twa", help="The artifact to write."), WRITTEN],
    config: Annotated[str, typer.Option(metavar="NAME|FILE", help="Preset or .toml file."), READ] = DEFAULT_CONFIG,
    keep_intermediates: Annotated[
        bool, typer.Option("--keep-intermediates", help="Make every operator's output available to run.")
    ] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compile anew and keep nothing.")] = False,
    fast_host: Annotated[bool, typer.Option("--fast-host", help=FAST_HOST)] = False,
    exact: Exact = None,
    objective: Annotated[str | None, typer.Option(metavar=OBJECTIVES, help=OBJECTIVE)] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help=JOBS)] = None,
    host_watts: HostWatts = None,
    host_idle_watts: HostIdleWatts = None,
    energy_table: OwnEnergies = None,
) -> None:
    """Compile a model into one artifact file."""
    from tilewright.compiling import compile
    from tilewright.terminal import ProgressReporter

    check_objective(
        objective, jobs=jobs, host_watts=host_watts, host_idle_watts=host_idle_watts, energy_table=energy_table
    )
    check_writable(output)
    with ProgressReporter() as progress:
        executable = compile(
            model, config, cache=not no_cache, keep_intermediates=keep_intermediates, fast_host=fast_host,
            exact=exact_of(exact), objective=objective, jobs=jobs or 1, host_watts=host_watts,
            host_idle_watts=host_idle_watts, energy_table=energy_table, progress=progress.update,
        )  # fmt: skip
    executable.save(output)
    artifact = executable.artifact
    instructions = sum(program.instruction_count for program in artifact.programs)
    source = "from the cache" if executable.cached else f"in {artifact.compile_seconds:.2f} s"
    say(
        f"{output}: {artifact.name} for {artifact.config.name}, {instructions:,} instructions, "
        f"{output.stat().st_size:,} bytes, compiled {source}"
    )
    for words in measured_lines(artifact.options):
        say(f"measured: {words}")


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL|A.twa", help="A model or an artifact."), READ],
    config: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Config to place a model for (pynq-z2)."), READ
    ] = None,
    exact: Exact = None,
    placement: Annotated[
        bool, typer.Option("--placement", help="Show what operators cost on a core and on this CPU, and the best cut.")
    ] = False,
    objective: Annotated[
        str | None, typer.Option(metavar=OBJECTIVES, help="With --placement: what it is best for (latency).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help=JOBS)] = None,
    host_watts: HostWatts = None,
    host_idle_watts: HostIdleWatts = None,
    energy_table: OwnEnergies = None,
) -> None:
    """Show where each operator runs, inputs and outputs.

    Of an artifact also its programs and steps.
    """
    from tilewright.terminal import ProgressReporter, output_console

    artifact = artifact_of(model)
    power = {"host_watts": host_watts, "host_idle_watts": host_idle_watts, "energy_table": energy_table}
    placed = {"objective": objective, "jobs": jobs, **power}
    if artifact:
        if placement:
            raise UsageProblem(f"{model}: is compiled; give --placement the model file")
        refuse_compiled(model, config=config, exact=exact, **placed)
        print_artifact(artifact, output_console(), True)
        return
    if placement:
        check_objective(objective or "latency", jobs=jobs, **power)
        _inspect_placement(model, config or DEFAULT_CONFIG, objective or "latency", exact_of(exact), jobs or 1, power)
        return
    for name, value in placed.items():
        option = f"--{name.replace('_', '-')}"
        refuse_vain((value, False, f"{option}: only --placement has use for it; add that, or leave it out"))
    from tilewright.compiling import compile

    with ProgressReporter() as progress:
        executable = compile(model, config or DEFAULT_CONFIG, exact=exact_of(exact), progress=progress.update)
    print_artifact(executable.artifact, output_console(), False)


def _inspect_placement(
    model: Path, config: str, objective: str, exact: records.Exact, jobs: int, power: dict[str, Any]
) -> None:
    from tilewright.cli.placement_view import print_placement
    from tilewright.jit.place.energy import power_of
    from tilewright.jit.place.placed import place_source
    from tilewright.jit.source import open_source
    from tilewright.runtime.records import OBJECTIVES
    from tilewright.terminal import ProgressReporter, output_console

    chosen = next(known for known in OBJECTIVES if known == objective)
    of = power_of(objective, **power)
    with ProgressReporter() as progress:
        source = open_source(model, exact=exact)
        placed = place_source(source, load_config(config), chosen, None, progress.update, jobs, of)
    print_placement(placed, output_console())


def print_artifact(artifact: Artifact, console: Console, programs: bool) -> None:
    """Print an artifact's tensors and layers, and with ``programs`` its programs, segments and steps."""
    from rich.text import Text

    def line(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    config = artifact.config
    line(f"{artifact.name} for {config.name} (config {config.fingerprint})", "bold")
    for kind, tensors in (("input", artifact.inputs), ("output", artifact.named_outputs)):
        for t in (of_batch(tensor, artifact.batch) for tensor in tensors):
            line(f"  {kind:7} {t.name}: {t.dtype}{list(t.shape)}, scale {t.scale:.6g}, zero point {t.zero_point}")
    console.print(_operator_table(artifact))
    here, everywhere = placed_macs(artifact)
    if everywhere:
        line(f"{here / everywhere:.1%} of {everywhere:,} MACs on the accelerator")
    if saved := dropped_macs(artifact):
        line(f"{saved:,} MACs left out: of channels that nobody reads, constant or equal ones")
    for rule, operator in (made for program in artifact.programs for made in program.meta.get("substitutions") or ()):
        line(f"substituted at {operator}: {rule.replace('_', ' ')}")
    for words in measured_lines(artifact.options):
        line(f"measured: {words}")
    if not programs:
        return
    for number, program in enumerate(artifact.programs):
        line(
            f"program {number}: {program.instruction_count:,} instructions, {len(program.instructions):,} bytes", "bold"
        )
        for index, segment in enumerate(program.segments):
            line(f"  segment {index} {segment.name}: {segment.kind}, {segment.size:,} bytes")
    line("steps", "bold")
    for step in artifact.steps:
        names = [
            str(getattr(step, field)) for field in ("input", "output", "tensor", "program") if hasattr(step, field)
        ]
        line(f"  {step.kind} {' '.join(names)}")


def _operator_table(artifact: Artifact) -> Table:
    """One row for each operator of the model file; of an artifact made from a graph, for each layer."""
    from rich.table import Table

    measured = {layer["name"]: layer for layer in accelerator_layers(artifact)}
    operators = artifact.options.get("operators") or [*measured.values(), *artifact.host_layers]
    table = Table(box=None, header_style="bold", pad_edge=False)
    smaller = any(layer.get("channels_dropped") for layer in measured.values())
    for column in ("operator", "op", "place", "why", "exact", *(["channels dropped"] if smaller else [])):
        table.add_column(column, overflow="fold")
    for column in ("MACs", "lower bound"):
        table.add_column(column, justify="right", no_wrap=True)
    for entry in operators:
        layer = {**measured.get(entry["name"], {}), **entry}
        numbers = [f"{layer[key]:,}" if layer.get(key) else "-" for key in ("macs", BOUND)]
        keys = (("name", ""), ("op", ""), ("place", "accelerator"), ("reason", ""), ("exact", "-"))
        texts = [str(layer.get(key, default)) for key, default in keys]
        if smaller:
            texts.append(", ".join(f"{n:,} {why}" for why, n in layer.get("channels_dropped", {}).items()) or "-")
        table.add_row(*texts, *numbers)
    return table
