"""How many rows of each tensor act holds: everything at first, then less of the largest until it fits."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.config import Config
from tilewright.jit.actions import Policy, ScheduleError
from tilewright.jit.kernels.base import Node
from tilewright.jit.layout import Buffer
from tilewright.jit.rings import RingSizes
from tilewright.jit.schedule import Scheduler

INPUT_LEAD = 4  #: rows of a network input that may be loaded ahead of need
_SLACK = 2  #: rows beyond the least, so that producer and consumer overlap
_ATTEMPTS = 200


def least_capacities(nodes: list[Node], buffers: Mapping[str, Buffer]) -> dict[str, int]:
    """Least rows of every ring where all nodes stream together."""
    rings = RingSizes(nodes, buffers)
    return {name: rings.least(name, 0, len(nodes) - 1) for name in buffers}


def fit(
    config: Config,
    nodes: list[Node],
    buffers: Mapping[str, Buffer],
    inputs: list[str],
    stored: list[str],
    policy: Policy,
) -> Scheduler:
    """A complete schedule, shrinking rings until act holds them. Raises :class:`ScheduleError` if none does."""
    least = least_capacities(nodes, buffers)
    for name, buffer in buffers.items():
        slack = INPUT_LEAD if name in inputs else buffer.rows if policy.slack is None else policy.slack
        buffer.capacity = min(buffer.rows, least[name] + slack)
    for _ in range(_ATTEMPTS):
        scheduler = Scheduler(config, nodes, buffers, inputs, stored, policy, {})
        try:
            scheduler.run()
            return scheduler
        except ScheduleError as error:
            failure = error
            if not _shrink(failure.tensors, buffers, least):
                break
    raise failure


def _shrink(names: list[str], buffers: Mapping[str, Buffer], least: Mapping[str, int]) -> bool:
    """Take rows from the tensor that can give most; False if all are at their least."""
    for slack in (_SLACK, 0):
        spare = {n: (buffers[n].capacity - least[n] - slack) * buffers[n].stride for n in names}
        largest = max(spare, key=lambda n: spare[n], default=None)
        if largest is not None and spare[largest] > 0:
            buffer, floor = buffers[largest], least[largest] + slack
            buffer.capacity = max(floor, min(buffer.capacity - 1, buffer.capacity * 5 // 8))
            return True
    return False
