"""Where the program of an LSTM keeps what it computes with.

In halves of acc and all over act, or apart: where both have four banks, what the array writes or reads, what ALU
computes with and what LOAD brings lie in quarters of acc and act, so that none waits for another's banks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.config import Config
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.jit.errors import PlaceError
from tilewright.jit.recurrent.form import Places
from tilewright.jit.recurrent.vectors import Run

BANKS = 4  #: of acc and act at least, to keep things apart
AHEAD = 4  #: of half of acc, what entry parts take that are scaled at once
MOST_AHEAD = 16  #: steps of a turn at most, if each step's entry parts are scaled by themselves
STATES = 4  #: hidden states that act holds: the last, the next, and those that STORE may still read
TURNS = 2  #: of inputs that act holds, each for as many steps as entry parts are made at once


@dataclass(frozen=True)
class Kept:
    """What is to be kept: vectors ``n`` of a gate, units of an input, ``steps``, and which parts have biases."""

    n: int
    pixel: int
    steps: int
    biased: Sequence[bool]


@dataclass
class LstmPlaces:
    """Runs of vectors in acc and act for ``buffers`` of sums of entry parts, each of a turn of ``ahead`` steps.

    The entry parts of ``group`` steps are scaled at once. Raises PlaceError for what does not fit, or cannot lie apart.
    """

    config: Config
    kept: Kept
    buffers: int
    apart: bool
    ahead: int = field(init=False)
    group: int = field(init=False)
    gates: Run = field(init=False)  #: sums on the hidden state
    result: Run = field(init=False)
    x: Run = field(init=False)
    cell: Run = field(init=False)
    entries: list[Run] = field(init=False)
    near: list[Run] = field(init=False)  #: scratch beside the entries
    far: Run = field(init=False)  #: and scratch in another bank
    biases: list[Run | None] = field(init=False)
    states: Run = field(init=False)
    sign: Run = field(init=False)
    quarters: Run = field(init=False)
    top: Run = field(init=False)
    index: Run = field(init=False)
    inputs: Run = field(init=False)

    def __post_init__(self) -> None:
        n, c = self.kept.n, self.config
        if self.apart and min(c.acc_banks, c.act_banks) < BANKS:
            raise PlaceError(f"an LSTM in quarters of acc and act, which have {c.acc_banks} and {c.act_banks} banks")
        most = self._apart() if self.apart else self._together()
        self.ahead = max(1, min(self.kept.steps, most))
        self.group = self.ahead if self._at_once else 1
        sums, others, *entries = self._acc()
        self.gates, self.result = sums.take(4 * n), sums.take(4 * n * self.group)
        self.entries = [entry.take(4 * n * self.ahead) for entry in entries]
        self.x = others.take(4 * n * self.group)
        self.near = [entry.take(4 * n * self.group) for entry in entries] if self.apart else [self.x] * self.buffers
        self.far = self.x if self.apart else self.result
        self.biases = [others.take(4 * n) if biased else None for biased in self.kept.biased]
        self.cell = others.take(n)
        strips, states, inputs = self._act()
        self.states = states.take(STATES * n)
        self.sign = strips.take(4 * n * self.group)
        self.quarters, self.top, self.index = (strips.take(4 * n) for _ in range(3))
        first = inputs.take(0).first
        turns = min(self.kept.steps, TURNS * self.ahead)
        self.inputs = Places("an LSTM", first, c.act_units, 1, "act").take(turns * self.kept.pixel)

    @property
    def given(self) -> list[Run]:
        """Bytes of cells that were loaded: where nothing is while the function of cells, on 2n vectors, is computed."""
        return self._gates_of(self.quarters)

    @property
    def taken(self) -> list[Run]:
        """Bytes of cells to be stored."""
        return self._gates_of(self.index)

    def _gates_of(self, strip: Run) -> list[Run]:
        return [strip.part(k * self.kept.n, (k + 1) * self.kept.n) for k in (2, 3)]

    @property
    def _at_once(self) -> bool:
        """Whether entry parts of all steps of a turn are scaled at once, as one step's would leave ALU waiting for
        itself."""
        return 4 * self.kept.n < ALU_DISTANCE

    @property
    def _half(self) -> int:
        """Vectors of half of acc."""
        return self.config.acc_units // 2 // self.config.out_units

    def _apart(self) -> int:
        """Steps of a turn for which there is room in quarters."""
        c, gate = self.config, 4 * self.kept.n
        inputs = c.act_units // 2 // (TURNS * self.kept.pixel)
        region = self._half // self.buffers // gate
        if self._at_once:
            return min(self._half // AHEAD // gate, region // 2, inputs, c.act_units // 4 // (gate * c.out_units) - 3)
        return min(MOST_AHEAD, region - 1, inputs)

    def _together(self) -> int:
        """Steps of a turn for which there is room in halves of acc."""
        c, n, buffers = self.config, self.kept.n, self.buffers
        gate, vectors = 4 * n, n * c.out_units
        room = self._half - n - gate * sum(self.kept.biased)
        if self._at_once:
            sums = min(self._half // AHEAD // gate, room // (gate * (buffers + 1)))
            return min(sums, (c.act_units - (STATES + 3 * 4) * vectors) // (TURNS * self.kept.pixel + 4 * vectors))
        sums = min(MOST_AHEAD, (room - gate) // (gate * buffers))
        return min(sums, (c.act_units - (STATES + 4 * 4) * vectors) // (TURNS * self.kept.pixel))

    def _acc(self) -> list[Places]:
        """For sums on the hidden state and results, for what else ALU needs, and for each buffer."""
        half = self.config.acc_units // 2
        if self.apart:
            ends = [half + half * k // self.buffers for k in range(self.buffers + 1)]
            return self._between([0, half // 2, *ends], "acc")
        low, high = self._between([0, half, 2 * half], "acc")
        return [low, high, *[high] * self.buffers]

    def _act(self) -> list[Places]:
        """For what ALU writes and reads, for hidden states and for inputs."""
        whole = self.config.act_units
        if self.apart:
            return self._between([0, whole // 4, whole // 2, whole], "act")
        return self._between([0, whole], "act") * 3

    def _between(self, ends: Sequence[int], memory: str) -> list[Places]:
        span = self.config.out_units
        return [Places("an LSTM", first, end, span, memory) for first, end in itertools.pairwise(ends)]
