"""Simulator against RTL on random programs: every byte, every instruction's times, every counter, the total.

Everything follows from two seeds, so that three numbers name a difference and reproduce it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.verification.random_program import random_config, random_program, random_segments
from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver, RunResult
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance, ModelError
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, others
from tilewright.sim import simulate
from tilewright.sim.result import TimingResult

PROGRAM_SIZE = 24  #: instructions asked of the generator, set-up apart
STALLED_FACTOR = 200  #: how much longer than the contract a disturbed run may take


@dataclass(frozen=True)
class Difference:
    """What differed first, and the seeds that show it."""

    config_seed: int
    program_seed: int
    size: int
    text: str

    def __str__(self) -> str:
        return f"config seed {self.config_seed}, program seed {self.program_seed}, size {self.size}: {self.text}"


def seeded_config(seed: int) -> Config:
    """The random Config of a seed."""
    return random_config(np.random.default_rng(seed)).replace(name=f"random-{seed}")


def seeded_program(config: Config, seed: int, size: int = PROGRAM_SIZE) -> tuple[Program, list[NDArray[np.uint8]]]:
    """The random program of a seed, and what DRAM holds before it."""
    rng = np.random.default_rng(seed)
    program = random_program(rng, config, size)
    return program, random_segments(rng, program)


class Bench:
    """One design to run programs on, built if need be. Registers and memories start at random values.

    Random programs are short: the design is built without optimisation, unless ``optimise`` is set. ``library``: of a
    design with the same ports that is to run instead.
    """

    def __init__(self, config: Config, optimise: bool = False, library: Path | None = None) -> None:
        self.config = config
        self.model = DesignModel(library or design_library(config, optimise=optimise), config.dram_latency, seed=1)
        self.driver, self.order = Driver(self.model, config), DramOrder(config)

    def close(self) -> None:
        """End the model."""
        self.model.close()

    def compare(
        self, program: Program, segments: list[NDArray[np.uint8]], disturbance: Disturbance | None = None
    ) -> str | None:
        """The first difference between simulator and RTL in words, or None. With a disturbance, of bytes only."""
        return self.observe(program, segments, disturbance)[0]

    def observe(
        self, program: Program, segments: list[NDArray[np.uint8]], disturbance: Disturbance | None = None
    ) -> tuple[str | None, RunResult | None]:
        """As :meth:`compare`, and what the RTL's run was, None if it did not end."""
        expected, found = [s.copy() for s in segments], [self.order.arranged(s) for s in segments]
        simulated = simulate(program, expected)
        timing = simulated.timing
        assert timing is not None
        if simulated.fault is not None:
            raise AssertionError(f"a random program is legal, and this one ends in the simulator: {simulated.fault}")
        self.model.disturb(disturbance or Disturbance())
        limit = cycle_bound(program) * (1 if disturbance is None else STALLED_FACTOR)
        try:
            result = self.driver.run(program, found, limit=limit)
        except ModelError as error:
            self.model.reset()
            return str(error), None
        if result.fault is not None:
            return f"fault {result.fault.name} at instruction {result.fault_instruction}", result
        found = [self.order.read(s, 0, e.size) for s, e in zip(found, expected)]
        text = _bytes_differ(program, expected, found)
        if text is None and disturbance is None:
            text = _times_differ(program, timing, result)
        return text, result

    def compare_seed(self, config_seed: int, seed: int, size: int = PROGRAM_SIZE) -> Difference | None:
        """Run a seed's program; a difference comes with the least size of program that still shows one."""
        found = self.compare(*seeded_program(self.config, seed, size))
        if found is None:
            return None
        for smaller in range(1, size):
            text = self.compare(*seeded_program(self.config, seed, smaller))
            if text is not None:
                return Difference(config_seed, seed, smaller, text)
        return Difference(config_seed, seed, size, found)


def differential(config_seed: int, program_seeds: Iterator[int] | range) -> Iterator[Difference | None]:
    """Compare the programs of some seeds on the Config of a seed, one by one."""
    bench = Bench(seeded_config(config_seed))
    try:
        for seed in program_seeds:
            yield bench.compare_seed(config_seed, seed)
    finally:
        bench.close()


def _bytes_differ(program: Program, expected: list[NDArray[np.uint8]], found: list[NDArray[np.uint8]]) -> str | None:
    for segment, a, b in zip(program.segments, expected, found):
        wrong = np.nonzero(a != b)[0]
        if wrong.size:
            k = int(wrong[0])
            return f"segment {segment.name}: {wrong.size} bytes differ, the first at {k}: sim {a[k]}, rtl {b[k]}"
    return None


def _times_differ(program: Program, timing: TimingResult, result: RunResult) -> str | None:
    for name in ("dispatch", "issue", "retire"):
        a, b = getattr(timing, name), getattr(result, name)
        wrong = np.nonzero(a != b)[0]
        if wrong.size:
            k = int(wrong[0])
            return f"instruction {k} of {program.instruction_count}: {name} at {a[k]} on sim, {b[k]} on rtl"
    numbers = {
        "cycles": (timing.cycles, result.cycles),
        "bytes read": (timing.dram_read_bytes, result.read_bytes),
        "bytes written": (timing.store_bytes, result.write_bytes),
    }
    for engine in Engine:
        counted, prefix = timing.engines[engine], f"{engine.name}_"
        values = {"INSTRUCTIONS": counted.instructions, "BUSY": counted.busy, "EMPTY": counted.empty,
                  "DRAIN": counted.drain, "BUS": counted.bus, "OUTSTANDING": counted.outstanding}  # fmt: skip
        values |= {f"WAIT_{other.name}": counted.tokens[other] for other in others(engine)}
        numbers |= {prefix + name: (value, result.counters[prefix + name]) for name, value in values.items()}
    for name, (a, b) in numbers.items():
        if a != b:
            return f"{name}: {a} on sim, {b} on rtl"
    if not result.trace_dropped and timing.traced.tolist() != result.traced.tolist():
        return f"trace: {timing.traced.tolist()} on sim, {result.traced.tolist()} on rtl"
    return None


def main(arguments: Sequence[str]) -> int:
    """Compare simulator and RTL on random programs: bytes, times and counters. Returns 1 on a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.differential", description=main.__doc__)
    parser.add_argument("--configs", type=int, default=5, help="random Configs to build (%(default)s)")
    parser.add_argument("--programs", type=int, default=20, help="random programs on each (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="first seed of both (%(default)s)")
    options = parser.parse_args(arguments)
    first, last = options.seed, options.seed + options.programs
    configs = range(options.seed, options.seed + options.configs)
    found = [each for config in configs for each in differential(config, range(first, last)) if each is not None]
    print(*found, f"{len(configs) * options.programs} programs: {len(found)} differences", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
