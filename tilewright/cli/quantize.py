"""``tilewright quantize``: a float model in, one of integers out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.arguments import UsageProblem
from tilewright.cli.paths import READ, WRITTEN
from tilewright.files import check_writable
from tilewright.printable import say

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.quantize.result import Quantised

SHOWN = 20  #: layers of the table, unless all are asked for
#: kind of model -> kind of the result
RESULTS = {".onnx": ".onnx", ".pt2": ".onnx", ".tflite": ".tflite"}


def quantize(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A float .onnx, .pt2 or .tflite model."), READ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="DIR|NPY", help="Example inputs: .npy (N stacked), .npz by input name, or a folder of .npy."
        ),
        READ,
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="OUT", help="The model to write: .onnx, or .tflite of .tflite."),
        WRITTEN,
    ],
    test: Annotated[
        Path | None,
        typer.Option(metavar="DIR|NPY", help="Other inputs, to measure losses and accuracy on (those of --data)."),
        READ,
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="L.npy", help="The right class of each input that is measured, for the accuracy."),
        READ,
    ] = None,
    bits: Annotated[int, typer.Option(metavar="8|4", help="Bits of a weight.")] = 8,
    all_layers: Annotated[bool, typer.Option("--all", help=f"List every layer, not the worst {SHOWN} alone.")] = False,
) -> None:
    """Quantise a float model; show what each layer loses."""
    from tilewright.quantize import quantize_file
    from tilewright.terminal import ProgressReporter, output_console

    wanted = RESULTS.get(model.suffix.lower())
    if wanted is not None and output.suffix.lower() != wanted:
        raise UsageProblem(f"{output}: {model.suffix} models become {wanted} files; name it so")
    check_writable(output)
    with ProgressReporter() as progress:
        result = quantize_file(model, data, test=test, labels=labels, bits=bits, progress=progress.update)
    result.save(output)
    print_losses(result, output_console(), None if all_layers else SHOWN)
    say(f"{output}: {len(result.content):,} bytes, ranges from {result.inputs:,} inputs")
    for sentence in result.stay:
        say(f"note: {sentence}")
    if result.accuracy is not None:
        before, after = result.accuracy
        say(f"accuracy  {before:.2%} before, {after:.2%} after")


def print_losses(result: Quantised, console: Console, shown: int | None) -> None:
    """The layers as a table, the first ``shown`` or all."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("layer", "op"):
        table.add_column(column, overflow="fold")
    for column in ("SNR before, dB", "after", "lost"):
        table.add_column(column, justify="right", no_wrap=True)
    for layer in result.layers[:shown]:
        sides = ["exact" if math.isinf(n) else f"{n:.1f}" for n in (layer.before, layer.after)]
        table.add_row(layer.name, layer.kind, *sides, "-" if math.isinf(layer.lost) else f"{layer.lost:.1f}")
    console.print(table)
    if shown is not None and len(result.layers) > shown:
        console.print(f"and {len(result.layers) - shown} layers that lose less (--all lists them)", highlight=False)
