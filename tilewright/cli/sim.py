"""``tilewright sim``: a program written by hand, with arrays for its segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tilewright.arguments import UsageProblem
from tilewright.arrays import load_array, save_array
from tilewright.cli.paths import READ, WRITTEN
from tilewright.cli.programs import ProgramOrText, read_legal
from tilewright.files import check_writable, name_of, together
from tilewright.isa.program import Program
from tilewright.isa.tensors import Tensor, TensorError, check_array, listed, tensors_of
from tilewright.printable import say
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import open_device
from tilewright.runtime.records import check_meta
from tilewright.runtime.report.report import Report
from tilewright.runtime.report.run import ProgramRun, busiest


def simulate_file(
    program: ProgramOrText,
    input: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=X.npy", help="Content of an input segment (default: random numbers)."),
        READ,
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME=Y.npy", help="Write what an output segment then holds."),
        WRITTEN,
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="R.json", help="Write the report as JSON."), WRITTEN] = None,
    trace: Annotated[Path | None, typer.Option(metavar="T.json", help="Write a trace for Perfetto."), WRITTEN] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="R.html", help="Write a page with the timeline of the engines."), WRITTEN
    ] = None,
) -> None:
    """Simulate a program written by hand: values and cycles."""
    loaded = read_legal(program)
    check_meta(loaded, str(program))
    tensors = tensors_of(loaded)
    given = _named("--input", input, [t for t in tensors.values() if t.kind == "input"], program)
    wanted = _named("--output", output, [t for t in tensors.values() if t.kind in ("output", "scratch")], program)
    for path in (*wanted.values(), *(path for path in (report, trace, html) if path is not None)):
        check_writable(path)
    values, found = _run(loaded, {name: _array(tensors[name], path) for name, path in given.items()}, name_of(program))
    with together():
        for name, path in wanted.items():
            save_array(path, values[name])
        for target, save in ((report, found.save_json), (trace, found.save_trace), (html, found.save_html)):
            if target is not None:
                save(target)
    _print(loaded, found, [t for t in tensors.values() if t.kind == "input" and t.name not in given], wanted)


def _named(option: str, pairs: Iterable[str] | None, tensors: Iterable[Tensor], program: Path) -> dict[str, Path]:
    """The files of an option by the name of their segment."""
    known, result = {tensor.name: tensor for tensor in tensors}, dict[str, Path]()
    for pair in pairs or ():
        name, equals, path = pair.partition("=")
        if not equals or not path:
            raise UsageProblem(
                f"{option} {pair}: must be NAME=FILE.npy; {program} has {listed(map(str, known.values()))}"
            )
        if name not in known:
            raise UsageProblem(
                f"{option} {pair}: {program} has no such segment; it has {listed(map(str, known.values()))}"
            )
        if name in result:
            raise UsageProblem(f"{option} {pair}: {name} was given before; leave one of them out")
        result[name] = Path(path)
    return result


def _array(tensor: Tensor, path: Path) -> NDArray[Any]:
    array = load_array(path)
    try:
        check_array(tensor, array)
    except TensorError as error:
        raise TensorError(f"{path}: {error}") from error
    return array


def _run(program: Program, inputs: Mapping[str, NDArray[Any]], name: str) -> tuple[dict[str, NDArray[Any]], Report]:
    """What the segments that are no inputs hold afterwards, by name, and the report."""
    tensors = tensors_of(program)
    device = open_device("sim", program.config)
    allocation = device.allocate(program, 1)
    rng = np.random.default_rng(0)
    for tensor in tensors.values():
        if tensor.kind == "input":
            content = inputs[tensor.name].tobytes() if tensor.name in inputs else rng.bytes(tensor.nbytes)
            device.write(allocation, tensor.number, 0, 0, np.frombuffer(content, np.uint8))
    device.launch(allocation, 1)
    device.wait(allocation)
    values = {
        tensor.name: tensor.of(device.read(allocation, tensor.number, 0, 0, tensor.nbytes))
        for tensor in tensors.values()
        if tensor.kind != "input"
    }
    artifact = Artifact(name, program.config, (program,), (), (), ())
    return values, Report(artifact, device.label, 1, (ProgramRun(program, device.counters(allocation)),))


def _print(program: Program, report: Report, random: Iterable[Tensor], written: Mapping[str, Path]) -> None:
    config, (what, least) = program.config, busiest(program)
    busy = ", ".join(f"{name} {engine['share']:.0%}" for name, engine in report.engines().items())
    data = report.to_dict()
    rows = [
        ("cycles", f"{report.cycles:,} ({data['lower_bound_ratio']:.2f}x the lower bound of {least:,}: {what})"),
        ("latency", f"{report.latency_ms:.3f} ms at {config.clock_mhz} MHz"),
        ("busy", busy),
        ("DRAM", f"{data['dram_read_bytes']:,} bytes read, {data['dram_write_bytes']:,} written"),
        *(("input", f"{tensor}: random numbers") for tensor in random),
        *(("output", f"{path}: {name}") for name, path in written.items()),
    ]
    say(f"{report.artifact.name}: {program.instruction_count} instructions on {config.name}")
    for name, value in rows:
        say(f"{name:>8}  {value}")
