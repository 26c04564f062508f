"""Transposed convolutions: cycles of the layer alone beside its lower bound and its multiply-accumulates.

``python bench/bench_transposed.py [--config pynq-z2 zcu104]`` prints the rows of ``docs/operators.md``. Layers are
those of decoders (U-Nets, GANs), seeded, with SAME padding; the input is loaded and the result stored.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import tilewright as tw
from tests.fuzz import TfliteNet
from tilewright.config import load_config

#: kernel, stride, height and width of the input, its channels, and the result's
LAYERS = (
    (2, 2, 16, 64, 32), (3, 2, 16, 64, 32), (4, 2, 16, 64, 32), (5, 2, 16, 64, 32), (3, 3, 12, 32, 32),
    (8, 4, 8, 32, 16), (16, 8, 8, 16, 16), (2, 2, 32, 128, 64), (4, 2, 32, 128, 64), (2, 2, 64, 32, 16),
    (1, 2, 16, 64, 32),
)  # fmt: skip


def cycles(layer: tuple[int, int, int, int, int], config: str) -> tuple[int, int, int]:
    """Cycles of an inference of one layer, the least that any program takes, and multiply-accumulates in blocks."""
    kernel, stride, side, depth, channels = layer
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        net, path = TfliteNet(seed=0), Path(folder) / "layer.tflite"
        net.save(path, [net.transpose_conv(net.input((1, side, side, depth)), channels, kernel, stride)])
        executable = tw.compile(path, config=config, cache=False)
        (spec,) = executable.inputs
        x = np.random.default_rng(1).integers(-128, 128, spec.shape).astype(spec.dtype)
        report = executable.run(x)[1]
    return report.cycles, report.lower_bound_cycles, side * side * depth * channels * kernel**2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", nargs="+", default=["pynq-z2", "zcu104"])
    configs = parser.parse_args().config
    for layer in LAYERS:
        kernel, stride, side, depth, channels = layer
        found = [cycles(layer, config) for config in configs]
        shown = " | ".join(f"{took:,} ({took / least:.2f})" for took, least, _ in found)
        macs = found[0][2]
        array = [-(-macs // load_config(config).array_macs) for config in configs]
        busy = " | ".join(f"{least:,}" for least in array)
        name = f"{kernel}x{kernel}, stride {stride}, {side}x{side}, {depth} to {channels}"
        print(f"| {name} | {macs:,} | {shown} | {busy} |", flush=True)


if __name__ == "__main__":
    main()
