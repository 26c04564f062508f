"""Several cores before one DRAM, clock by clock: from docs/timing.md alone, on the clocked model of one core."""

from __future__ import annotations

from tests.sim.naive_timing import NaiveBells, NaiveTiming
from tilewright.config import Config
from tilewright.isa.program import Program


class NaiveCore:
    """A core with a list of (delay, program) to run one after another."""

    def __init__(self, work: list[tuple[int, Program]], bells: NaiveBells, number: int) -> None:
        self.work, self.bells, self.number = list(work), bells, number
        self.model: NaiveTiming | None = None
        self.start = self.free = 0
        self.ran: list[tuple[int, NaiveTiming]] = []

    def choose(self, cycle: int) -> None:
        """Begin the next program if this is its cycle."""
        if self.model is not None and self.model.finished:
            self.free = self.start + self.model.end
            self.model = None
        if self.model is None and self.work and self.free + self.work[0][0] <= cycle:
            delay, program = self.work.pop(0)
            self.start = self.free + delay
            assert self.start == cycle
            self.model = NaiveTiming(program, self.bells, self.number)
            self.ran.append((self.start, self.model))


def run_naive_cores(config: Config, work: list[list[tuple[int, Program]]]) -> list[list[tuple[int, NaiveTiming]]]:
    """By core, the start of each of its programs and the model that has run it."""
    bells = NaiveBells()
    cores = [NaiveCore(own, bells, number) for number, own in enumerate(work)]
    spare, turn, cycle = config.beat_bytes - 1, 0, 0
    while any(core.work or core.model is not None for core in cores):
        bells.cycle = cycle
        for core in cores:
            core.choose(cycle)
        running = [core.model for core in cores]
        for model in running:
            if model is not None:
                model.appear()
        channels = [(c, kind) for c in range(len(cores)) for kind in ("read", "write")]
        budget = spare + (config.dram_bandwidth or 2 * len(cores) * config.beat_bytes)  # 0: what all can ask for
        first = turn
        for k in range(len(channels)):
            number = (first + k) % len(channels)
            c, kind = channels[number]
            model = running[c]
            if model is None or not getattr(model, f"has_{kind}_beat"):
                continue
            allowed = budget >= config.beat_bytes
            setattr(model, f"may_{kind}", allowed)
            if allowed:
                budget -= config.beat_bytes
                turn = (number + 1) % len(channels)
        spare = min(budget, config.beat_bytes - 1)
        for model in running:
            if model is not None:
                model.decide()
        cycle += 1
        assert cycle < 5_000_000, "not done in time"
    return [core.ran for core in cores]
