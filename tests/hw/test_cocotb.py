"""The RTL under cocotb, signal by signal: the benches in ``tests/hw/cocotb``, each run by its simulator.

A bench that fails is told with what it said. ``make test-all`` runs more seeds, and a config of another shape.
"""

from __future__ import annotations

import re
from itertools import chain, product
from pathlib import Path

import pytest

from tests.hw.cocotb.rules import PAGE, Address, AxiRules, Beat, Cycle
from tests.isa.build import PAIRED, TINY
from tilewright.config import Config

pytest.importorskip("cocotb", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("cocotbext.axi", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.cocotb.build import Result, accelerator, tokens_alone
from tests.hw.cocotb.mutants import MUTANTS, Mutant

#: benches that share a simulator process: loading Python into one takes seconds
GROUPS = (("bench_engines", "bench_tokens", "bench_reset"), ("bench_axi", "bench_faults"))
ALONE = "bench_counters"  #: of a part of the design
PORTS = "bench_ports"  #: of a core with two memory ports
SLOW_SEEDS = 6
#: another shape: not square, two images, packed multipliers, narrow weights, AXI3, wide bus, short bursts, small queues
OTHER = TINY.replace(
    name="cocotb-other", batch=2, block_in=8, block_out=4, weight_bits=4, axi_version=3, axi_bits=64, burst_beats=4,
    outstanding=2, queue_depth=2, token_depth=3, dsp_packing=True, act_bytes=16384, acc_bytes=16384,
)  # fmt: skip


def check(results: list[Result], benches: tuple[str, ...]) -> None:
    assert {r.bench for r in results} == set(benches), "every bench has run"
    failures = [f"{r.bench}.{r.name}:\n{r.failure}" for r in results if r.failure]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("benches", GROUPS, ids=lambda names: names[0].removeprefix("bench_"))
def test_tiny(toolchain: None, benches: tuple[str, ...], tmp_path: Path) -> None:
    check(accelerator(TINY).run(benches, tmp_path), benches)


def test_token_counters_alone(toolchain: None, tmp_path: Path) -> None:
    check(tokens_alone(TINY).run([ALONE], tmp_path), (ALONE,))


def test_two_memory_ports(toolchain: None, tmp_path: Path) -> None:
    check(run(PAIRED, (PORTS,), tmp_path), (PORTS,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "benches"),
    [*product((TINY, OTHER, PAIRED), GROUPS), (PAIRED, (PORTS,))],
    ids=lambda value: value.name if isinstance(value, Config) else value[0].removeprefix("bench_"),
)
def test_more_seeds(toolchain: None, config: Config, benches: tuple[str, ...], tmp_path: Path) -> None:
    check(run(config, benches, tmp_path, SLOW_SEEDS), benches)


def run(config: Config, benches: tuple[str, ...], tmp_path: Path, seeds: int = 1) -> list[Result]:
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    return accelerator(config).run(benches, tmp_path, str(path), seeds)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_broken_hardware_is_noticed(toolchain: None, mutant: Mutant, tmp_path: Path) -> None:
    from tilewright.hw.rtl.generate import generate_verilog

    config = PAIRED if mutant.bench == PORTS else OTHER if mutant.other else TINY
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    with mutant.applied():
        broken = tokens_alone(config) if mutant.bench == ALONE else accelerator(config, generate_verilog(config))
    results = broken.run([mutant.bench], tmp_path, str(path), SLOW_SEEDS, only=mutant.test)
    failures = [result.failure for result in results if result.failure]
    assert failures, "not noticed"
    assert any(re.search(mutant.says, failure) for failure in failures), "\n".join(failures)


def test_every_bench_has_broken_hardware_to_notice() -> None:
    assert {mutant.bench for mutant in MUTANTS} == {*chain(*GROUPS), ALONE, PORTS}


# -- the monitor -----------------------------------------------------------------------------------------


def address(at: int = 0, beats: int = 4, size: int = 2, burst: int = 1) -> Address:
    return Address(at, beats - 1, size, burst)


def beats(count: int, last: int | None = None) -> list[Cycle]:
    last = count - 1 if last is None else last
    return [Cycle(w=Beat(k, 15, k == last), w_ready=True) for k in range(count)]


SHOWN, OTHER_SHOWN = address(), address(at=4)
READS = [Cycle(ar=address(at=64 * k), ar_ready=True) for k in range(TINY.outstanding + 1)]


@pytest.mark.parametrize(
    "cycles, words",
    [
        ([Cycle(ar=SHOWN), Cycle(ar=OTHER_SHOWN)], "ar: the payload changed before ready"),
        ([Cycle(aw=SHOWN), Cycle()], "aw: valid fell before ready"),
        ([Cycle(w=Beat(1, 15, False)), Cycle(w=Beat(1, 15, True), w_ready=True)], "w: the payload changed"),
        ([Cycle(ar=address(at=PAGE - 8), ar_ready=True)], "cross a 4096-byte boundary"),
        ([Cycle(ar=address(beats=TINY.burst_beats + 1), ar_ready=True)], "the longest is"),
        ([Cycle(aw=address(size=1), aw_ready=True)], "size 1"),
        ([Cycle(aw=address(burst=2), aw_ready=True)], "burst kind 2"),
        ([Cycle(aw=address(at=2), aw_ready=True)], "no multiple of 4"),
        ([Cycle(aw=address(beats=3), aw_ready=True), *beats(4)], "last after 4 beats of a burst of 3"),
        (beats(TINY.burst_beats, last=99), "beats without last"),
        (READS, f"{TINY.outstanding + 1} read bursts in flight"),
        ([Cycle(b_taken=True)], "that no burst asked for"),
    ],
)
def test_the_monitor_sees_what_is_wrong(cycles: list[Cycle], words: str) -> None:
    rules = AxiRules(TINY)
    for cycle in cycles:
        rules.cycle(cycle)
    assert len(rules.broken) == 1
    assert words in rules.broken[0]


def test_the_monitor_checks_the_id_of_data_on_axi3() -> None:
    for version, wrong in ((3, ["w: ID 1 for data of a burst of ID 0"]), (4, [])):
        rules = AxiRules(TINY.replace(axi_version=version))
        rules.cycle(Cycle(aw=address(beats=1), aw_ready=True, w=Beat(5, 15, True, ident=1), w_ready=True))
        assert rules.broken == wrong


def test_the_monitor_accepts_lawful_traffic() -> None:
    rules = AxiRules(TINY)
    read = address(at=PAGE - 16)
    cycles = [
        Cycle(ar=read), Cycle(ar=read), Cycle(ar=read, ar_ready=True), Cycle(r_taken=True, r_last=True),
        *beats(3), Cycle(aw=address(beats=3)), Cycle(aw=address(beats=3), aw_ready=True), Cycle(b_taken=True),
    ]  # fmt: skip
    for cycle in cycles:
        rules.cycle(cycle)
    assert rules.broken == []
    assert (rules.held["ar"], rules.held["aw"], rules.page_ends["ar"]) == (2, 1, 1)
    assert (rules.reads, rules.writes, rules.most_reads, rules.most_writes) == (0, 0, 1, 1)
