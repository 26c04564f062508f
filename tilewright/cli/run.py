"""``tilewright run``: a model or an artifact on a device."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tilewright.arguments import UsageProblem, refuse_vain
from tilewright.arrays import load_inputs, save_outputs
from tilewright.cli.paths import FOLDER, READ, WRITTEN
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
from tilewright.config import DEFAULT_CONFIG, load_config
from tilewright.errors import TilewrightError
from tilewright.files import (
    check_directory_writable,
    check_writable,
    directory_for,
    is_special,
    keep_input,
    read_bytes,
    together,
)
from tilewright.model_files import model_digest
from tilewright.printable import say
from tilewright.runtime.artifact import Artifact, is_artifact, unproven
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.executable import Executable, check_tensor
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.report.model_explorer import SETS, model_explorer_file
from tilewright.runtime.report.report import Report

STREAM = "The inputs are the successive steps of one stream: states of the network (LSTM, SVDF, variables) go on."


@dataclass(frozen=True)
class Outputs:
    """Files that a run writes."""

    output: Path | None
    report: Path | None
    trace: Path | None
    html: Path | None
    model_explorer: Path | None
    intermediates: Path | None

    def check(self) -> None:
        """Raise before the work starts if one of them could not be written afterwards."""
        explored = [] if self.model_explorer is None else [model_explorer_file(self.model_explorer, s) for s in SETS]
        for path in (self.output, self.report, self.trace, self.html, *explored):
            if path is not None:
                check_writable(path)
        if self.intermediates is not None:
            check_directory_writable(self.intermediates)

    def write(self, y: Any, report: Report, names: Sequence[str]) -> list[Path]:
        """Write all that was asked for; ``names``: of the outputs. The files of these."""
        written = [] if self.output is None else save_outputs(self.output, y, names)
        if self.report is not None:
            report.save_json(self.report)
        if self.trace is not None:
            report.save_trace(self.trace)
        if self.html is not None:
            report.save_html(self.html)
        if self.model_explorer is not None:
            paths = ",".join(str(path) for path in report.save_model_explorer(self.model_explorer))
            say(f"show this in Model Explorer: model-explorer MODEL --node_data_paths={paths}")
        return written


def run(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|A.twa", help="A .tflite, .onnx or .pt2 model, or a .twa."), READ
    ],
    config: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Preset or .toml file (default: pynq-z2, or the artifact's)."),
        READ,
    ] = None,
    device: Annotated[str, typer.Option(help="What runs it: sim, rtl, hls, pynq or pynq://HOST.")] = "sim",
    input: Annotated[
        Path | None,
        typer.Option(
            "--input", metavar="X.npy|X.npz", help="N inputs stacked on axis 0; of several inputs a .npz by name."
        ),
        READ,
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="Y.npy|Y.npz", help="Write the N outputs: as .npz by name; of several as .npy Y.0.npy, Y.1.npy, ..."
        ),
        WRITTEN,
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="R.json", help="Write the report as JSON."), WRITTEN] = None,
    trace: Annotated[Path | None, typer.Option(metavar="T.json", help="Write a trace for Perfetto."), WRITTEN] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="R.html", help="Write the report as one HTML file."), WRITTEN
    ] = None,
    model_explorer: Annotated[
        Path | None,
        typer.Option(
            metavar="N.json",
            help="Write node data for Model Explorer: N-cycles.json, N-ratio.json, N-place.json, N-exact.json.",
        ),
        WRITTEN,
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the reference; exit 1 on any difference.")
    ] = False,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="With --check of an artifact: its model, if that is not beside it."),
        READ,
    ] = None,
    keep_intermediates: Annotated[
        Path | None, typer.Option(metavar="D", help="Store every operator's output as .npy in this folder."), FOLDER
    ] = None,
    wave: Annotated[
        Path | None,
        typer.Option(metavar="W.fst", help="With --device rtl: write a waveform (.fst or .vcd; slow)."),
        WRITTEN,
    ] = None,
    overlay: Annotated[
        Path | None, typer.Option(metavar="O.bit", help="With --device pynq: the bitstream, or a folder of one."), READ
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="With --device pynq://HOST: seconds to wait while others have it (90)."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help=STREAM)] = False,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"{JOBS} With --device sim: inferences computed at once (all cores)."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compile anew and keep nothing.")] = False,
    fast_host: Annotated[bool, typer.Option("--fast-host", help=FAST_HOST)] = False,
    exact: Exact = None,
    objective: Annotated[str | None, typer.Option(metavar=OBJECTIVES, help=OBJECTIVE)] = None,
    host_watts: HostWatts = None,
    host_idle_watts: HostIdleWatts = None,
    energy_table: OwnEnergies = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs used without --input (0).")] = None,
    inputs: Annotated[
        int | None,
        typer.Option("--inputs", min=1, help="Number of random inputs (1; for throughput, enough to keep all busy)."),
    ] = None,
) -> None:
    """Run a model or an artifact; report cycles layer by layer."""
    from tilewright.runtime.report.console import print_report
    from tilewright.terminal import ProgressReporter, output_console

    files = Outputs(output, report, trace, html, model_explorer, keep_intermediates)
    energies = {"host_watts": host_watts, "host_idle_watts": host_idle_watts, "energy_table": energy_table}
    refuse_vain(
        (seed, input is None, "--seed: is of random inputs, and --input gives others; leave one of them out"),
        (inputs, input is None, "--inputs: is how many random ones, and --input gives others; leave one of them out"),
        (reference, check, "--reference: is what --check compares with; add that, or leave it out"),
    )
    artifact, how_exact = artifact_of(model), exact_of(exact)
    if artifact is None:
        check_objective(objective, **energies)
    else:
        refuse_compiled(model, no_cache=no_cache, fast_host=fast_host, exact=exact, objective=objective, **energies)
    if reference is not None and not artifact:
        raise UsageProblem("--reference: names the model of an artifact, for --check; a model file is its own")
    judge = model_of(artifact, model, reference) if artifact and check else model
    if artifact and keep_intermediates is not None and not artifact.intermediates:
        raise UsageProblem(f"{model}: compiled without intermediates; run the model with --keep-intermediates instead")
    if stream and (jobs or objective == "throughput"):
        at_once = "--jobs" if jobs else "--objective throughput"
        raise UsageProblem(f"{at_once}: the inferences of a stream wait for each other; leave it or --stream out")
    files.check()
    opened: str | Device = device
    chosen = artifact.options.get("objective") if artifact else objective
    own_jobs = jobs if device == "sim" or chosen != "throughput" else None  # else they are the CPU's alone
    if special := device_options(device, wave, overlay, wait, own_jobs):
        own = artifact.config if artifact and config is None else None
        opened = open_device(device, own or load_config(config or DEFAULT_CONFIG), **special)
    given = None if input is None else load_inputs(input)
    with ExitStack() as stack, ProgressReporter() as progress:
        if artifact:
            executable = opened_artifact(artifact, config, opened)
        else:
            from tilewright.compiling import compile

            executable = compile(
                model, config or DEFAULT_CONFIG, device=opened, cache=not no_cache, progress=progress.update,
                keep_intermediates=keep_intermediates is not None, fast_host=fast_host,
                exact=how_exact, objective=objective, jobs=jobs or 1, host_watts=host_watts,
                host_idle_watts=host_idle_watts, energy_table=energy_table,
            )  # fmt: skip
        executable.device.notice = lambda what: progress.update(what, 0, 0)
        in_flight = None if executable.jobs is None or stream else jobs or executable.jobs
        enough = 1 if in_flight is None else executable.to_be_busy(in_flight)
        x = bind_inputs(executable, given, input, seed or 0, inputs or enough)
        total, finished = x[0].shape[0] * executable.artifact.batch, 0

        def advance(count: int, what: str = "running") -> None:
            nonlocal finished
            finished += count
            progress.update(what, finished, total)

        if keep_intermediates is not None:
            stack.enter_context(directory_for(keep_intermediates))
        stack.enter_context(together())
        with way_out_of_random(executable, given):
            y, result = (
                executable.stream().run(x, progress=advance, keep_intermediates=keep_intermediates)
                if stream
                else executable.run(x, jobs=in_flight, progress=advance, keep_intermediates=keep_intermediates)
            )
        finished = 0
        difference = (
            _compare(executable, judge, x, y, lambda n: advance(n * executable.artifact.batch, "checking"), stream)
            if check
            else None
        )
        names = [tensor.name for tensor in executable.outputs]
        written = files.write(y, result, names)
    print_report(result, output_console())
    if len(written) > 1:
        for file, name in zip(written, names, strict=True):
            say(f"  output  {file}: {name}")
    if difference is not None:
        say(f"   check  {difference}")
        if doubtful := unproven(executable.artifact):
            count = len(executable.artifact.options["operators"])
            say(f"   check  {len(doubtful)} of {count} operators are not proven exact for all inputs; see inspect")
        if not difference.exact:
            raise typer.Exit(1)


def device_options(
    device: str,
    wave: Path | None,
    overlay: Path | None,
    wait: float | None,
    jobs: int | None,
) -> dict[str, Any]:
    """What the device's constructor gets. Raises :class:`UsageProblem` for options that are another device's."""
    remote = "://" in device
    refuse_vain(
        (wave, device == "rtl", "--wave: only the rtl device has waveforms; add --device rtl"),
        (overlay, device == "pynq", "--overlay: only the pynq device has one; add --device pynq"),
        (
            jobs,
            device == "sim",
            "--jobs: only the sim device computes several at once; add --device sim, or --objective throughput",
        ),
        (wait, remote, "--wait: only a remote device has others that use it; add --device pynq://HOST"),
    )
    if wave is not None:
        check_writable(wave)
    values = {"wave": wave, "overlay": overlay, "wait": wait, "jobs": jobs}
    return {name: value for name, value in values.items() if value is not None}


def artifact_of(path: Path) -> Artifact | None:
    """What a file holds that is compiled; None for a model, and for what compiling says to be none."""
    if path.is_dir():
        return None
    data = read_bytes(path)
    if is_artifact(data) or path.suffix == ".twa":
        return Artifact.from_bytes(data, str(path))
    if is_special(path):
        raise UsageProblem(f"{path}: is a device or a pipe with no artifact in it; a model is read more than once")
    return None


def opened_artifact(artifact: Artifact, config: str | None, device: str | Device) -> Executable:
    """An artifact on a device of ``config``, or of its own."""
    if config is None:
        return Executable(artifact, device)
    wanted = load_config(config)
    artifact.check_config(wanted, "the requested config")
    chosen = open_device(device, wanted) if isinstance(device, str) else device
    return Executable(dataclasses.replace(artifact, config=wanted), chosen)


def model_of(artifact: Artifact, path: Path, given: Path | None) -> Path:
    """The model file that an artifact was made from: as given, or of its name beside it, and of the same content."""
    known = artifact.options.get("model_sha256")
    name = Path(artifact.name).name + artifact.options.get("model_suffix", "")
    model = path.with_name(name or path.name) if given is None else given
    if given is None and (known is None or not model.is_file()):
        raise UsageProblem(f"{path}: --check needs the model, and {name} is not beside it; name it by --reference")
    if known is not None and model_digest(model, read_bytes(model)) != known:
        raise UsageProblem(
            f"{model}: is not the model that {path} was compiled from; compile it again, or name that one"
        )
    keep_input(model)
    return model


@contextlib.contextmanager
def way_out_of_random(executable: Executable, given: Any) -> Iterator[None]:
    """What operators on the CPU say about random numbers where they look something up, with what to do about it."""
    try:
        yield
    except InterpreterError as error:
        wide = [t for t in executable.inputs if np.dtype(t.dtype).kind in "iu" and np.dtype(t.dtype).itemsize > 2]
        if given is not None or not wide:
            raise
        raise UsageProblem(
            f"{str(error).rstrip('.')}; {wide[0].name} is random over all of {wide[0].dtype}: "
            "if it is indices of a table, give such as the model takes with --input"
        ) from error


def bind_inputs(executable: Executable, given: Any, path: Path | None, seed: int, count: int) -> list[NDArray[Any]]:
    """The input arrays in the model's order: from the file, else random. Errors name the file."""
    if given is None:
        limits = executable.artifact.options.get("index_limits", {})
        return random_inputs(executable.inputs, seed, count, limits)
    if not isinstance(given, dict):
        if len(executable.inputs) != 1:
            names = ", ".join(t.name for t in executable.inputs)
            raise UsageProblem(f"{path}: the model takes {len(executable.inputs)} inputs; give a .npz with {names}")
        given = {executable.inputs[0].name: given}
    missing = [t.name for t in executable.inputs if t.name not in given]
    if missing:
        raise UsageProblem(f"{path}: holds {', '.join(given)}, but no input {missing[0]}")
    try:
        for tensor in executable.inputs:
            check_tensor(given[tensor.name], tensor)
    except TilewrightError as error:
        raise UsageProblem(f"{path}: {error}") from error
    return [given[tensor.name] for tensor in executable.inputs]


def _compare(executable: Executable, model: Path, x: list[NDArray[Any]], y: Any, progress: Any, stream: bool) -> Any:
    from tilewright.checking import compare, reference_outputs

    expected = reference_outputs(model, x, progress, stream=stream)
    outputs = y if isinstance(y, list) else [y]
    return compare(outputs, expected, [tensor.scale for tensor in executable.outputs])
