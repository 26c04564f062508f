"""SCALE-Sim on layers read from standard input; its own interpreter runs this (``bench_explorer_peers.py``).

A weight-stationary systolic array of BLOCK_IN x BLOCK_OUT, the sizes of act, wgt and acc for its three memories, and
the bus's bytes per cycle to each of them (SCALE-Sim 3 has no bus that they share). Inputs are given with their
padding, which it does not know.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_CONFIG = """[general]
run_name = tilewright
[architecture_presets]
ArrayHeight = {block_in}
ArrayWidth = {block_out}
IfmapSramSzkB = {act}
FilterSramSzkB = {wgt}
OfmapSramSzkB = {acc}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = {bus}
Dataflow = ws
MemoryBanks = 1
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = {bus}
IfmapSRAMBankNum = 1
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = {bus}
FilterSRAMBankNum = 1
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = csr
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = USER
UseRamulatorTrace = False
"""


def topology(layers: list[dict[str, Any]]) -> str:
    """The layers as SCALE-Sim's table of convolutions; one whose stride leaves a row over is cut to what is read."""
    head = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
    rows = []
    for layer in layers:
        kh, kw = layer["kernel"]
        height, width = ((layer[e] - 1) * layer["stride"] + k for e, k in (("height", kh), ("width", kw)))
        numbers = (height, width, kh, kw, layer["in_channels"], layer["channels"], layer["stride"])
        rows.append(", ".join(map(str, (layer["name"], *numbers))) + ",")
    return "\n".join([head, *rows]) + "\n"


def main() -> None:
    """Reads {"config", "layers"}; writes {"version"}, then {"name", "cycles", "seconds"} of each layer, a line each."""
    request = json.load(sys.stdin)
    from scalesim.scale_sim import scalesim

    c, answers = request["config"], sys.stdout
    print(json.dumps({"version": version("scalesim")}), file=answers, flush=True)
    sizes = {name: c[f"{name}_bytes"] // 1024 for name in ("act", "wgt", "acc")}
    text = _CONFIG.format(
        block_in=c["block_in"], block_out=c["block_out"], bus=c["axi_bits"] * c["axi_ports"] // 8, **sizes
    )
    for layer in request["layers"]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            config, table = Path(folder) / "tilewright.cfg", Path(folder) / "layer.csv"
            config.write_text(text)
            table.write_text(topology([layer]))
            start = time.process_time()
            run = scalesim(save_disk_space=True, verbose=False, config=str(config), topology=str(table),
                           layout=str(table))  # fmt: skip
            run.run_scale(top_path=folder)
            seconds = time.process_time() - start
            # cycles with the first prefetch, cycles, stalls, ...
            cycles = run.runner.single_layer_sim_object_list[0].get_compute_report_items()[0]
        answer = {"name": layer["name"], "cycles": float(cycles), "seconds": seconds}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
