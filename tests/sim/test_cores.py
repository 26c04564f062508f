"""Several cores before one DRAM: against the clock-by-clock model, and by hand where numbers are easy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.build import DEFAULT, code, program, random_case, wait
from tests.sim.naive_cores import run_naive_cores
from tests.verification.random_exchange import random_exchange
from tests.verification.random_program import random_config, random_program
from tilewright.config import PRESETS, Config
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.isa.verifier import verify_together
from tilewright.sim import Run, SimulationError, simulate_cores, simulate_timing, steady_interval
from tilewright.sim.cores import _Shared
from tilewright.sim.decoded import decode_program

TINY = PRESETS["tiny"]


def load(beats: int) -> Program:
    """A program that reads so many beats in one row, on the default config."""
    codes = [code(Opcode.LOAD, memory=Memory.ACT, sram_col=1, cols=beats // 2, wrap_size=1024)]
    return program(codes, DEFAULT, 1 << 16)


def shared(config: Config, cores: int, bandwidth: int) -> Config:
    return config.replace(cores=cores, dram_bandwidth=bandwidth)


def assert_same(config: Config, work: list[list[tuple[int, Program]]]) -> int:
    """Starts and the times of every instruction are those of the clocked model; the beats that waited."""
    runs = [Run(c, made, delay=delay) for c, own in enumerate(work) for delay, made in own]
    fast = iter(simulate_cores(config, runs))
    held = 0
    for own in run_naive_cores(config, work):
        for start, model in own:
            ran = next(fast)
            assert ran.timing is not None
            assert (ran.start, ran.end) == (start, start + model.end)
            assert ran.timing.dispatch.tolist() == model.dispatch
            assert ran.timing.issue.tolist() == model.issue
            assert ran.timing.retire.tolist() == model.retire
            for counters in ran.timing.engines.values():
                assert counters.busy + counters.empty + counters.drain + sum(counters.tokens.values()) == model.end
            held += ran.timing.held
    return held


@given(st.integers(0, 1 << 32))
@settings(max_examples=15, deadline=None)
def test_random_programs_share_a_dram(seed: int) -> None:
    """Random configs, one to four cores, every limit that can hold them up, delays, programs one after another."""
    rng = np.random.default_rng(seed)
    config, cores = random_config(rng), int(rng.integers(2, 5))
    beat = config.beat_bytes
    config = shared(config, cores, int(rng.integers(2 * beat, 2 * cores * beat)))
    work = [
        [(int(rng.integers(0, 200)), random_program(rng, config, 8)) for _ in range(rng.integers(1, 3))]
        for _ in range(cores)
    ]
    assert_same(config, work)


def test_random_programs_do_hold_each_other_up() -> None:
    """Else the comparison above would say little."""
    rng = np.random.default_rng(1)
    for preset in ("tiny", "pynq-z2", "zcu104"):
        config = shared(PRESETS[preset], 4, 2 * PRESETS[preset].beat_bytes + 1)
        assert assert_same(config, [[(0, random_program(rng, config, 40))] for _ in range(4)]) > 0


@pytest.mark.parametrize("seed", range(10))
def test_one_core_on_the_shared_loop_is_the_core_alone(seed: int) -> None:
    """A limit that never binds changes no cycle and no counter, whichever of the two loops runs."""
    made = random_case(seed)[1]
    config = shared(made.config, 1, 2 * made.config.beat_bytes)
    machine = _Shared(config, [Run(0, made)], {id(made): decode_program(made)})
    machine.begin(0, made, 0, 77)
    ((_, ran),) = machine.ended()
    alone = simulate_timing(made)
    assert ran.timing is not None
    assert (ran.start, ran.end) == (77, 77 + alone.cycles)
    assert ran.timing.retire.tolist() == alone.retire.tolist()
    assert ran.timing.engines == alone.engines
    assert (ran.timing.load_bytes, ran.timing.store_bytes) == (alone.load_bytes, alone.store_bytes)


def test_four_cores_at_the_limit_of_two() -> None:
    made = load(1000)
    alone = simulate_timing(made).cycles
    ran = simulate_cores(shared(DEFAULT, 4, 16), [Run(c, made) for c in range(4)])
    assert max(r.end for r in ran) == pytest.approx(alone + 1000, abs=4)
    assert all(r.timing is not None and r.timing.held > 900 for r in ran)


def test_no_limit_is_the_core_alone() -> None:
    made = load(512)
    alone = simulate_timing(made).cycles
    ran = simulate_cores(DEFAULT.replace(cores=8), [Run(c, made) for c in range(8) for _ in range(3)])
    assert [r.end for r in ran] == [alone, 2 * alone, 3 * alone] * 8


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_results_come_one_run_apart_where_nothing_holds_cores_up(cores: int) -> None:
    made = load(512)
    assert steady_interval(DEFAULT.replace(cores=cores), made) == simulate_timing(made).cycles / cores


def test_results_come_as_fast_as_the_dram_moves_their_beats() -> None:
    """Four cores that do nothing but read, as fast as two can be served."""
    assert steady_interval(shared(DEFAULT, 4, 16), load(1000)) == pytest.approx(1000 / 2, rel=0.05)


@pytest.mark.parametrize("bandwidth", [0, 16])
def test_a_run_comes_after_those_it_needs(bandwidth: int) -> None:
    """Cores and somebody else in a row; each worker takes its runs in order."""
    made, config = load(64), shared(DEFAULT, 2, bandwidth)
    alone = simulate_timing(made).cycles
    runs = [Run(0, made), Run(2, 100, after=(0,)), Run(1, made, after=(1,), delay=5), Run(0, made, after=(2,))]
    ran = simulate_cores(config, runs)
    assert [(r.start, r.end) for r in ran] == [
        (0, alone), (alone, alone + 100), (alone + 105, 2 * alone + 105), (2 * alone + 105, 3 * alone + 105),
    ]  # fmt: skip
    assert ran[1].timing is None


@pytest.mark.parametrize(
    "run,message",
    [
        (Run(2, load(64)), "run 0: there is no core 2, cores = 2"),
        (Run(-1, 3), "run 0: worker, delay and cycles must not be negative"),
        (Run(3, -3), "run 0: worker, delay and cycles must not be negative"),
        (Run(0, load(64), after=(0,)), r"run 0: can only come after runs before it in the list, not \(0,\)"),
        (Run(0, random_program(np.random.default_rng(0), TINY, 3)), "run 0: its program is for another config"),
        (Run(0, program([wait(Engine.GEMM, pop=[Engine.LOAD])])), "run 0 on core 0: can never end"),
    ],
)
@pytest.mark.parametrize("bandwidth", [0, 16])
def test_what_cannot_be_run_is_refused(run: Run, message: str, bandwidth: int) -> None:
    with pytest.raises(SimulationError, match=message):
        simulate_cores(shared(DEFAULT, 2, bandwidth), [run])


@given(st.integers(0, 1 << 32))
@settings(max_examples=15, deadline=None)
def test_random_programs_exchange(seed: int) -> None:
    """Doorbells, on random configs with and without a limit."""
    rng = np.random.default_rng(seed)
    config, cores = random_config(rng), int(rng.integers(2, 5))
    beat = config.beat_bytes
    config = shared(config, cores, int(rng.integers(2)) * int(rng.integers(2 * beat, 2 * cores * beat)))
    programs = random_exchange(rng, config, 6)
    verify_together(programs)
    assert_same(config, [[(int(rng.integers(0, 300)), made)] for made in programs])


def test_doorbells_wait_for_the_next_program_of_a_core() -> None:
    """A ring and who hears it may be of launches apart; its latency counts from its retire."""
    config = shared(DEFAULT, 2, 0)
    rings = program([code(Opcode.WAIT, engine=int(Engine.STORE), ring=2)], config)
    hears = program([code(Opcode.WAIT, engine=int(Engine.LOAD), hear=1)], config)
    alone = program([wait(Engine.LOAD)], config)
    assert_same(config, [[(0, rings), (300, rings)], [(0, alone), (20, hears), (7, hears)]])
    first, _, second = simulate_cores(config, [Run(0, rings), Run(2, 500, after=(0,)), Run(1, hears)])
    assert first.timing is not None
    assert second.timing is not None
    assert second.timing.issue[0] == first.timing.retire[0] + 2
    with pytest.raises(SimulationError, match="run 0 on core 1: can never end: nothing happens after cycle"):
        simulate_cores(config, [Run(1, hears), Run(0, alone)])
    with pytest.raises(SimulationError, match="run [01] on core [01]: can never end"):
        simulate_cores(config, [Run(1, hears), Run(0, program([code(Opcode.WAIT, engine=0, hear=2)], config))])
