"""ZigZag's cost model on layers read from standard input; its own interpreter runs this (``bench_explorer_peers.py``).

The accelerator is described as ZigZag describes hardware (its documentation, "Hardware Architecture"): an array of
BLOCK_IN x BLOCK_OUT multipliers, K along one side and C along the other; act, wgt and acc as single memories with the
widths that the array reads in a cycle, act shared by inputs and outputs; DRAM with one read and one write port of the
bus's width, as AXI has. Each layer's mapping is searched for latency with ZigZag's defaults.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_DRAM_BITS = 10**10


def _port(name: str, kind: str, bits: int, *allocation: str) -> dict[str, Any]:
    return {
        "name": name, "type": kind, "bandwidth_min": min(bits, 64), "bandwidth_max": bits,
        "allocation": list(allocation),
    }  # fmt: skip


def _memory(bits: int, operands: list[str], ports: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "size": bits, "r_cost": 1, "w_cost": 1, "area": 0, "latency": 1, "operands": operands, "ports": ports,
        "served_dimensions": ["D1", "D2"],
    }  # fmt: skip


def accelerator(c: dict[str, int]) -> dict[str, Any]:
    """The hardware of a Config (its fields by name)."""
    bus, lanes_in, lanes_out = c["axi_bits"] * c["axi_ports"], 8 * c["block_in"], 32 * c["block_out"]
    reads = ["I1, fh", "I1, tl", "I2, fh", "I2, tl", "O, tl", "O, th"]
    return {
        "name": "tilewright",
        "memories": {
            "acc": _memory(8 * c["acc_bytes"], ["O"], [
                _port("r_port_1", "read", lanes_out, "O, tl"), _port("r_port_2", "read", lanes_out, "O, th"),
                _port("w_port_1", "write", lanes_out, "O, fl"), _port("w_port_2", "write", lanes_out, "O, fh"),
            ]),
            "wgt": _memory(8 * c["wgt_bytes"], ["I2"], [
                _port("r_port_1", "read", 8 * c["block_in"] * c["block_out"], "I2, tl"),
                _port("w_port_1", "write", bus, "I2, fh"),
            ]),
            "act": _memory(8 * c["act_bytes"], ["I1", "O"], [
                _port("r_port_1", "read", lanes_in, "I1, tl"), _port("r_port_2", "read", bus, "O, tl", "O, th"),
                _port("w_port_1", "write", bus, "I1, fh", "O, fh"),
                _port("w_port_2", "write", 8 * c["block_out"], "O, fl"),
            ]),
            "dram": _memory(_DRAM_BITS, ["I1", "I2", "O"], [
                _port("r_port_1", "read", bus, *(f for f in reads if not f.endswith("fh"))),
                _port("w_port_1", "write", bus, "I1, fh", "I2, fh", "O, fh", "O, fl"),
            ]),
        },
        "operational_array": {
            "unit_energy": 1, "unit_area": 1, "dimensions": ["D1", "D2"], "sizes": [c["block_out"], c["block_in"]],
            "input_precision": [8, 8],
        },
    }  # fmt: skip


def mapping(c: dict[str, int]) -> list[dict[str, Any]]:
    """Output channels along D1, input channels along D2; the order of the loops is ZigZag's to find."""
    return [{
        "name": "default", "spatial_mapping": {"D1": [f"K, {c['block_out']}"], "D2": [f"C, {c['block_in']}"]},
        "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
    }]  # fmt: skip


def workload(layer: dict[str, Any]) -> dict[str, Any]:
    """A convolution with its loops; input and output are in DRAM."""
    stride = layer["stride"]
    return {
        "id": 0, "name": layer["name"], "operator_type": "Conv",
        "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
        "dimension_relations": [f"ix={stride}*ox+1*fx", f"iy={stride}*oy+1*fy"],
        "loop_dims": ["B", "K", "C", "OY", "OX", "FY", "FX"],
        "loop_sizes": [
            1, layer["channels"], layer["in_channels"], layer["height"], layer["width"], *layer["kernel"],
        ],
        "operand_precision": {"W": 8, "I": 8, "O": 32, "O_final": 8}, "operand_source": {"I": 0, "W": 0},
    }  # fmt: skip


def main() -> None:
    """Reads {"config", "layers"}; writes {"version"}, then {"name", "cycles", "seconds"} of each layer, a line each."""
    request = json.load(sys.stdin)
    from zigzag import api

    logging.disable(logging.WARNING)
    config, answers = request["config"], sys.stdout
    print(json.dumps({"version": version("zigzag-dse")}), file=answers, flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        files = {name: Path(folder) / f"{name}.yaml" for name in ("accelerator", "mapping")}
        files["accelerator"].write_text(json.dumps(accelerator(config)))
        files["mapping"].write_text(json.dumps(mapping(config)))
        for layer in request["layers"]:
            start = time.process_time()
            _, latency, _ = api.get_hardware_performance_zigzag(
                [workload(layer)], str(files["accelerator"]), str(files["mapping"]), opt="latency", dump_folder=folder,
                loma_show_progress_bar=False,
            )  # fmt: skip
            seconds = time.process_time() - start
            answer = {"name": layer["name"], "cycles": float(latency), "seconds": seconds}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
