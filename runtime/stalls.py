"""Idle cycles of the engines by cause, as reports name them, from the hardware's counter registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.isa.spec import Engine, others


def _names() -> Iterator[tuple[str, str]]:
    for engine in Engine:
        causes = {"empty": "EMPTY", "drain": "DRAIN", "bus": "BUS", "outstanding": "OUTSTANDING"}
        causes |= {f"token_{other.name}": f"WAIT_{other.name}" for other in others(engine)}
        for cause, register in causes.items():
            yield f"{engine.name}.{cause}", f"{engine.name}_{register}"


_NAMES = tuple(_names())  #: (``engine.cause``, register)


def register_stalls(counters: Mapping[str, int]) -> dict[str, int]:
    """``engine.cause`` -> cycles, zeros left out. ``counters``: register values by name (``LOAD_EMPTY``)."""
    return {name: cycles for name, register in _NAMES if (cycles := counters[register])}
