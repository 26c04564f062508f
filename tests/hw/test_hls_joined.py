"""The joined HLS design, kernels inside, driven through the RTL's registers: bytes, counters, faults as on sim."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.hw import hls_cosim
from tests.hw.hls_cosim import Joined, build
from tests.hw.hls_programs import begin, finish
from tests.isa.build import ALU, GEMM, LOAD, OUTPUT, PAIRED, STORE, TINY, Builder
from tests.runtime.network import make_program
from tests.verification.random_program import random_program, random_segments
from tilewright.config import Config
from tilewright.hw.hls.join import join_kernels
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import ID_VALUE, Control, FaultCode, Status, offsets
from tilewright.isa.spec import Engine, Memory
from tilewright.sim import simulate

pytestmark = pytest.mark.slow
PAGE = 4096
START, ACKNOWLEDGE = 1 << Control.START, 1 << Control.ACKNOWLEDGE
LIMIT = 20_000_000  #: cycles
DRAM_BYTES = 1 << 21
Segments = list[NDArray[np.uint8]]


@pytest.fixture(scope="module", params=["", "-DTW_READ_EVERY_BANK"], ids=["native", "every-bank"])
def library(
    toolchain: None, hls_toolchain: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Built once as the kernels are run natively, once with reads as the synthesis tool sees them."""
    return build(TINY, tmp_path_factory.mktemp("joined"), (request.param,) if request.param else ())


def pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


class Board:
    """What a driver does: lay out DRAM, write the registers, start, wait, read.

    ``beside``: the board of another core of the same design, whose shared segments are there at the same place.
    """

    def __init__(self, library: Path, config: Config = TINY, core: int = 0, beside: Board | None = None) -> None:
        self.config, self.order, self.registers = config, DramOrder(config), offsets(config, core)
        self.dram: NDArray[np.uint8] = np.zeros(DRAM_BYTES, np.uint8) if beside is None else beside.dram
        self.design: Joined = Joined(library, self.dram) if beside is None else beside.design
        self.shared: dict[str, tuple[int, int]] = {} if beside is None else beside.shared
        self.begin = core * DRAM_BYTES // config.cores
        self.places: list[tuple[int, int]] = []

    def prepare(self, program: Program, repeats: list[Segments]) -> None:
        """Program, and the segments of each inference; every segment has a copy for each."""
        self.places, end = [], self.begin + pages(len(program.instructions))
        self.order.write(self.dram, self.begin, np.frombuffer(program.instructions, np.uint8))
        for number, spec in enumerate(program.segments):
            if spec.kind == "shared" and self.shared.setdefault(spec.name, (end, spec.size))[0] != end:
                self.places.append(self.shared[spec.name])
                continue
            self.places.append((end, spec.size))
            for contents in repeats:
                self.order.write(self.dram, end, contents[number])
                end += pages(spec.size)
        assert end <= self.begin + DRAM_BYTES // self.config.cores
        beats = -(-len(program.instructions) // self.config.beat_bytes)
        self.set(
            PROGRAM_LOW=self.begin, PROGRAM_BEATS=beats, PROGRAM_INSTRUCTIONS=len(program.table()), REPEAT=len(repeats)
        )
        self.set(INTERRUPT_ENABLE=1)
        for number, (first, size) in enumerate(self.places):
            at = f"SEGMENT{number}_"
            values = {"BASE_LOW": first, "LIMIT": size // self.config.beat_bytes, "STRIDE": pages(size)}
            self.set(**{at + name: value for name, value in values.items()})

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.design.write(self.registers[name], value)

    def get(self, name: str) -> int:
        return self.design.read(self.registers[name])

    def run(self) -> None:
        self.set(CONTROL=START)
        assert self.design.wait(LIMIT) > 0
        assert not self.design.outside

    def segments(self, repeat: int = 0) -> Segments:
        return [self.order.read(self.dram, first + repeat * pages(size), size) for first, size in self.places]


@pytest.fixture
def board(library: Path) -> Iterator[Board]:
    opened = Board(library)
    yield opened
    opened.design.close()


def on_sim(program: Program, segments: Segments) -> Segments:
    expected = [content.copy() for content in segments]
    assert simulate(program, expected).fault is None
    return expected


def random_case(seed: int, config: Config = TINY) -> tuple[Program, Segments]:
    rng = np.random.default_rng(seed)
    program = random_program(rng, config, 24)
    return program, random_segments(rng, program)


def check_random(board: Board, seed: int) -> None:
    """The board does as sim does with a random program."""
    program, segments = random_case(seed, board.config)
    board.prepare(program, [segments])
    board.run()
    for spec, found, expected in zip(program.segments, board.segments(), on_sim(program, segments)):
        assert np.array_equal(found, expected), f"seed {seed}: {spec.name}"


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_leave_the_bytes_that_sim_leaves(board: Board, seed: int) -> None:
    assert board.get("ID") == ID_VALUE
    check_run(board, seed)


def check_run(board: Board, seed: int) -> None:
    """As :func:`check_random`, and the counters tell what was done."""
    check_random(board, seed)
    assert board.get("STATUS") == 1 << Status.DONE
    assert board.get("COMPLETED") == 1
    assert board.get("CYCLES_LOW") > 0
    issued = sum(board.get(f"{engine.name}_INSTRUCTIONS") for engine in Engine)
    assert issued == board.get("PROGRAM_INSTRUCTIONS")
    assert board.get("FETCH_BEATS") == board.get("PROGRAM_BEATS")


def test_inferences_in_one_launch(board: Board) -> None:
    program, first = random_case(6)
    repeats = [first, *(random_segments(np.random.default_rng(seed), program) for seed in (100, 101))]
    for later in repeats[1:]:
        for number, spec in enumerate(program.segments):
            if spec.kind == "constant":
                later[number] = first[number]
    expected = [on_sim(program, segments) for segments in repeats]
    board.prepare(program, repeats)
    board.run()
    assert board.get("COMPLETED") == 3
    for k, wanted in enumerate(expected):
        assert all(np.array_equal(a, b) for a, b in zip(board.segments(k), wanted)), f"inference {k}"


def test_two_memory_ports(toolchain: None, hls_toolchain: None, tmp_path: Path) -> None:
    board = Board(build(PAIRED, tmp_path), PAIRED)
    for seed in range(6):
        check_run(board, seed)
        board.set(CONTROL=ACKNOWLEDGE)
    board.design.close()


def test_a_fault_is_told_and_the_kernels_start_afresh(board: Board) -> None:
    program = make_program(TINY, faulty=True)
    segments = random_segments(np.random.default_rng(0), program)
    fault = simulate(program, [content.copy() for content in segments]).fault
    assert fault is not None
    board.prepare(program, [segments])
    board.run()
    assert board.get("STATUS") == 1 << Status.DONE | 1 << Status.FAULT
    assert (board.get("FAULT_CODE"), board.get("FAULT_INSTRUCTION")) == (FaultCode.SEGMENT, fault.instruction)
    board.set(CONTROL=ACKNOWLEDGE)
    check_random(board, 7)


def test_a_hung_program_ends_by_the_watchdog(board: Board) -> None:
    b = Builder(TINY)
    b.wait(LOAD)
    b.wait(GEMM, pop=[ALU])
    program = b.program()
    board.prepare(program, [random_segments(np.random.default_rng(0), program)])
    board.set(WATCHDOG=3000)
    board.run()
    assert (board.get("FAULT_CODE"), board.get("CYCLES_LOW")) == (FaultCode.WATCHDOG, 3000)
    board.set(CONTROL=ACKNOWLEDGE)
    board.set(WATCHDOG=0)
    check_random(board, 8)


def close_readers() -> Program:
    """GEMM reads one bank of act again and again while STORE reads another, and then ALU what GEMM has made."""
    b = Builder(TINY)
    begin(b)
    units = TINY.act_bank_units
    b.load(Memory.ACT, count=units, sram=units, push=[STORE])
    b.gemm(count=32, inner=12, pop=[LOAD], push=[ALU])
    b.store(count=units, sram=units, pop=[LOAD], offset=1024)
    b.wait(ALU, pop=[LOAD, GEMM])
    return finish(b)


def check_readers(board: Board) -> None:
    program = close_readers()
    segments = random_segments(np.random.default_rng(0), program)
    board.prepare(program, [segments])
    board.run()
    assert np.array_equal(board.segments()[OUTPUT], on_sim(program, segments)[OUTPUT])


def test_readers_of_different_banks_do_not_disturb_each_other(board: Board) -> None:
    check_readers(board)


@pytest.mark.parametrize(
    "changes",
    [
        {r"(act_1_0_\w+_read) = .*;": r"\1 = 1'b0;"},  # a bank that nobody can read
        # GEMM's reads of the spare row are taken for reads, of another row than STORE's
        {r"& !act_1_0_gemm\d_address\[\d+\]": "", r"& (act_1_0_gemm\d_address\[\d+:0\])": r"& ~\1"},
    ],
    ids=["no-reads", "spare-row-read"],
)
def test_a_broken_join_shows(
    toolchain: None, hls_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, str]
) -> None:
    def broken(shapes: dict[str, Any], texts: dict[str, str]) -> str:
        text = join_kernels(shapes, texts)
        for pattern, replacement in changes.items():
            text, count = re.subn(pattern, replacement, text)
            assert count
        return text

    monkeypatch.setattr(hls_cosim, "join_kernels", broken)
    board = Board(build(TINY, tmp_path, ("-DTW_READ_EVERY_BANK",)))
    with pytest.raises(AssertionError):
        check_readers(board)
