"""Time of the proof that a program computes its graph, beside the time of the compilation that it is part of.

``python bench/bench_proof.py [--config pynq-z2] [--models DIR] [--runs 3] [--size 224] [--json FILE]`` compiles the
real networks of the folder and the ResNet-18 of ``bench/resnet18.py``, and prints for each the CPU seconds of
everything but the proof, those of the proof, and their ratio: medians of the runs, compiled kernels loaded ahead. CPU
time of one thread depends little on what else the machine does. Without the folder (``../shared/models`` or
``TILEWRIGHT_MODELS``) the digits network of the examples stands in for it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait for each other count as CPU time
from bench.common import DIGITS, machine, models, options_of, whole_graph, write_json
from bench.resnet18 import build
from tilewright.config import Config, load_config
from tilewright.isa.program import Program
from tilewright.jit import compiler, programs
from tilewright.jit.graph import Graph
from tilewright.jit.proof import Proof
from tilewright.runtime.steps import PackStep, UnpackStep

NETWORKS = ("autoencoder_toycar", "dscnn_keywords", "resnet8_cifar10", "mobilenet_person", "mobilenet_v2_imagenet")


def measure(model: Path, config: Config, runs: int) -> dict[str, Any]:
    """Compile ``runs`` times, and once ahead."""
    graph = whole_graph(model)
    proofs: list[Proof] = []
    original = programs.prove

    spent: list[float] = []

    def prove(graph: Graph, program: Program, packs: Sequence[PackStep], unpacks: Sequence[UnpackStep]) -> Proof:
        start = time.process_time()
        proofs.append(original(graph, program, packs, unpacks))
        spent.append(time.process_time() - start)
        return proofs[-1]

    programs.prove = prove
    rest, proof_seconds, instructions = [], [], 0
    try:
        for _ in range(runs + 1):
            proofs.clear()
            spent.clear()
            start = time.process_time()
            compiled = compiler.compile_graph(graph, config)
            seconds = time.process_time() - start
            proof_seconds.append(sum(spent))
            rest.append(seconds - proof_seconds[-1])
            instructions = sum(p.instruction_count for p in compiled.programs)
    finally:
        programs.prove = original
    compile_s, proof_s = statistics.median(rest[1:]), statistics.median(proof_seconds[1:])
    return {
        "network": model.stem, "config": config.name, "instructions": instructions,
        "elements": sum(p.elements for p in proofs), "symbolic": all(p.followed for p in proofs),
        "compile_s": round(compile_s, 3), "proof_s": round(proof_s, 3), "ratio": round(proof_s / compile_s, 3),
    }  # fmt: skip


def main() -> int:
    """Print the table; exit code 1 if a proof takes longer than its compilation or could not follow the program."""
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=int, default=224, help="of ResNet-18's image")
    options = parser.parse_args()
    config = load_config(options.config)
    print(f"{machine()}, CPU seconds, median of {options.runs} runs")
    print(f"{'network':<24}{'instructions':>13}{'compile s':>11}{'proof s':>9}{'ratio':>7}  proof")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        resnet = build(Path(scratch) / f"resnet18_{options.size}.onnx", options.size)
        for model in [*(models(options.models, NETWORKS) or [DIGITS / "digits.onnx"]), resnet]:
            row = measure(model, config, options.runs)
            rows.append(row)
            print(
                f"{row['network']:<24}{row['instructions']:>13,}{row['compile_s']:>11.2f}{row['proof_s']:>9.3f}"
                f"{row['ratio']:>7.3f}  {'for all inputs' if row['symbolic'] else 'for some inputs'}",
                flush=True,
            )
    write_json(options.json, {"machine": machine(), "rows": rows})
    return int(any(row["ratio"] > 1 or not row["symbolic"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
