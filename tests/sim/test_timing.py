"""The cycle model follows the rules: against the clock-by-clock model, and by hand where numbers are easy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dram_vectors import READ_VECTORS, WRITE_VECTORS, ReadVector, WriteVector
from tests.sim.build import DEFAULT, code, program, random_case, wait
from tests.sim.naive_timing import NaiveTiming, cut
from tests.verification.random_program import random_program
from tilewright.config import PRESETS
from tilewright.isa.codec import encode_uops
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.isa.timing import ALU_DEPTH, DONE_LATENCY, FETCH_DEPTH, GEMM_DEPTH, LOAD_DEPTH, STORE_DEPTH
from tilewright.sim import TimingResult, simulate_timing
from tilewright.sim.event_loop import data_end, response_cycle

L, G, A, S = Engine


def assert_same(made: Program) -> TimingResult:
    """The cycle model and the clock-by-clock model give every instruction the same times."""
    fast, slow = simulate_timing(made), NaiveTiming(made)
    cycles = slow.run(2_000_000)
    assert fast.fault is None
    assert fast.dispatch.tolist() == slow.dispatch
    assert fast.issue.tolist() == slow.issue
    assert fast.retire.tolist() == slow.retire
    assert fast.cycles == cycles
    assert_same_counts(fast, slow)
    return fast


def assert_same_counts(fast: TimingResult, slow: NaiveTiming) -> None:
    """Each cycle has the same cause."""
    for engine, counters in fast.engines.items():
        tokens = {source.name: count for source, count in counters.tokens.items()}
        counted = Counter({"busy": counters.busy, "empty": counters.empty, "drain": counters.drain, **tokens})
        assert +counted == +slow.causes[engine], engine
        assert counted.total() == fast.cycles
        if fast.fault is None:  # the cycle model grants ahead of a fault's cycle
            held = Counter({"bus": counters.bus, "outstanding": counters.outstanding})
            assert +held == +slow.held_bursts[engine], engine


@pytest.mark.parametrize("made", [
    *(random_case(seed)[1] for seed in range(4)),
    program([wait(A, 1, pop=[G])]),
    program([wait(G, 1, push=[A]), wait(A, 1, pop=[G]), wait(A, 1, pop=[L, G]), wait(S, 1, pop=[A])]),
], ids=["random0", "random1", "random2", "random3", "one token", "several"])  # fmt: skip
def test_a_watchdog_ends_the_books_in_its_cycle(made: Program) -> None:
    """Also of what waits for a token that never comes. What retires in that very cycle has retired."""
    whole = simulate_timing(made)
    retires = [int(cycle) for cycle in whole.retire if cycle >= 0]
    for watchdog in {3, 200, *retires[::5], *retires[-1:]}:
        fast, slow = simulate_timing(made, watchdog=watchdog), NaiveTiming(made)
        for _ in range(watchdog):
            slow.clock()
        if fast.fault is None:  # done before
            continue
        assert fast.cycles == watchdog
        slow.appear()
        assert fast.retire.tolist() == slow.retire
        assert_same_counts(fast, slow)


@given(st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
def test_random_programs_on_random_configs(seed: int) -> None:
    assert_same(random_case(seed)[1])


@pytest.mark.parametrize("preset", ["pynq-z2", "zcu104", "tiny"])
def test_random_programs_on_presets(preset: str) -> None:
    assert_same(random_program(np.random.default_rng(3), PRESETS[preset], 30))


def test_random_programs_reach_every_kind_of_stall() -> None:
    """Else the comparison above would say little."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        made = random_case(seed)[1]
        result = simulate_timing(made)
        for engine, counters in result.engines.items():
            for cause in ("busy", "empty", "drain", "bus", "outstanding"):
                seen[f"{engine.name} {cause}"] += getattr(counters, cause)
            for source, cycles in counters.tokens.items():
                seen[f"{engine.name} token {source.name}"] += cycles
        engine_column = made.table()["engine"]
        for engine in Engine:  # a full queue: dispatch right after the slot came free
            mine = np.flatnonzero(engine_column == engine)
            late = mine[made.config.queue_depth :]
            early = mine[: len(late)]
            seen["queue full"] += int((result.dispatch[late] == result.issue[early] + 1).sum())
    causes = [f"{e.name} {c}" for e in Engine for c in ("busy", "empty")]
    causes += [f"{a.name} token {b.name}" for a in Engine for b in Engine if a != b]
    causes += ["LOAD drain", "STORE drain", "LOAD bus", "LOAD outstanding", "STORE outstanding", "queue full"]
    assert [c for c in causes if not seen[c]] == []


# -- by hand ---------------------------------------------------------------------------------------------


def test_engines_retire_after_their_depth_and_gemm_has_no_bubbles() -> None:
    """24-byte instructions on an 8-byte bus: one dispatch every three cycles, the first beat at 1 + 32."""
    start = 1 + 32 + 2 + FETCH_DEPTH
    gemm = code(Opcode.GEMM, inner=10, outer=5)
    made = program([gemm, gemm, code(Opcode.ALU, inner=7, pace=1), wait(G, 4)])
    result = simulate_timing(made)
    assert (result.dispatch - start).tolist() == [0, 3, 6, 9]
    assert (result.issue - start).tolist() == [1, 51, 7, 101]
    assert (result.retire - start).tolist() == [50 + GEMM_DEPTH, 100 + GEMM_DEPTH, 20 + ALU_DEPTH, 104 + GEMM_DEPTH]
    assert result.cycles == start + 104 + GEMM_DEPTH + DONE_LATENCY


def test_packed_multipliers_need_a_cycle_after_a_window_instruction() -> None:
    slots = {}
    for packing in (True, False):
        for window in (0, 1):
            for pace in (0, 1):
                gemm = code(Opcode.GEMM, inner=10, window=window, pace=pace)
                issue = simulate_timing(program([gemm, gemm], DEFAULT.replace(dsp_packing=packing))).issue
                slots[packing, window, pace] = int(issue[1] - issue[0])
    assert slots.pop((True, 1, 0)) == 11
    assert slots == {key: 10 * (key[2] + 1) for key in slots}


def test_a_token_costs_one_cycle() -> None:
    result = simulate_timing(program([wait(G, 50, push=[A]), wait(A, 1, pop=[G])]))
    assert result.issue[1] == result.retire[0] + 1
    assert result.engines[A].tokens == {L: 0, G: result.issue[1] - result.dispatch[1] - 1, S: 0}


def test_load_runs_its_addresses_ahead_of_its_data() -> None:
    """Two rows of 40 beats: bursts 16+16+8 each, one address a cycle; the data follows without a gap."""
    load = code(Opcode.LOAD, memory=Memory.ACT, sram_col=1, sram_row=20, rows=2, cols=20, stride=48, wrap_size=64)
    result = simulate_timing(program([load, load], DEFAULT, 4096))
    start = int(result.issue[0])
    assert result.issue[1] == start + 8  # 2 of setup, 6 addresses
    first = start + 2 + 32
    assert result.retire.tolist() == [first + 79 + LOAD_DEPTH, first + 159 + LOAD_DEPTH]
    assert (result.load_bytes, result.fetch_bytes, result.dram_read_bytes) == (2 * 640, 48, 2 * 640 + 48)


def test_bursts_are_cut_at_boundaries_of_the_segment() -> None:
    assert cut(10, 40, 16) == [6, 16, 16, 2]
    load = code(Opcode.LOAD, memory=Memory.ACT, sram_col=1, cols=20, offset=10, wrap_size=64)
    result = simulate_timing(program([load, load], DEFAULT, 4096))
    assert result.issue[1] == result.issue[0] + 2 + 4


def test_store_waits_for_its_response() -> None:
    store = code(Opcode.STORE, sram_col=1, cols=20, wrap_size=64)
    result = simulate_timing(program([store, store], DEFAULT, 4096))
    last = result.issue[0] + 4 + 39
    assert result.retire[0] == last + 32 + STORE_DEPTH
    assert result.issue[1] == last + 1
    assert result.store_bytes == 640


def test_fill_waits_until_load_has_drained() -> None:
    load = code(Opcode.LOAD, memory=Memory.ACT, sram_col=1, cols=20, wrap_size=64)
    fill = code(Opcode.FILL, memory=Memory.ACT, sram_col=1, cols=20, wrap_size=64)
    result = simulate_timing(program([load, fill, load], DEFAULT, 4096))
    assert result.issue[1] == result.retire[0] + 1
    assert result.retire[1] == result.issue[1] + 19 + LOAD_DEPTH
    assert result.issue[2] == result.issue[1] + 20
    assert result.engines[L].drain == result.issue[1] - (result.issue[0] + 5)


def test_trace_lists_marked_instructions_as_they_retire() -> None:
    made = program([code(Opcode.GEMM, inner=100, trace=1), wait(A), code(Opcode.ALU, trace=1)])
    result = simulate_timing(made)
    assert result.traced.tolist() == [[2, int(result.retire[2])], [0, int(result.retire[0])]]


def test_an_empty_program_is_done_at_once() -> None:
    result = simulate_timing(program([]))
    assert (result.cycles, result.fault, result.issue.size) == (DONE_LATENCY, None, 0)


@pytest.mark.parametrize("vector", READ_VECTORS)
def test_read_channel_vectors(vector: ReadVector) -> None:
    before = -1
    for grant, length, first, last in zip(vector.grants, vector.lengths, vector.first, vector.last):
        before = data_end(grant, length, vector.latency, before)
        assert (before - length + 1, before) == (first, last)


@pytest.mark.parametrize("vector", WRITE_VECTORS)
def test_write_channel_vectors(vector: WriteVector) -> None:
    before = -1
    for last, response in zip(vector.last_beats, vector.responses):
        before = response_cycle(last, vector.latency, before)
        assert before == response


def test_longer_latency_never_helps() -> None:
    for seed in range(10):
        made = random_case(seed)[1]
        slower = Program(
            made.config.replace(dram_latency=made.config.dram_latency + 50), made.instructions, made.segments
        )
        assert simulate_timing(slower).cycles > simulate_timing(made).cycles


def test_uops_are_not_needed_for_timing() -> None:
    """Micro-op contents do not change the time: the same instructions over other constants."""
    data = encode_uops([{"dst": 1, "src": 2, "wgt": 3}] * 4, G, DEFAULT)
    codes = [
        code(Opcode.LOAD, memory=Memory.UOP_GEMM, sram_col=1, cols=4, push=[G]),
        code(Opcode.GEMM, pop=[L], uop_count=4),
    ]
    first, second = program(codes, DEFAULT, data), program(codes, DEFAULT, bytes(len(data)))
    assert simulate_timing(first).retire.tolist() == simulate_timing(second).retire.tolist()
