"""What the ``hls`` device tells of cores that end in different ways; the kernels are not asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import TINY, make_program
from tilewright.hw.hls.model import Ending, Outcome, Work
from tilewright.isa.dram_order import DramOrder
from tilewright.runtime.device_base import DeviceFault
from tilewright.runtime.hls_device import HlsDevice

DONE, SEGMENT, TOKEN, DOORBELL = Outcome


class Model:
    """Kernels that end as they are told."""

    def __init__(self, endings: Sequence[Outcome]) -> None:
        self.endings, self.works = endings, list[Work]()

    def run(self, works: Sequence[Work]) -> list[Ending]:
        self.works = list(works)
        return [Ending(outcome, 3 + core) for core, outcome in enumerate(self.endings)]


def device(*endings: Outcome) -> Any:
    made = object.__new__(HlsDevice)
    made.config, made.order, made._model = TINY, DramOrder(TINY), Model(endings)  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("endings", "code", "core"),
    [
        ((DONE, DONE), "", 0), ((DONE, SEGMENT), "SEGMENT", 1), ((TOKEN, SEGMENT), "WATCHDOG", 0),
        ((DOORBELL, SEGMENT), "SEGMENT", 1), ((DOORBELL, TOKEN), "WATCHDOG", 1), ((DOORBELL, DONE), "WATCHDOG", 0),
        ((DONE, DOORBELL), "WATCHDOG", 1),
    ],
)  # fmt: skip
def test_a_core_that_waits_for_another_is_not_what_is_told(endings: tuple[Outcome, ...], code: str, core: int) -> None:
    opened = device(*endings)
    allocations = [opened.allocate(make_program(), 1) for _ in endings]
    inferences = [(allocation, 0, 0) for allocation in allocations]
    if not code:
        opened._run(inferences)
        return
    with pytest.raises(DeviceFault) as found:
        opened._run(inferences)
    assert (found.value.code, found.value.instruction) == (code, 3 + core)
    assert ("doorbell" in found.value.detail) is (endings[core] is DOORBELL)


def test_each_inference_has_its_own_segments() -> None:
    opened, program = device(DONE), make_program()
    allocation = opened.allocate(program, 3)
    state = allocation.state
    assert bytes(state.dram[: len(program.instructions)]) == program.instructions
    for k in range(3):
        opened._run([(allocation, 0, k)])
        (work,) = opened._model.works
        for number, segment in enumerate(program.segments):
            place, size = work.segments[number]
            assert size == segment.size
            opened.write(allocation, number, k, 0, np.full(4, 10 * k + number, np.uint8))
            assert state.dram[place : place + 4].tolist() == [10 * k + number] * 4
            assert place + segment.size <= len(state.dram)
