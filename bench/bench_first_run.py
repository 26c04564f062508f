"""CPU seconds of a first ``tilewright run`` with empty caches, and of a second: ``python -m bench.bench_first_run``.

Each network gets a cache folder of its own. The second run is another process that finds what the first has kept; the
third has the kernels alone. ``SITE=FOLDER`` measures what ``pip install --target FOLDER`` installed, a wheel say, whose
first run needs no kernels.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import DIGITS, ROOT, machine, models, models_folder


def run(model: Path, cache: Path, site: str) -> tuple[float, float]:
    """CPU seconds and seconds by the clock of one process."""
    environment = {**os.environ, "PYTHONPATH": site, "TILEWRIGHT_CACHE": str(cache)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tilewright", "run", str(model)], cwd=cache, env=environment, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end - begin


def main() -> None:
    site = os.environ.get("SITE", str(ROOT))
    print(f"{machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'CPU seconds (by the clock)':32} {'first':>14} {'second':>14} {'kernels kept':>14}")
    for model in (DIGITS / "digits.onnx", *models(models_folder(), ("resnet8_cifar10",))):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            found = [run(model, cache, site), run(model, cache, site)]
            shutil.rmtree(cache / "artifacts")
            found.append(run(model, cache, site))
        print(f"{model.stem:32} " + " ".join(f"{cpu:6.1f} ({clock:4.1f})" for cpu, clock in found), flush=True)


if __name__ == "__main__":
    main()
