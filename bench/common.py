"""What the benches share: the networks there are, the machine's name, options, times and kept results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"  #: that are kept; the other files there are whatever was run last
DIGITS = ROOT / "examples" / "digits"
MLPERF_TINY = ("resnet8_cifar10", "dscnn_keywords", "mobilenet_person", "autoencoder_toycar")


def models_folder() -> Path:
    """Where the real networks are looked for: ``TILEWRIGHT_MODELS``, else ``../shared/models``."""
    return Path(os.environ.get("TILEWRIGHT_MODELS", ROOT.parent / "shared" / "models"))


def models(folder: Path, names: tuple[str, ...] = MLPERF_TINY) -> list[Path]:
    """The networks of these names that are in the folder; says so if there are none."""
    found = [path for name in names if (path := folder / f"{name}.tflite").exists()]
    if not found:
        print(f"no networks in {folder}: set TILEWRIGHT_MODELS to the folder that holds them")
    return found


def whole_graph(model: Path) -> Graph:
    """The graph of a network that runs on the accelerator whole; ends the bench if only part of it does."""
    imported = import_model(model)
    if imported.host_ops:
        raise SystemExit(f"{model}: only part of it runs on the accelerator; measure a network that runs there whole")
    return imported.graph


def machine() -> str:
    """The processor's name, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.lower().startswith(("model name", "hardware")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def options_of(doc: str | None, config: str | None = "pynq-z2") -> argparse.ArgumentParser:
    """A parser with the options that most benches take: ``--config``, ``--models``, ``--json``."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if config is not None:
        parser.add_argument("--config", default=config)
    parser.add_argument("--models", type=Path, default=models_folder(), help="folder of real networks")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    return parser


def seconds(run: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """The times of a call in rising order; one run ahead to compile and warm up."""
    run()
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return sorted(times)


def write_json(path: Path | None, value: Any) -> None:
    """Keep results, if they are wanted."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1) + "\n")


def keep_rows(path: Path | None, rows: list[dict[str, Any]], key: tuple[str, ...], **head: Any) -> None:
    """Add rows to a file, if there is one, in the place of those that it has of the same ``key``."""
    if path is not None:
        new = {tuple(row.get(name) for name in key) for row in rows}
        before = json.loads(path.read_text())["rows"] if path.exists() else []
        kept = [row for row in before if tuple(row.get(name) for name in key) not in new]
        write_json(path, {"machine": machine(), **head, "rows": [*kept, *rows]})
