"""The timing rules once more, clock by clock: a model of registers, FIFOs and counters.

Written from docs/timing.md alone and built like hardware: in each cycle every unit looks at what the registers
held at the end of the previous one, and all updates happen together. Slow; the cycle model is tested against it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from tilewright.isa.codec import Instruction, decode
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, entry_bytes, instruction_width, others, token_bit
from tilewright.isa.timing import (
    ALU_DEPTH,
    DISPATCH_LATENCY,
    DONE_LATENCY,
    DOORBELL_LATENCY,
    FETCH_DEPTH,
    FETCH_START,
    GEMM_DEPTH,
    LOAD_DEPTH,
    LOAD_SETUP,
    STORE_DEPTH,
    STORE_SETUP,
    TOKEN_LATENCY,
)

DEPTH = {Engine.LOAD: LOAD_DEPTH, Engine.GEMM: GEMM_DEPTH, Engine.ALU: ALU_DEPTH, Engine.STORE: STORE_DEPTH}


def cut(first_beat: int, beats: int, longest: int) -> list[int]:
    """Lengths of the bursts that a row of beats is cut into, at multiples of ``longest``."""
    bursts: list[int] = []
    for beat in range(first_beat, first_beat + beats):
        if not bursts or beat % longest == 0:
            bursts.append(0)
        bursts[-1] += 1
    return bursts


@dataclass
class ReadBurst:
    """A granted burst and who asked for it; ``instruction`` only if its end completes that LOAD."""

    beats: int
    not_before: int
    fetch: bool
    instruction: int | None = None


@dataclass
class NaiveEngine:
    """Registers of one engine."""

    queue: deque[tuple[int, int]] = field(default_factory=deque)  # (instruction, visible from cycle)
    busy_until: int = 0  # for fixed service times
    running: int | None = None  # LOAD or STORE with bus work left
    start_at: int = 0
    bursts: deque[int] = field(default_factory=deque)
    unretired: int = 0


class NaiveBells:
    """Doorbells on their way from core to core, and not yet heard: the cycles from which they are there."""

    def __init__(self) -> None:
        self.cycle = 0
        self.there: dict[tuple[int, int], deque[int]] = {}

    def ring(self, source: int, targets: int) -> None:
        for c in range(targets.bit_length()):
            if targets >> c & 1:
                self.there.setdefault((source, c), deque()).append(self.cycle + DOORBELL_LATENCY)

    def waiting(self, sources: int, target: int) -> list[deque[int]] | None:
        """The doorbells of these cores, if each has one that can be heard now."""
        found = [self.there.get((c, target), deque()) for c in range(sources.bit_length()) if sources >> c & 1]
        return found if all(bell and bell[0] <= self.cycle for bell in found) else None


class NaiveTiming:
    """Clock it until it is done; then dispatch, issue, retire and cycles hold the times."""

    def __init__(self, program: Program, bells: NaiveBells | None = None, core: int = 0) -> None:
        self.bells, self.core = bells or NaiveBells(), core
        self.config = program.config
        self.code = decode(program.instructions, program.config)
        self.size = instruction_width(self.config) // 8
        count = len(self.code)
        self.dispatch, self.issue, self.retire = [-1] * count, [-1] * count, [-1] * count
        self.engines = {e: NaiveEngine() for e in Engine}
        self.tokens = {(a, b): 0 for a in Engine for b in others(a)}
        self.events: dict[int, list[tuple[str, int]]] = {}
        self.read_queue: deque[ReadBurst] = deque()
        self.reads_in_flight = 0
        beats = -(-count * self.size // self.config.beat_bytes)
        self.program_bursts = deque(cut(0, beats, self.config.burst_beats))
        self.fetch_requested = self.fetch_arrived = 0
        self.next_dispatch = 0
        self.write_beats_left = 0
        self.writes_in_flight = 0
        self.responses: deque[tuple[int, int | None]] = deque()
        self.cycle = 0
        self.causes = {e: Counter[str]() for e in Engine}  # cycles, by what the engine did or waited for
        self.held_bursts = {e: Counter[str]() for e in Engine}  # cycles in which a burst of it waited, by why
        self.may_read = self.may_write = True  # a DRAM that several cores share may say no

    def run(self, limit: int) -> int:
        """Cycles of the program; fails after ``limit``."""
        while not self.finished:
            self.clock()
            assert self.cycle < limit, "not done in time"
        for causes in self.causes.values():
            causes["empty"] += self.end - self.cycle
        return self.end

    @property
    def finished(self) -> bool:
        """Whether the retires of all instructions have been."""
        return min(self.retire, default=0) >= 0

    @property
    def end(self) -> int:
        """Cycles of the program, once it has finished."""
        return max(self.retire, default=0) + DONE_LATENCY

    def clock(self) -> None:
        """One cycle: every unit decides on the old state, then everything is updated."""
        self.appear()
        self.decide()

    def appear(self) -> None:
        """Registers show what they do from this cycle on."""
        for kind, value in self.events.pop(self.cycle, []):
            self._appear(kind, value)

    def decide(self) -> None:
        """Every unit decides on what registers show."""
        updates = [
            *self._dispatch(),
            *self._issue(),
            *self._grant(),
            *self._store_beat(),
            *self._beat(),
            *self._response(),
        ]
        for delay, kind, value in updates:
            self.events.setdefault(self.cycle + max(delay, 1), []).append((kind, value))
        self.cycle += 1

    # -- registers -------------------------------------------------------------------------------------

    def _appear(self, kind: str, value: int) -> None:
        if kind == "token":
            index, target = divmod(value, 4)
            self.tokens[self.code[index].engine, Engine(target)] += 1
        elif kind == "retired":
            self.engines[self.code[value].engine].unretired -= 1
        elif kind == "slot":
            self.engines[Engine(value)].queue.popleft()
        elif kind == "arrived":
            self.fetch_arrived += value
        elif kind == "read done":
            self.reads_in_flight -= 1
        elif kind == "write done":
            self.writes_in_flight -= 1
        elif kind == "retire":
            self._retire(value)
        elif kind == "enqueue":
            visible = self.dispatch[value] + DISPATCH_LATENCY
            self.engines[self.code[value].engine].queue.append((value, visible))
            self.next_dispatch += 1
        elif kind == "fetch granted":
            length = self.program_bursts.popleft()
            self.fetch_requested += length
            self._granted(ReadBurst(length, value, fetch=True))
        elif kind == "load granted":
            load = self.engines[Engine.LOAD]
            burst = ReadBurst(load.bursts.popleft(), value, fetch=False)
            if not load.bursts:
                burst.instruction, load.running = load.running, None
            self._granted(burst)
        elif kind == "store sent":
            self.engines[Engine.STORE].running = None

    def _granted(self, burst: ReadBurst) -> None:
        self.reads_in_flight += 1
        self.read_queue.append(burst)

    def _retire(self, index: int) -> None:
        """The retire of this cycle: pushes and the end are seen later."""
        self.retire[index] = self.cycle
        code = self.code[index]
        if code.opcode == Opcode.WAIT and code.engine == Engine.STORE:
            self.bells.ring(self.core, code["ring"])
        later = self.events.setdefault(self.cycle + 1, [])
        later.append(("retired", index))
        for target in others(code.engine):
            if code["push"] & token_bit(code.engine, target):
                self.events.setdefault(self.cycle + TOKEN_LATENCY, []).append(("token", index * 4 + target))

    # -- dispatch and issue ----------------------------------------------------------------------------

    def _dispatch(self) -> list[tuple[int, str, int]]:
        i = self.next_dispatch
        if i == len(self.code) or self.fetch_arrived * self.config.beat_bytes < (i + 1) * self.size:
            return []
        queue = self.engines[self.code[i].engine].queue
        if len(queue) >= self.config.queue_depth:
            return []
        self.dispatch[i] = self.cycle
        return [(1, "enqueue", i)]

    def _issue(self) -> list[tuple[int, str, int]]:
        updates: list[tuple[int, str, int]] = []
        for e, engine in self.engines.items():
            cause = self._held(e, engine)
            self.causes[e][cause or "busy"] += 1
            if cause is not None:
                continue
            index = self._waiting(engine)[0][0]
            code = self.code[index]
            for bell in self._heard(e, code) or []:
                bell.popleft()
            for s in others(e):
                self.tokens[s, e] -= bool(code["pop"] & token_bit(e, s))
            self.issue[index] = self.cycle
            engine.unretired += 1
            updates.append((1, "slot", int(e)))
            if code.opcode in (Opcode.LOAD, Opcode.STORE):
                engine.running = index
                engine.start_at = self.cycle + (LOAD_SETUP if e == Engine.LOAD else STORE_SETUP)
                engine.bursts = deque(self._bursts(code))
            else:
                slots = self._slots(code)
                engine.busy_until = self.cycle + slots
                updates.append((slots - 1 + DEPTH[e], "retire", index))
        return updates

    def _held(self, e: Engine, engine: NaiveEngine) -> str | None:
        """Why an engine issues nothing in this cycle, in the words of ``docs/timing.md``; None if it issues."""
        if engine.busy_until > self.cycle or engine.running is not None:
            return "busy"
        waiting = self._waiting(engine)
        if not waiting or waiting[0][1] > self.cycle:
            return "empty"
        code = self.code[waiting[0][0]]
        for s in others(e):
            if code["pop"] & token_bit(e, s) and self.tokens[s, e] == 0:
                return s.name
        occupies = e in (Engine.LOAD, Engine.STORE) and code.opcode in (Opcode.FILL, Opcode.WAIT)
        return "drain" if (occupies and engine.unretired) or self._heard(e, code) is None else None

    def _waiting(self, engine: NaiveEngine) -> list[tuple[int, int]]:
        return [entry for entry in engine.queue if self.issue[entry[0]] < 0]

    def _heard(self, e: Engine, code: Instruction) -> list[deque[int]] | None:
        hears = code["hear"] if code.opcode == Opcode.WAIT and e == Engine.LOAD else 0
        return self.bells.waiting(hears, self.core)

    def _slots(self, code: Instruction) -> int:
        if code.opcode == Opcode.WAIT:
            return code["cycles"]
        if code.opcode == Opcode.FILL:
            return code["rows"] * code["cols"]
        paced = code.opcode in (Opcode.GEMM, Opcode.ALU) and code["pace"] == 1
        slots = code["outer"] * code["inner"] * code["uop_count"] * (2 if paced else 1)
        if code.opcode == Opcode.GEMM and code["window"] and self.config.dsp_packing and not paced:
            slots += 1  # the second half of the last emit
        return slots

    def _bursts(self, code: Instruction) -> list[int]:
        memory = Memory(code["memory"]) if code.opcode == Opcode.LOAD else Memory.ACT
        beats = -(-code["cols"] * entry_bytes(self.config, memory) // self.config.beat_bytes)
        result = []
        for r in range(code["rows"]):
            result += cut(code["offset"] + r * code["stride"], beats, self.config.burst_beats)
        return result

    # -- read channel ----------------------------------------------------------------------------------

    def _grant(self) -> list[tuple[int, str, int]]:
        load = self.engines[Engine.LOAD]
        wanted = load.running is not None and load.start_at <= self.cycle
        if self.reads_in_flight == self.config.outstanding:
            self.held_bursts[Engine.LOAD]["outstanding"] += wanted
            return []
        not_before = self.cycle + self.config.dram_latency
        if self.program_bursts and self.cycle >= FETCH_START:
            consumed = self.next_dispatch * self.size // self.config.beat_bytes
            length = self.program_bursts[0]
            if self.fetch_requested - consumed + length <= self.config.fetch_beats:
                self.held_bursts[Engine.LOAD]["bus"] += wanted
                return [(1, "fetch granted", not_before)]
        if wanted:
            return [(1, "load granted", not_before)]
        return []

    @property
    def has_read_beat(self) -> bool:
        """Whether a read beat could arrive in this cycle."""
        return bool(self.read_queue) and self.read_queue[0].not_before <= self.cycle

    def _beat(self) -> list[tuple[int, str, int]]:
        """At most one read beat arrives."""
        if not self.has_read_beat or not self.may_read:
            return []
        burst = self.read_queue[0]
        burst.beats -= 1
        updates: list[tuple[int, str, int]] = [(FETCH_DEPTH, "arrived", 1)] if burst.fetch else []
        if burst.beats == 0:
            self.read_queue.popleft()
            updates.append((1, "read done", 0))
            if burst.instruction is not None:
                updates.append((LOAD_DEPTH, "retire", burst.instruction))
        return updates

    # -- write channel ---------------------------------------------------------------------------------

    @property
    def has_write_beat(self) -> bool:
        """Whether a write beat could go out in this cycle."""
        store = self.engines[Engine.STORE]
        if store.running is None or store.start_at > self.cycle:
            return False
        if self.write_beats_left > 0 or self.writes_in_flight < self.config.outstanding:
            return True
        self.held_bursts[Engine.STORE]["outstanding"] += 1
        return False

    def _store_beat(self) -> list[tuple[int, str, int]]:
        """At most one write beat goes out."""
        store = self.engines[Engine.STORE]
        if not self.has_write_beat or not self.may_write:
            return []
        if self.write_beats_left == 0:
            self.writes_in_flight += 1
            self.write_beats_left = store.bursts.popleft()
        self.write_beats_left -= 1
        if self.write_beats_left == 0:
            done = None if store.bursts else store.running
            self.responses.append((self.cycle + self.config.dram_latency, done))
            if done is not None:
                return [(1, "store sent", 0)]
        return []

    def _response(self) -> list[tuple[int, str, int]]:
        """At most one write response arrives."""
        if not self.responses or self.responses[0][0] > self.cycle:
            return []
        _, done = self.responses.popleft()
        updates = [(1, "write done", 0)]
        return updates if done is None else [*updates, (STORE_DEPTH, "retire", done)]
