"""How many rows of each tensor act holds: everything at first, then less of the largest until it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.plan.planner import INPUT_LEAD, Plan
from tilewright.jit.plan.policy import Policy
from tilewright.jit.schedule.actions import Action, ScheduleError
from tilewright.jit.schedule.scheduler import Scheduler

_SLACK = 2  #: rows beyond the least, so that producer and consumer overlap
_ATTEMPTS = 200


def fit(lowered: Lowered, plan: Plan, policy: Policy) -> list[Action]:
    """A complete schedule, shrinking rings until act holds them. Raises :class:`ScheduleError` if none does.

    ``plan``: the network streaming as a whole with the least rows, to which ``lowered`` is bound.
    """
    buffers = lowered.buffers
    least = {name: buffer.capacity for name, buffer in buffers.items()}
    for name, buffer in buffers.items():
        slack = INPUT_LEAD if name in lowered.packs else buffer.rows if policy.slack is None else policy.slack
        buffer.capacity = min(buffer.rows, least[name] + slack + slack % buffer.step)
    for _ in range(_ATTEMPTS):
        scheduler = Scheduler(plan.config, lowered, policy)
        try:
            scheduler.run()
            return scheduler.actions
        except ScheduleError as error:
            failure = error
            if not _shrink(failure.tensors, buffers, least):
                break
    raise failure


def _shrink(names: Sequence[str], buffers: Mapping[str, Buffer], least: Mapping[str, int]) -> bool:
    """Take rows from the tensor that can give most; False if all are at their least."""
    for slack in (_SLACK, 0):
        spare = {n: (buffers[n].capacity - least[n] - slack) * buffers[n].stride for n in names}
        largest = max(spare, key=lambda n: spare[n], default=None)
        if largest is not None and spare[largest] > 0:
            buffer, bottom = buffers[largest], least[largest] + slack
            less = buffer.capacity * 5 // 8
            buffer.capacity = max(bottom, less - less % buffer.step)
            return True
    return False
