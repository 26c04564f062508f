"""Instructions of a Cortex-A9 for an inference with the C runtime, under qemu: ``python -m bench.bench_c_runtime``.

The accelerator is not there: it has ended when it is asked, and gave zeros. What is counted is all that the processor
does of a run of one inference and of 16, and of opening the artifact; beside it stands what reports estimate of one
(``runtime/report/host_work.py``). Needs qemu-user and gcc-arm-linux-gnueabihf.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.common import DIGITS, MLPERF_TINY, ROOT, keep_rows, models, models_folder
from tilewright.compiling import compile as compile_model
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.native import build
from tilewright.runtime.report.host_work import host_instructions

BATCH = 16
COUNTED = ("network", "runtime")  #: what rows of counts are told apart by
ARM = ("arm-linux-gnueabihf-gcc", "-O3", "-march=armv7-a", "-mfpu=neon", "-static", "-std=c11", "-ffp-contract=off")


def counter(folder: Path) -> list[str]:
    """The command that counts ``replay``, the C runtime on a board that plays back; compiled in ``folder``."""
    replay = ROOT / "tests" / "runtime" / "replay.c"
    program = folder / "replay"
    sources = [str(path) for path in (replay, *build.sources())]
    subprocess.run([*ARM, "-I", str(build.HERE), "-o", str(program), *sources, "-lm"], check=True)
    return ["qemu-arm", "-cpu", "cortex-a9", "-plugin", str(plugin(folder)), str(program)]


def plugin(folder: Path) -> Path:
    """qemu's plugin that counts instructions, compiled in ``folder``."""
    made, source = folder / "instructions.so", ROOT / "bench" / "instructions.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return made


def compiled_networks(folder: Path) -> list[Path]:
    """Artifacts of the README's networks and the digits for ``pynq-z2``, written to ``folder``."""
    found = [*models(models_folder(), (*MLPERF_TINY, "mobilenet_v2_imagenet")), DIGITS / "digits.onnx"]
    for model in found:
        compile_model(model, "pynq-z2").save(folder / f"{model.stem}.twa")
    return [folder / f"{model.stem}.twa" for model in found]


def counts(command: list[str], artifact: Path, inferences: int) -> tuple[int, int]:
    """Instructions up to the first run, and of one inference in it."""
    done = subprocess.run(
        [*command, "zeros", str(inferences), str(artifact)], check=True, capture_output=True, text=True
    )
    if done.stdout != "0 ran\n":
        raise SystemExit(f"{artifact}: {done.stdout.strip()}")
    before, after = (int(line) for line in done.stderr.split())
    return before, (after - before) // inferences


def counts_row(artifact: Path, runtime: str, opening: int, alone: int, many: int, each: int) -> dict[str, Any]:
    """A row of ``bench/results/host_instructions.json``: instructions to open, of one inference, of each of many."""
    return {"network": artifact.stem, "runtime": runtime, "open": opening, "alone": alone, "many": many, "each": each}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="also keep the counts in this file")
    parser.add_argument("artifacts", nargs="*", type=Path, help=".twa files (the README's networks and the digits)")
    options, rows = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = counter(folder)
        print(f"{'instructions':<26}{'one at a time':>16}{f'of {BATCH}':>12}{'open':>16}   estimated of one")
        for artifact in options.artifacts or compiled_networks(folder):
            opening, alone = counts(command, artifact, 1)
            each, estimate = counts(command, artifact, BATCH)[1], host_instructions(Artifact.load(artifact))
            rows.append(counts_row(artifact, "C", opening, alone, BATCH, each))
            print(
                f"{artifact.stem:<26}{alone:>16,}{each:>12,}{opening:>16,}"
                f"{estimate:>16,.0f} ({estimate / alone - 1:+.1%})",
                flush=True,
            )
    keep_rows(options.json, rows, COUNTED)


if __name__ == "__main__":
    main()
