"""Two cores of the joined HLS design, kernels inside: programs that exchange leave the bytes that sim leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hw import hls_cosim
from tests.hw.hls_cosim import build
from tests.hw.test_hls_joined import ACKNOWLEDGE, START, Board, Segments, on_sim
from tests.isa.build import TINY
from tests.verification.random_exchange import random_exchange
from tests.verification.random_program import random_program, random_segments
from tests.verification.test_doorbells import joined, waits
from tilewright.hw.hls.join import join_kernels
from tilewright.isa.program import Program
from tilewright.isa.registers import FaultCode, Status
from tilewright.isa.spec import Engine
from tilewright.isa.verifier import joint_order, verify_together
from tilewright.sim import Functional, run_together

pytestmark = pytest.mark.slow
TWO = TINY.replace(cores=2)
LIMIT = 500_000  #: cycles
HEARS, RINGS = waits((Engine.LOAD, "hear", 1)), waits(*[(Engine.STORE, "ring", 2)] * 3)
DONE, FAULT = 1 << Status.DONE, 1 << Status.FAULT


@pytest.fixture(scope="module")
def boards(toolchain: None, hls_toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    return open_boards(tmp_path_factory.mktemp("cores"))


def open_boards(folder: Path) -> list[Board]:
    first = Board(build(TWO, folder), TWO)
    return [first, Board(Path(), TWO, core=1, beside=first)]


def run(boards: Sequence[Board], programs: Sequence[Program], memories: Sequence[Segments], watchdog: int = 0) -> None:
    """Run a program on each core, until the interrupt has told of both."""
    boards[0].set(DOORBELLS=0)
    boards[0].shared.clear()
    for board, program, segments in zip(boards, programs, memories):
        board.prepare(program, [segments])
        board.set(WATCHDOG=watchdog)
    for board in boards[::-1]:
        board.set(CONTROL=START)
    told = 0
    while told != 0b11:
        assert boards[0].design.wait(LIMIT) >= 0
        told |= boards[0].get("INTERRUPTS")
        for core, board in enumerate(boards):
            board.set(INTERRUPT_ENABLE=int(not told >> core & 1))
    assert not boards[0].design.outside


def differing(boards: Sequence[Board], seed: int) -> list[str]:
    """Segments that random programs that exchange leave unlike sim."""
    rng = np.random.default_rng(seed)
    programs = random_exchange(rng, TWO, 12)
    verify_together(programs)
    expected = joined(programs, rng)
    found = [[content.copy() for content in memories] for memories in expected]
    run_together([Functional(program) for program in programs], expected, joint_order(programs).turns)
    run(boards, programs, found)
    return [
        f"seed {seed}, core {core}: {spec.name}"
        for core, (board, program, wanted) in enumerate(zip(boards, programs, expected))
        for spec, mine, theirs in zip(program.segments, board.segments(), wanted) if not np.array_equal(mine, theirs)
    ]  # fmt: skip


def check_exchange(boards: Sequence[Board], seed: int) -> None:
    """Bytes are sim's, the registers tell of both cores, and no doorbell is left."""
    assert differing(boards, seed) == []
    for board in boards:
        assert board.get("STATUS") == DONE
        assert sum(board.get(f"{e.name}_INSTRUCTIONS") for e in Engine) == board.get("PROGRAM_INSTRUCTIONS")
        board.set(CONTROL=ACKNOWLEDGE)
    assert boards[0].get("DOORBELLS") == 0


@pytest.mark.parametrize("seed", range(12))
def test_programs_that_exchange_leave_the_bytes_that_sim_leaves(boards: list[Board], seed: int) -> None:
    assert boards[0].get("CORES") == 2
    check_exchange(boards, seed)


def test_cores_on_their_own_do_not_disturb_each_other(boards: list[Board]) -> None:
    rng = np.random.default_rng(20)
    programs = [random_program(rng, TWO, 24) for _ in boards]
    memories = [random_segments(rng, program) for program in programs]
    run(boards, programs, memories)
    for board, program, segments in zip(boards, programs, memories):
        assert all(np.array_equal(a, b) for a, b in zip(board.segments(), on_sim(program, segments)))
        board.set(CONTROL=ACKNOWLEDGE)


def test_a_core_that_hears_nothing_ends_with_its_watchdog_and_leaves_nothing_behind(boards: list[Board]) -> None:
    first, second = boards
    hears = waits(*[(Engine.LOAD, "hear", 1)] * 4)
    run(boards, [RINGS, hears], [[], []], watchdog=4000)
    assert [board.get("STATUS") for board in boards] == [DONE, DONE | FAULT]
    assert second.get("FAULT_CODE") == FaultCode.WATCHDOG
    assert first.get("DOORBELLS") == 0
    for board in boards:
        board.set(CONTROL=ACKNOWLEDGE)
    run(boards, [RINGS, HEARS], [[], []])
    assert [board.get("STATUS") for board in boards] == [DONE, DONE]
    assert first.get("DOORBELLS") == 2, "two that core 1 has not heard"
    for board in boards:
        board.set(CONTROL=ACKNOWLEDGE)
    check_exchange(boards, 30)


def test_doorbells_that_are_heard_early_show(
    toolchain: None, hls_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(shapes: dict[str, Any], texts: dict[str, str]) -> str:
        text, count = re.subn(r"\.bell_there\(\w+\)", ".bell_there(2'b11)", join_kernels(shapes, texts))
        assert count
        return text

    monkeypatch.setattr(hls_cosim, "join_kernels", broken)
    boards = open_boards(tmp_path)
    assert [seed for seed in range(12) if differing(boards, seed)]
