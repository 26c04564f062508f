"""Weights of 8, 4 and 2 bits: bytes, cycles, resources and accuracy of networks quantised here.

``python bench/bench_low_bit.py [--config pynq-z2] [--models DIR] [--json FILE]`` takes the digits network of the
examples and, where the folder of real networks has them, keyword spotter and autoencoder of MLPerf Tiny, all turned
into float networks, and quantises them to weights of 8 and of 4 bits as ``tilewright quantize`` does, with the ranges
of the first 200 inputs. Each runs on the Config with as many ``weight_bits``: what is printed is the size of the file
and of the program's constants, what an inference reads and takes, the ratio of the output to its error, and the share
of right answers (360 held-out digits, 1,000 keywords). Weights of 2 bits take training, which is not done here: the
4-bit network with its weights cut to -1, 0 and 1 stands in, for bytes and cycles alone. LUT, DSP and block RAM are
those of the explorer's model; nothing is synthesised.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import DIGITS, models, options_of, write_json
from bench.networks.floated import float_onnx, float_tflite, ternary
from tilewright.checking import reference_outputs
from tilewright.config import load_config
from tilewright.dse.resources import resources
from tilewright.quantize import quantize_file
from tilewright.quantize.files import open_quantiser

SEEN, COMPARED = 200, 10  #: inputs that ranges come from, and those that are compared with the interpreter
REAL = ("dscnn_keywords", "autoencoder_toycar")


@dataclass(frozen=True)
class Network:
    """A float model file, its inputs (N, ...) and the right answers, if there are any."""

    path: Path
    x: NDArray[np.float32]
    labels: NDArray[np.integer[Any]] | None


def digits(folder: Path) -> Network:
    """The network of the examples."""
    import onnx

    path = folder / "digits.onnx"
    onnx.save(float_onnx(onnx.load(str(DIGITS / path.name))), str(path))
    with np.load(DIGITS / "digits_test.npz") as held_out:
        return Network(path, _real_values(DIGITS / path.name, held_out["x"]), held_out["labels"])


def real(model: Path, folder: Path) -> Network:
    """An int8 network of the folder of real ones."""
    path = folder / model.name
    path.write_bytes(float_tflite(model.read_bytes()))
    with np.load(model.with_suffix(".npz")) as known:
        return Network(path, _real_values(model, known["x"]), known.get("labels"))


def _real_values(model: Path, x: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """Inputs of a quantised network as the numbers that its float network takes."""
    (given,) = tw.compile(model, "tiny").inputs
    return (x.astype(np.float32) - given.zero_point) * np.float32(given.scale)


def measured(network: Network, content: bytes, bits: int, config: str, trained: bool) -> dict[str, Any]:
    """What a quantised network costs with weights of ``bits``."""
    path = network.path.with_name(f"{network.path.stem}_{bits}{network.path.suffix}")
    path.write_bytes(content)
    chosen = load_config(config).replace(weight_bits=bits, name=f"{config}, weight_bits = {bits}")
    exe = tw.compile(path, chosen, cache=False)
    (given,) = exe.inputs
    x = network.x
    if given.dtype == "int8":
        x = np.clip(np.rint(x / np.float32(given.scale)) + given.zero_point, -128, 127).astype(np.int8)
    y, report = exe.run(x)
    if not np.array_equal(y[:COMPARED], reference_outputs(path, [x[:COMPARED]])[0]):
        raise SystemExit(f"{path.name}: differs from its interpreter")
    placed = {o["place"] for o in exe.artifact.options["operators"] if o["macs"]}
    if placed != {"accelerator"}:
        raise SystemExit(f"{path.name}: layers on the CPU")
    right = network.labels is not None and trained
    return {
        "network": network.path.stem, "bits": bits, "file_bytes": len(content),
        "constant_bytes": sum(s.size for p in exe.artifact.programs for s in p.segments if s.kind == "constant"),
        "read_bytes": report.to_dict()["dram_read_bytes"], "cycles": report.cycles,
        "accuracy": float((y.reshape(len(x), -1).argmax(1) == network.labels).mean()) if right else None,
    }  # fmt: skip


def rows_of(network: Network, config: str) -> list[dict[str, Any]]:
    """8, 4 and 2 bits."""
    seen = network.path.with_suffix(".npy")
    np.save(seen, network.x[:SEEN])
    rows = []
    for bits in (8, 4):
        content = quantize_file(network.path, seen, bits=bits).content
        row = measured(network, content, bits, config, trained=True)
        rows.append(row | {"output_db": output_decibels(network, content, bits)})
    four_bits = network.path.with_name(f"{network.path.stem}_4{network.path.suffix}")
    return [*rows, measured(network, ternary(four_bits), 2, config, trained=False)]


def output_decibels(network: Network, content: bytes, bits: int) -> float:
    """The ratio of the float output to the quantised one's difference from it."""
    quantiser = open_quantiser(network.path, bits)
    float_answer, answer = quantiser.answer(None), quantiser.answer(content)
    inputs = [[x.reshape(quantiser.inputs[0].shape)] for x in network.x[:SEEN]]
    wanted, got = (np.stack([run(x).ravel() for x in inputs]) for run in (float_answer, answer))
    return round(float(10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum())), 1)


def main() -> int:
    """Print the tables."""
    options = options_of(__doc__).parse_args()
    base = load_config(options.config)
    area = []
    print(f"{'weight_bits':>11}{'wgt KiB':>9}{'LUT':>9}{'FF':>9}{'DSP':>6}{'BRAM36':>8}")
    for bits, part in ((8, 1), (4, 1), (4, 2), (2, 1), (2, 4)):  # as many bytes of wgt, or as many weights
        chosen = base.replace(weight_bits=bits, wgt_bytes=base.wgt_bytes // part)
        found = resources(chosen)
        size = chosen.wgt_bytes >> 10
        area.append(
            {"bits": bits, "wgt_kib": size, "lut": found.lut, "ff": found.ff, "dsp": found.dsp, "bram36": found.bram36}
        )
        print(f"{bits:>11}{size:>9}{found.lut:>9,}{found.ff:>9,}{found.dsp:>6}{found.bram36:>8g}")
    head = f"{'bits':>5}{'file':>10}{'constants':>11}{'read':>10}{'cycles':>9}{'output dB':>10}{'right':>9}"
    print(f"\n{'network':<20}{head}")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for network in [digits(folder), *(real(model, folder) for model in models(options.models, REAL))]:
            for row in rows_of(network, options.config):
                rows.append(row)
                right = "-" if row["accuracy"] is None else f"{row['accuracy']:.2%}"
                print(
                    f"{row['network']:<20}{row['bits']:>5}{row['file_bytes']:>10,}{row['constant_bytes']:>11,}"
                    f"{row['read_bytes']:>10,}{row['cycles']:>9,}{row.get('output_db', '-'):>10}{right:>9}",
                    flush=True,
                )
    write_json(options.json, {"config": options.config, "area": area, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
