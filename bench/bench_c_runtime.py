"""Instructions of a Cortex-A9 for an inference with the C runtime, under qemu: ``python -m bench.bench_c_runtime``.

The accelerator is not there: it has ended when it is asked, and gave zeros. What is counted is all that the processor
does of a run of one inference and of 16, and of opening the artifact. Needs qemu-user and gcc-arm-linux-gnueabihf.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from bench.common import DIGITS, MLPERF_TINY, ROOT, models, models_folder
from tilewright.compiling import compile as compile_model
from tilewright.runtime.native import build

BATCH = 16
ARM = ("arm-linux-gnueabihf-gcc", "-O3", "-march=armv7-a", "-mfpu=neon", "-static", "-std=c11", "-ffp-contract=off")


def counter(folder: Path) -> list[str]:
    """The command that counts ``replay``, the C runtime on a board that plays back; compiled in ``folder``."""
    replay = ROOT / "tests" / "runtime" / "replay.c"
    program, plugin = folder / "replay", folder / "instructions.so"
    sources = [str(path) for path in (replay, *build.sources())]
    subprocess.run([*ARM, "-I", str(build.HERE), "-o", str(program), *sources, "-lm"], check=True)
    source = str(ROOT / "bench" / "instructions.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(plugin), source], check=True)
    return ["qemu-arm", "-cpu", "cortex-a9", "-plugin", str(plugin), str(program)]


def counts(command: list[str], artifact: Path, inferences: int) -> tuple[int, int]:
    """Instructions up to the first run, and of one inference in it."""
    done = subprocess.run(
        [*command, "zeros", str(inferences), str(artifact)], check=True, capture_output=True, text=True
    )
    if done.stdout != "0 ran\n":
        raise SystemExit(f"{artifact}: {done.stdout.strip()}")
    before, after = (int(line) for line in done.stderr.split())
    return before, (after - before) // inferences


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("artifacts", nargs="*", type=Path, help=".twa files (the README's networks and the digits)")
    artifacts: list[Path] = parser.parse_args().artifacts
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not artifacts:
            found = models(models_folder(), (*MLPERF_TINY, "mobilenet_v2_imagenet"))
            for model in (*found, DIGITS / "digits.onnx"):
                artifacts.append(folder / f"{model.stem}.twa")
                compile_model(model, "pynq-z2").save(artifacts[-1])
        command = counter(folder)
        print(f"{'instructions':<26}{'one at a time':>16}{f'of {BATCH}':>12}{'open':>16}")
        for artifact in artifacts:
            opening, alone = counts(command, artifact, 1)
            print(f"{artifact.stem:<26}{alone:>16,}{counts(command, artifact, BATCH)[1]:>12,}{opening:>16,}")


if __name__ == "__main__":
    main()
