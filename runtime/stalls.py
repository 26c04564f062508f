"""Idle cycles of the engines by cause, as reports name them, from the hardware's counter registers."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.isa.spec import Engine, others


def register_stalls(counters: Mapping[str, int]) -> dict[str, int]:
    """``engine.cause`` -> cycles, zeros left out. ``counters``: register values by name (``LOAD_EMPTY``)."""
    stalls: dict[str, int] = {}
    for engine in Engine:
        causes = {"empty": "EMPTY", "drain": "DRAIN", "bus": "BUS", "outstanding": "OUTSTANDING"}
        causes |= {f"token_{other.name}": f"WAIT_{other.name}" for other in others(engine)}
        for cause, register in causes.items():
            stalls[f"{engine.name}.{cause}"] = counters[f"{engine.name}_{register}"]
    return {name: cycles for name, cycles in stalls.items() if cycles}
