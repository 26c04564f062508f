"""What the kernels are joined by: memories, by bank and slice, streams, and the ports of the control unit that are the
whole design's. ``join.py`` is handed this as JSON."""

from __future__ import annotations

from typing import Any, Literal

from tilewright.config import Config
from tilewright.hw.hls.header import constants
from tilewright.hw.rtl.ports import Port, host_ports, inner_ports
from tilewright.isa.spec import Engine, core_bits, others

RETIRE_DEPTH = 4  #: dispatch looks at every retire stream in every cycle
BELL_DEPTH = 2  #: the control unit takes a ring at once, and LOAD one answer after another


def shapes(config: Config) -> dict[str, Any]:
    """All that the join is handed."""
    return {
        "memories": memory_shapes(config),
        "streams": stream_shapes(config),
        "axi_ports": config.axi_ports,
        "cores": config.cores,
        "host": _declared(host_ports(config)),
        "control": _declared(inner_ports(config)),
        "told": _declared(bell_streams(config)),
    }


def _declared(ports: list[Port]) -> list[tuple[str, str, int]]:
    return [(p.name, f"{p.direction}put", p.width) for p in ports]


def bell_streams(config: Config) -> list[Port]:
    """The control unit's ends of the streams with dispatch, LOAD and STORE, where there are doorbells; whole bytes."""
    if config.cores == 1:
        return []
    return [
        *_stream("hear", "in", core_bits(config)),
        *_stream("heard", "out", 1),
        *_stream("ring", "in", core_bits(config)),
    ]


def _stream(name: str, way: Literal["in", "out"], bits: int) -> list[Port]:
    back: Literal["in", "out"] = "in" if way == "out" else "out"
    data = Port(f"{name}_TDATA", way, -(-bits // 8) * 8)
    return [data, Port(f"{name}_TVALID", way, 1), Port(f"{name}_TREADY", back, 1)]


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
    if config.cores > 1:  # as many WAITs may be told of as LOAD's queue holds
        found += [
            {"from": ["dispatch", "hear"], "to": ["control", "hear"], "depth": config.queue_depth},
            {"from": ["control", "heard"], "to": ["load", "heard"], "depth": BELL_DEPTH},
            {"from": ["store", "ring"], "to": ["control", "ring"], "depth": BELL_DEPTH},
        ]
    return found
