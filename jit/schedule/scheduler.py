"""Order tasks and loads in time, and give every buffer its place.

A coarse simulation of the four engines decides, step by step, what comes next: whichever of the bus and the
arrays is free first takes its best next action. The order of decisions is the program order, so that the
instruction queues are never blocked by an instruction that comes long before its time. Rows of different
layers interleave as soon as their inputs, constants and room are there.

The result is abstract: actions with addresses. :mod:`tilewright.jit.emit.emitter` turns it into instructions, and
the cycle simulator, not this model, decides between alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from tilewright.config import Config
from tilewright.isa.spec import Engine
from tilewright.isa.timing import ALU_DEPTH, GEMM_DEPTH, LOAD_DEPTH
from tilewright.jit.kernels.base import Chunk, Node, Task
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.plan.layout import duplicate, origin
from tilewright.jit.plan.policy import Policy
from tilewright.jit.schedule.actions import Action, LoadRow, RunTask, ScheduleError, StoreRow
from tilewright.jit.schedule.banks import Banks
from tilewright.jit.schedule.buffer_state import BufferState, find_place
from tilewright.jit.schedule.constants import Constants
from tilewright.jit.schedule.memory import Pool
from tilewright.jit.schedule.order import suffix_lowest

_FAR = 1 << 60
_SURE = 64  #: cycles after which a row is complete for sure


class Scheduler:
    """One scheduling run over nodes (in topological order) bound to buffers with their capacities.

    With ``after`` (:mod:`tilewright.jit.plan.places`) every buffer has its base, and comes to life when those
    named there are dead; without, places are found on the way.
    """

    def __init__(
        self, config: Config, lowered: Lowered, policy: Policy, after: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        nodes, spills = lowered.nodes, lowered.spills
        self._weights = lowered.blocked
        self.config, self.nodes, self.policy = config, nodes, policy
        self.actions: list[Action] = []
        self._state: dict[str, BufferState] = {}
        producers: dict[str, list[int]] = {}
        consumers: dict[str, list[tuple[int, int]]] = {}
        for i, node in enumerate(nodes):
            producers.setdefault(node.output, []).append(i)
            for k, name in enumerate(node.inputs):
                consumers.setdefault(name, []).append((i, k))
        copies = set(spills.values())
        for name, buffer in lowered.buffers.items():
            stored = name in lowered.stored or name in copies
            made, read = producers.get(origin(name), []), consumers.get(name, [])
            readers = {Engine.GEMM if nodes[i].uses_gemm else Engine.ALU for i, _ in read}
            readers |= {Engine.STORE} if stored else set()
            self._state[name] = BufferState(
                buffer, made, read, frozenset(readers), name in lowered.packs or name in spills, stored,
                spills.get(name), behind=len(made), waiting=sum(bool(nodes[i].tasks) for i, _ in read),
            )  # fmt: skip
        self._next = [0] * len(nodes)
        #: the row of an input that a node's next task was found to lack: until it is there, nothing else matters
        self._lacks: list[tuple[BufferState, int] | None] = [None] * len(nodes)
        self._first = 0  #: all nodes before this one are done
        self._lowest = [[suffix_lowest(node, k) for k in range(len(node.inputs))] for node in nodes]
        self._constants = Constants(config, nodes)
        self._act = Pool(config.act_units)
        self._time = dict.fromkeys(Engine, 0.0)
        self._bus_bytes = [0, 0]  # constants, rows
        self._banks = Banks(config)
        self._acc_next = 0
        self._acc_free = [0.0] * config.acc_banks
        self._acc_kept: dict[int, int] = {}  #: banks that nodes keep over several tasks
        self._blocked: set[str] = set()
        #: of each buffer whose place was planned, those that must be dead before
        self._before = (
            None if after is None else {name: [self._state[t] for t in others] for name, others in after.items()}
        )
        self._unloaded = [state for state in self._state.values() if state.loaded]
        #: a heap of rows to be stored: when they are complete, in which order they were, which
        self._stores: list[tuple[float, int, int, BufferState]] = []
        self._stored = 0

    def run(self) -> float:
        """Schedule everything; returns the estimated cycles. Raises :class:`ScheduleError` when stuck."""
        while True:
            self._blocked.clear()
            best = self._best_task()
            bus = self._time[Engine.LOAD]
            if self._stores and (best is None or self._stores[0][0] + _SURE <= best[0]):
                self._store_row()
            elif best is not None and best[0] <= bus:
                self._run_task(best)
            elif not self._load_something():
                if best is not None:
                    if self._before is not None:
                        self._time[Engine.LOAD] = max(bus, best[0])  # idle till now
                    self._run_task(best)
                elif not self._load_row(patient=False) and not self._load_chunk(patient=False):
                    break
        if any(n < len(node.tasks) for n, node in zip(self._next, self.nodes, strict=True)):
            raise self._stuck()
        return max(self._time.values())

    # -- tasks -----------------------------------------------------------------------------------------

    def _best_task(self) -> tuple[float, int, Task] | None:
        best: tuple[tuple[float, int], float, int, Task] | None = None
        while self._first < len(self.nodes) and self._next[self._first] == len(self.nodes[self._first].tasks):
            self._first += 1
        for index in range(self._first, self._constants.loaded + 1):
            node, position = self.nodes[index], self._next[index]
            if position == len(node.tasks):
                continue
            lacks = self._lacks[index]
            if lacks is not None and lacks[0].rows_ready <= lacks[1]:
                continue
            task = node.tasks[position]
            start = self._earliest(index, node, task)
            if start is None:
                continue
            engine = self._time[Engine.GEMM if node.uses_gemm else Engine.ALU]
            # what takes slices as they come is short, and makes room for the next weights
            order = -len(self.nodes) if node.by_inputs else -index if self.policy.deep else index
            key = (max(start, engine), order)
            if best is None or key < best[0]:
                best = (key, max(start, engine), index, task)
        return None if best is None else best[1:]

    def _earliest(self, index: int, node: Node, task: Task) -> float | None:
        """When a task's operands, constants and room are there; None if something is not yet scheduled."""
        ready = self._constants.ready(index, task.chunk)
        if ready is None:
            return None
        if node.by_inputs and index not in self._acc_kept and len(self._acc_kept) == self.config.acc_banks - 2:
            return None  # two banks are for the others
        for k, name in enumerate(node.inputs):
            state, (first, last) = self._state[name], node.needs(task, k)
            if last < first:
                continue
            last = min(last + state.buffer.pad[0], state.buffer.rows - 1)
            if last >= state.rows_ready:
                self._lacks[index] = state, last
                return None
            ready = max(ready, state.times[last])
            if node.uses_gemm and self.policy.banks:
                ready = self._banks.free(state.buffer, first + state.buffer.pad[0], last, ready)
        outputs = self._outputs(node) if task.finishes else []
        if not all(self._has_room(state, task.last) for state in outputs if state.live):
            return None
        if not self._place_all([state for state in outputs if not state.live]):
            return None
        if not node.uses_gemm:
            return ready
        return max(ready, self._acc_free[self._bank(index)])

    def _bank(self, index: int) -> int:
        """The bank of acc of a node's next task: the one that it keeps, or the next that nobody does."""
        if index in self._acc_kept:
            return self._acc_kept[index]
        banks = self.config.acc_banks
        return next(b % banks for b in range(self._acc_next, 2 * banks) if b % banks not in self._acc_kept.values())

    def _has_room(self, state: BufferState, row: int) -> bool:
        buffer = state.buffer
        highest = buffer.rows - 1 if row == buffer.height - 1 else row + buffer.pad[0]
        return highest < self._lowest_needed(state) + buffer.capacity

    def _lowest_needed(self, state: BufferState) -> int:
        """The lowest row (padding counted) that must stay: for a consumer, for another producer, or for STORE.

        STORE takes a row once every producer has written it, and the padding above the image with the first row.
        """
        lowest = _FAR
        if state.producers and state.complete < state.buffer.height:
            lowest = state.complete + state.buffer.pad[0] if state.complete else 0
        if state.unstored:
            lowest = min(lowest, state.unstored[0])
        for node, k in state.consumers:
            if self._next[node] < len(self.nodes[node].tasks):
                lowest = min(lowest, max(0, self._lowest[node][k][self._next[node]] + state.buffer.pad[0]))
        return lowest

    def _run_task(self, best: tuple[float, int, Task]) -> None:
        start, index, task = best
        node = self.nodes[index]
        self._make_live([state for state in self._outputs(node) if task.finishes and not state.live])
        bank = self._bank(index)
        if index not in self._acc_kept:
            self._acc_next = (bank + 1) % self.config.acc_banks
        if node.by_inputs:
            self._acc_kept[index] = bank
        self.actions.append(RunTask(index, self._next[index], bank * self.config.acc_bank_units))
        ready = start
        if node.uses_gemm:
            end = start + node.gemm_cycles(task)
            self._time[Engine.GEMM] = end
            ready = end + GEMM_DEPTH + 2
        alu_end = max(self._time[Engine.ALU], ready) + node.alu_cycles(task) * len(self._outputs(node))
        self._time[Engine.ALU] = alu_end
        self._acc_free[bank] = alu_end if task.finishes else end
        self._read(node, task, end + GEMM_DEPTH if node.uses_gemm else alu_end + ALU_DEPTH)
        self._next[index] += 1
        self._lacks[index] = None
        if self._next[index] == len(node.tasks):
            self._acc_kept.pop(index, None)
            for name in node.inputs:
                self._state[name].waiting -= 1
        done = alu_end + ALU_DEPTH + 2
        if task.completes_row:
            for state in self._outputs(node):
                for row in range(task.row, task.last + 1):
                    self._complete_row(state, index, row, done)
        self._constants.done(index, self._next[index] - 1)
        for name in node.inputs:
            self._retire_if_unused(self._state[name])
        for state in self._outputs(node):
            self._retire_if_unused(state)

    def _read(self, node: Node, task: Task, end: float) -> None:
        """A task reads its operands until ``end``."""
        for k, name in enumerate(node.inputs):
            buffer, (first, last) = self._state[name].buffer, node.needs(task, k)
            if first <= last:
                top = buffer.pad[0]
                self._banks.read(self._banks.of(buffer, first + top, min(last + top, buffer.rows - 1)), end)

    def _outputs(self, node: Node) -> list[BufferState]:
        """The buffers a node writes: its output and, if there is one, the duplicate."""
        return [self._state[t] for t in (node.output, duplicate(node.output)) if t in self._state]

    def _complete_row(self, state: BufferState, producer: int, row: int, time: float) -> None:
        state.behind -= state.completed.get(producer, 0) <= state.complete < row + 1
        state.completed[producer] = row + 1
        if not state.behind:
            state.complete = min(state.completed.get(p, 0) for p in state.producers)
            state.behind = sum(state.completed.get(p, 0) <= state.complete for p in state.producers)
        rows = state.complete
        buffer = state.buffer
        ready = buffer.rows if rows == buffer.height else buffer.pad[0] + rows if rows else 0
        if ready > state.rows_ready:
            if state.stored:
                heappush(self._stores, (time, self._stored, rows - 1, state))
                self._stored += 1
                state.unstored.append(state.rows_ready)
            state.times += [time] * (ready - state.rows_ready)
            state.rows_ready = ready

    def _store_row(self) -> None:
        """Store the row that is complete first. Not written before that, or GEMM waits where both read one bank."""
        time, _, row, state = heappop(self._stores)
        state.unstored.pop(0)
        buffer, place = state.buffer, row + state.buffer.pad[0]
        self._banks.store(self._banks.of(buffer, place, place), time, buffer.stride * self.config.act_unit_bytes)
        self.actions.append(StoreRow(state.buffer.tensor, row))
        self._retire_if_unused(state)

    def _retire_if_unused(self, state: BufferState) -> None:
        written = not state.producers or state.complete >= state.buffer.height
        needed = state.waiting or state.unstored or not written or state.rows_ready < state.buffer.rows
        if state.live and not state.dead and not needed:
            state.dead = True
            self._act.release(state.buffer.base, state.buffer.size)

    # -- loads -----------------------------------------------------------------------------------------

    def _load_something(self) -> bool:
        constants, rows = self._bus_bytes
        share = self.policy.constant_share
        if constants * (1 - share) <= rows * share:
            return self._load_chunk() or self._load_row()
        return self._load_row() or self._load_chunk()

    def _load_row(self, patient: bool = True) -> bool:
        """Load the next row of an input or a spilled tensor.

        LOAD takes its instructions in order, so a row that STORE has yet to write is not asked for before it is
        there; unless nothing else is left to do (not ``patient``).
        """
        for position, state in enumerate(self._unloaded):
            source = None if state.source is None else self._state[state.source]
            if source is not None and source.rows_ready <= state.rows_ready:
                continue
            size = state.buffer.stride * self.config.act_unit_bytes
            arrival = 0.0
            if source is not None:
                arrival = source.times[state.rows_ready] + size / self.config.beat_bytes + self.config.dram_latency
                if patient and arrival > self._time[Engine.LOAD]:
                    continue
            if not state.live:
                if not self._place_all([state]):
                    continue
                self._make_live([state])
            if state.rows_ready >= self._lowest_needed(state) + state.buffer.capacity:
                continue
            while source is not None and source.unstored and source.unstored[0] <= state.rows_ready:
                self._store_row()
            self._time[Engine.LOAD] = max(self._time[Engine.LOAD], arrival)
            self._bus_bytes[1] += size
            self.actions.append(LoadRow(state.buffer.tensor, state.rows_ready))
            state.times.append(self._transfer(size))
            state.rows_ready += 1
            if state.rows_ready == state.buffer.rows:
                self._unloaded.pop(position)
            self._retire_if_unused(state)  # the last rows may be padding that nobody reads
            return True
        return False

    def _load_chunk(self, patient: bool = True) -> bool:
        """Load the next chunk of constants, or of a tensor as weights, as :meth:`_load_row` does: once it is stored."""
        chunk = self._constants.next
        if chunk is None:
            return False
        source = self._weights_state(chunk)
        arrival = 0.0
        if source is not None:
            if source.complete < source.buffer.height:
                return False
            arrival = source.times[-1] + chunk.entries * self.config.wgt_entry_bytes / self.config.beat_bytes
            arrival += self.config.dram_latency
            if patient and arrival > self._time[Engine.LOAD]:
                return False
        load = self._constants.place()
        if load is None:
            return False
        while source is not None and source.unstored:
            self._store_row()
        self._time[Engine.LOAD] = max(self._time[Engine.LOAD], arrival)
        size = self._constants.size(chunk)
        self._bus_bytes[0] += size
        self._constants.arrive(load, self._transfer(size))
        self.actions.append(load)
        return True

    def _weights_state(self, chunk: Chunk) -> BufferState | None:
        """The tensor made on the chip of which a chunk takes weights; None for constants and what the host packs."""
        blocked = self._weights.get(chunk.streamed.name) if chunk.streamed is not None else None
        return None if blocked is None or blocked.packed else self._state[blocked.tensor]

    def _transfer(self, size: int) -> float:
        self._time[Engine.LOAD] += size / self.config.beat_bytes
        return self._time[Engine.LOAD] + self.config.dram_latency + LOAD_DEPTH + 2

    # -- act -------------------------------------------------------------------------------------------

    def _place_all(self, states: list[BufferState]) -> bool:
        """Whether act has room for all of these at once; gives each its base."""
        if self._before is not None:
            waiting = [s.buffer.tensor for s in states if self._waits(self._before[s.buffer.tensor])]
            self._blocked.update(waiting)
            return not waiting
        placed: list[BufferState] = []
        for state in states:
            base = find_place(state, self._state.values(), self._act, self.config)
            if base is None:
                self._blocked.add(state.buffer.tensor)
                break
            self._act.reserve(base, state.buffer.size)
            state.buffer.base, state.live = base, True
            placed.append(state)
        for state in placed:
            self._act.release(state.buffer.base, state.buffer.size)
            state.live = False
        return len(placed) == len(states)

    @staticmethod
    def _waits(before: list[BufferState]) -> bool:
        """Whether one of these lives still, or has yet to. Those that are dead are forgotten."""
        while before and before[-1].dead:
            before.pop()
        return bool(before)

    def _make_live(self, states: list[BufferState]) -> None:
        """Take the places that :meth:`_place_all` found."""
        for state in states:
            self._act.reserve(state.buffer.base, state.buffer.size)
            state.live = True

    def _stuck(self) -> ScheduleError:
        held = [n for n, s in self._state.items() if (s.live and not s.dead) or n in self._blocked]
        if self._constants.fault is not None and not self._blocked:
            memory, node = self._constants.fault
            return ScheduleError(
                f"{node}: its constants do not fit {memory} beside those of the layers still running", memory, held
            )
        size = sum(self._state[n].buffer.size for n in held)
        return ScheduleError(
            f"act: {size} units are needed at once by {', '.join(held)}, there are {self.config.act_units}; "
            f"raise act_bytes",
            "act",
            held,
        )
