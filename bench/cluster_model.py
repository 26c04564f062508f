"""A sweep on a cluster as a discrete-event simulation: driver, scheduler, workers, and the messages between them.

Two servers work off what they are sent one after the other: the driver (proposes, sends, receives, keeps, learns) and
Dask's scheduler (hands a chunk to a worker that is free, takes its result). Workers evaluate; every message takes
``latency``. A round of points starts when the last of the round before has been learned from. Costs are measured by
``bench/bench_explorer_scale.py``, which also checks what is predicted for the workers that it has.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dse.workers import chunk_size


@dataclass(frozen=True)
class Costs:
    """Seconds. ``shared``: scheduler and driver are one process and work in turns, as with local workers."""

    propose: float  #: driver, per point
    learn: float  #: driver, per point
    send: float  #: driver, per chunk
    receive: float  #: driver, per chunk
    schedule: float  #: scheduler, per chunk: half when it is handed out, half when its result arrives
    commit: float  #: driver, per transaction
    keep: float  #: driver, per row of a transaction
    latency: float  #: one message, one way
    shared: bool = False


@dataclass(frozen=True)
class Work:
    """Points to evaluate: how many in each round, and how long they take (log-normal; ``spread``: deviation/mean)."""

    seconds: float
    spread: float
    rounds: tuple[int, ...]
    chunked: bool = True  #: quick points travel together, others alone and are kept as they arrive


@dataclass(frozen=True)
class Outlook:
    """What a simulation found. Shares are of the whole time; ``utilisation`` is that of the workers."""

    workers: int
    seconds: float
    throughput: float  #: points per second
    utilisation: float
    driver: float
    scheduler: float

    @property
    def limit(self) -> str:
        """What there is too little of."""
        if self.utilisation > 0.8:
            return "workers"
        if max(self.driver, self.scheduler) > 0.8:
            return "driver" if self.driver >= self.scheduler else "scheduler"
        return "rounds"


class _Server:
    """Works off requests one after the other."""

    def __init__(self) -> None:
        self.free = self.busy = 0.0

    def take(self, when: float, cost: float) -> float:
        """A request that arrives at ``when``; returns when it is done."""
        self.free = max(self.free, when) + cost
        self.busy += cost
        return self.free


def simulate(costs: Costs, work: Work, workers: int, seed: int = 0) -> Outlook:
    """A sweep of ``work`` on ``workers``."""
    sweep = _Sweep(costs, work, workers, seed)
    for points in work.rounds:
        sweep.round(points)
    seconds, total = sweep.driver.free, sum(work.rounds)
    return Outlook(
        workers, seconds, total / seconds, sweep.evaluating / (workers * seconds), sweep.driver.busy / seconds,
        sweep.scheduler.busy / seconds,
    )  # fmt: skip


class _Sweep:
    """The state of a simulation between rounds."""

    def __init__(self, costs: Costs, work: Work, workers: int, seed: int) -> None:
        self.costs, self.work, self.workers, self.random = costs, work, workers, random.Random(seed)
        self.driver = _Server()
        self.scheduler = self.driver if costs.shared else _Server()
        self.evaluating = 0.0  #: seconds of workers

    def round(self, points: int) -> None:
        """Propose, evaluate, keep and learn."""
        costs = self.costs
        size = chunk_size(points, self.workers, self.work.seconds) if self.work.chunked else 1
        chunks = [min(size, points - first) for first in range(0, points, size)]
        sent = self.driver.take(self.driver.free, costs.propose * points + costs.send * len(chunks)) + costs.latency
        waiting = iter(chunks)
        back = [self._evaluated(sent, count) for _, count in zip(range(self.workers), waiting)]
        heapq.heapify(back)  # when results are at the scheduler
        arrived: deque[float] = deque()  # at the driver, not yet received
        while back:
            known = self.scheduler.take(heapq.heappop(back), costs.schedule / 2)
            if (count := next(waiting, 0)) > 0:
                heapq.heappush(back, self._evaluated(known, count))
            arrived.append(known + (0.0 if costs.shared else costs.latency))
            self._receive(arrived, known)
        self._receive(arrived, math.inf)
        kept = costs.commit + costs.keep * points if self.work.chunked else 0.0
        self.driver.take(self.driver.free, costs.learn * points + kept)

    def _receive(self, arrived: deque[float], until: float) -> None:
        """The driver takes what is there whenever it is free, up to ``until``; dear results it keeps at once."""
        while arrived and (self.costs.shared or max(self.driver.free, arrived[0]) < until):
            start, count = max(self.driver.free, arrived[0]), 0
            while arrived and arrived[0] <= start:
                arrived.popleft()
                count += 1
            kept = 0.0 if self.work.chunked else self.costs.commit + self.costs.keep * count
            self.driver.take(start, self.costs.receive * count + kept)

    def _evaluated(self, when: float, count: int) -> float:
        """When the scheduler has the result of a chunk that it can hand out at ``when``."""
        out = self.scheduler.take(when, self.costs.schedule / 2) + self.costs.latency
        seconds = sum(self._draw() for _ in range(count))
        self.evaluating += seconds
        return out + seconds + self.costs.latency

    def _draw(self) -> float:
        if not self.work.spread:
            return self.work.seconds
        sigma = math.sqrt(math.log(1 + self.work.spread**2))
        return self.work.seconds * self.random.lognormvariate(-sigma * sigma / 2, sigma)


def halves(most: int) -> tuple[int, ...]:
    """The rounds in which the front is confirmed: each half of what may still be tried."""
    rounds = []
    while most:
        rounds.append(-(-most // 2))
        most -= rounds[-1]
    return tuple(rounds)


def table(outlooks: Sequence[Outlook]) -> str:
    """As text, a line for each number of workers."""
    lines = [f"{'workers':>8}{'points/s':>11}{'speed-up':>10}{'workers busy':>14}{'driver':>8}{'scheduler':>11}  limit"]
    for o in outlooks:
        lines.append(
            f"{o.workers:>8}{o.throughput:>11.4g}{o.throughput / outlooks[0].throughput:>10.1f}{o.utilisation:>14.0%}"
            f"{o.driver:>8.0%}{o.scheduler:>11.0%}  {o.limit}"
        )
    return "\n".join(lines)
