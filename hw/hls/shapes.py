"""What the kernels are joined by: memories, by bank and slice, streams, and the ports of the control unit that are the
whole design's. ``join.py`` is handed this as JSON."""

from __future__ import annotations

from typing import Any

from tilewright.config import Config
from tilewright.hw.hls.header import constants
from tilewright.hw.rtl.ports import host_ports
from tilewright.isa.spec import Engine, others

RETIRE_DEPTH = 4  #: dispatch looks at every retire stream in every cycle


def shapes(config: Config) -> dict[str, Any]:
    """All that the join is handed. Raises :class:`ConfigError` for several cores."""
    config.check_one_core("the joined HLS design")
    return {
        "memories": memory_shapes(config),
        "streams": stream_shapes(config),
        "axi_ports": config.axi_ports,
        "control": [(p.name, f"{p.direction}put", p.width) for p in host_ports(config)],
    }


def memory_shapes(config: Config) -> list[dict[str, Any]]:
    """Memories as the C++ arrays of ``kernels/types.hpp``, after partition and reshape.

    ``dims``: the partitioned dimensions, each combination a RAM of its own of ``rows`` x ``width`` bits;
    ``spare``: one more row, which is not there: a read of it is none. ``kernels``: argument by kernel.
    """
    c = constants(config)
    act_rows = c["ACT_BANK_UNITS"] // c["ACT_SPAN"]
    acc_rows = c["ACC_BANK_UNITS"] // c["OUT_UNITS"]
    uops = {}
    for name in ("GEMM", "ALU"):
        bits = c[f"UOP_{name}_BITS"]
        per_beat = max(c["BEAT_BITS"] // bits, 1)
        uops[name] = {"dims": [], "rows": c[f"UOP_{name}_DEPTH"] // per_beat, "width": bits * per_beat, "spare": False}
    beat = c["BEAT_BITS"]
    return [
        {"name": "act", "dims": [c["ACT_BANKS"], c["ACT_SPAN"] * c["ACT_PARTS"]], "rows": act_rows, "width": beat,
         "spare": True, "kernels": {"load": "act", "gemm": "act", "alu": "act", "store": "act"}},
        {"name": "acc", "dims": [c["ACC_BANKS"], c["OUT_UNITS"] * c["ACC_PARTS"]], "rows": acc_rows, "width": beat,
         "spare": True, "kernels": {"load": "acc", "gemm": "acc", "alu": "acc"}},
        {"name": "wgt", "dims": [c["WGT_PARTS"]], "rows": c["WGT_ENTRIES"], "width": beat, "spare": False,
         "kernels": {"load": "wgt", "gemm": "wgt"}},
        {"name": "prm", "dims": [c["PRM_PARTS"]], "rows": c["PRM_ENTRIES"], "width": beat, "spare": False,
         "kernels": {"load": "prm", "alu": "prm"}},
        {"name": "tables", "dims": [c["OUT_UNITS"] * c["UNIT"]], "rows": c["TABLE_ROWS"],
         "width": 8 * c["TABLE_ENTRY_VALUES"], "spare": False, "kernels": {"load": "tables", "alu": "tables"}},
        {"name": "uops_gemm", **uops["GEMM"], "kernels": {"load": "uops_gemm", "gemm": "uops"}},
        {"name": "uops_alu", **uops["ALU"], "kernels": {"load": "uops_alu", "alu": "uops"}},
    ]  # fmt: skip


def stream_shapes(config: Config) -> list[dict[str, Any]]:
    """Streams: kernel and port at both ends, and the entries that they hold."""
    tokens = 1 << (config.token_depth + config.queue_depth).bit_length()
    found: list[dict[str, Any]] = []
    for engine in Engine:
        name = engine.name.lower()
        found.append({"from": ["dispatch", name], "to": [name, "commands"], "depth": config.queue_depth})
        found.append({"from": [name, "retired"], "to": ["dispatch", f"{name}_retired"], "depth": RETIRE_DEPTH})
        for other in others(engine):
            target = other.name.lower()
            found.append({"from": [name, f"to_{target}"], "to": [target, f"from_{name}"], "depth": tokens})
    return found
