"""Collect functional coverage: random programs on simulator and RTL, each on a calm and on a pausing bus.

``python -m tests.verification.coverage.collect`` runs all, keeps the result and writes ``docs/coverage.md``;
``--quick`` runs what the tests run, prints what it hits, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tests.verification.coverage.model import GROUPS
from tests.verification.coverage.page import KEPT, PAGE, Coverage, Hits, covered, page
from tests.verification.coverage.sample import sample
from tests.verification.differential import PROGRAM_SIZE, Bench, seeded_config
from tests.verification.random_program import DENSE, LATE, TRAFFIC, Style, random_program, random_segments
from tilewright.config import KIB, PRESETS, Config
from tilewright.errors import TilewrightError
from tilewright.hw.verilated.model import Disturbance
from tilewright.terminal import ProgressReporter

__all__ = ["DifferenceError", "collect", "main", "quick_hits"]

QUICK_SEEDS = (11, 22, 37, 54)  #: configs; the differential tests build them too
MORE_SEEDS = (58, 81)  #: with them, every shape of array on plain and on packed multipliers
#: programs on each config, by style
QUICK_PROGRAMS: tuple[tuple[Style, int], ...] = ((DENSE, 8), (LATE, 2))
FULL_PROGRAMS: tuple[tuple[Style, int], ...] = ((DENSE, 100), (LATE, 60), (TRAFFIC, 30))
PAUSED_EACH = 2  #: every so many programs, one runs on a pausing bus too
STALL = 60  #: chance in 256 that a channel pauses in a cycle

Report = Callable[[str, int, int], None]


class DifferenceError(TilewrightError):
    """Simulator and RTL differ; coverage of a wrong run is worth nothing."""


def starved_config() -> Config:
    """Instructions come so slowly that engines wait for them, not they for engines."""
    return PRESETS["tiny"].replace(name="starved", burst_beats=2, outstanding=1, dram_latency=40, queue_depth=2)


def roomy_config() -> Config:
    """Bursts so long, on a bus so wide, that rows of every memory fit in one; many small banks of acc."""
    return PRESETS["tiny"].replace(
        name="roomy", batch=2, axi_bits=64, burst_beats=64, fetch_beats=128, queue_depth=4, act_bytes=KIB, act_banks=2,
        acc_bytes=KIB, acc_banks=8, prm_entries=8,
    )  # fmt: skip


def collect(configs: Sequence[Config], programs: Sequence[tuple[Style, int]], report: Report) -> tuple[Hits, int]:
    """Hits and number of the runs. Raises :class:`DifferenceError` if simulator and RTL disagree in one."""
    hits: Hits = Counter()
    runs = done = 0
    total = len(configs) * sum(count for _, count in programs)
    for config in configs:
        report(f"building {config.name}", done, total)
        bench = Bench(config)
        try:
            for style, seed in ((style, seed) for style, count in programs for seed in range(count)):
                report(f"{config.name}, {style.name} programs", done, total)
                done += 1
                rng = np.random.default_rng(seed)
                program = random_program(rng, config, PROGRAM_SIZE, style)
                segments = random_segments(rng, program)
                for disturbance in (None, Disturbance(stall=STALL, seed=seed + 1))[: 2 - bool(seed % PAUSED_EACH)]:
                    text, result = bench.observe(program, segments, disturbance)
                    if text is not None or result is None:
                        raise DifferenceError(f"config {config.name}, {style.name} program of seed {seed}: {text}")
                    hits += sample(program, result, disturbance is not None)
                    runs += 1
        finally:
            bench.close()
    return hits, runs


def quick_hits(report: Report) -> Hits:
    """Hits of the part that the tests run."""
    return collect([seeded_config(seed) for seed in QUICK_SEEDS], QUICK_PROGRAMS, report)[0]


def main(arguments: list[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verification.coverage.collect", description="Functional coverage of the RTL."
    )
    parser.add_argument("--quick", action="store_true", help="only what the tests run; write nothing")
    quick_only = parser.parse_args(arguments).quick
    try:
        with ProgressReporter() as progress:
            quick = quick_hits(progress.update)
            if not quick_only:
                configs = [*(seeded_config(s) for s in QUICK_SEEDS + MORE_SEEDS), starved_config(), roomy_config()]
                hits, runs = collect(configs, FULL_PROGRAMS, progress.update)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    shown = quick if quick_only else hits
    for group in GROUPS:
        bins = len(group.bins)
        print(f"{group.name:12} {covered(group, shown):4} of {bins:4} ({covered(group, shown) / bins:.1%})")
    if not quick_only:
        programs = {style.name: count for style, count in FULL_PROGRAMS}
        kept = Coverage.of(hits, quick, [config.name for config in configs], programs, runs)
        kept.save()
        PAGE.write_text(page(kept))
        print(f"written: {KEPT.name}, {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
