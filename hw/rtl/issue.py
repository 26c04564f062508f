"""Issue: when each engine may take the head of its queue, and why not if it may not."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.layout import view
from tilewright.hw.rtl.queue import Queue
from tilewright.hw.rtl.tokens import Tokens
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Engine, Opcode


class EngineIssue(Elaboratable):
    """One engine: head of its queue, tokens, engine state; ``issue`` in the cycle in which all are there.

    ``ready``: the engine has finished the slots of its last instruction; ``drained``: where the head's kind
    needs it, everything before has retired. ``waiting``: there is a head, and it comes before any fault; ``halt``:
    issue none.
    """

    def __init__(self, config: Config, queue: Queue) -> None:
        self.config, self.queue = config, queue
        self.waiting, self.halt = Signal(), Signal()
        self.ready, self.drained = Signal(), Signal()
        self.present = Signal(3)
        self.pop = Signal(3)
        self.issue = Signal()
        self.busy, self.empty, self.drain = Signal(), Signal(), Signal()  # why not, one at most
        self.waits = [Signal(name=f"wait_{k}") for k in range(3)]

    def elaborate(self, platform: object) -> Module:
        """Combinational, from registers only."""
        m = Module()
        head = self.queue.head
        fields = view(Opcode.LOAD, head, self.config)  # the header is the same in all formats
        missing = Signal(3)
        allowed = Signal()
        m.d.comb += [
            allowed.eq(self.waiting & ~self.halt),
            missing.eq(fields.pop & ~self.present),
            self.issue.eq(allowed & self.ready & self.drained & ~missing.any()),
            self.pop.eq(Mux(self.issue, fields.pop, 0)),
            self.queue.pop.eq(self.issue),
            self.busy.eq(~self.ready | self.issue),
            self.empty.eq(self.ready & ~self.queue.valid),
            self.waits[0].eq(self.ready & self.queue.valid & missing[0]),
            self.waits[1].eq(self.ready & self.queue.valid & missing[1] & ~missing[0]),
            self.waits[2].eq(self.ready & self.queue.valid & missing[2] & ~missing[:2].any()),
            self.drain.eq(self.ready & self.queue.valid & ~missing.any() & ~self.issue),
        ]
        return m


class Issue(Elaboratable):
    """The four engines' issue, the tokens between them, and what is under way.

    ``retire``, ``push``: from the engines, per engine. No instruction from the tag ``limit`` on is issued, nor from
    ``faulted_tag`` on after the cycle in which that engine has ``faulted``. ``idle``: nothing issued is unretired and
    no queue holds anything; ``no_tokens``; ``settled``: nothing below ``limit`` waits and only the faulted are
    unretired.
    """

    def __init__(self, config: Config, queues: list[Queue]) -> None:
        self.config = config
        self.engines = [EngineIssue(config, queue) for queue in queues]
        self.retire = [Signal(name=f"retire_{e.name.lower()}") for e in Engine]
        self.push = [Signal(3, name=f"push_{e.name.lower()}") for e in Engine]
        self.faulted = [Signal(name=f"faulted_{e.name.lower()}") for e in Engine]
        self.faulted_tag = [Signal(TAG_BITS, name=f"faulted_tag_{e.name.lower()}") for e in Engine]
        self.idle, self.no_tokens, self.settled = Signal(), Signal(), Signal()
        self.limit, self.halt = Signal(TAG_BITS), Signal()

    def elaborate(self, platform: object) -> Module:
        """Tokens and counts."""
        m = Module()
        m.submodules.tokens = tokens = Tokens(self.config)
        waiting, flying = [], []
        for e, engine in zip(Engine, self.engines):
            m.submodules[f"engine_{e.name.lower()}"] = engine
            m.d.comb += [
                engine.halt.eq(self.halt),
                engine.present.eq(tokens.present[e]),
                tokens.pop[e].eq(engine.pop),
                tokens.push[e].eq(Mux(self.retire[e], self.push[e], 0)),
            ]
            # issued less retired; a faulting instruction never retires and is taken off here
            count, issued = Signal(16, name=f"under_way_{e.name.lower()}"), Signal(name=f"issued_{e.name.lower()}")
            m.d.sync += [issued.eq(engine.issue), count.eq(count + issued - self.retire[e] - self.faulted[e])]
            flying.extend([count != 0, issued])
            self._wait(m, e, engine)
            waiting.append(engine.waiting)
        m.d.comb += [
            self.idle.eq(~Cat(*flying, *[e.queue.valid for e in self.engines]).any()),
            self.no_tokens.eq(tokens.empty),
            self.settled.eq(~Cat(*flying, *waiting).any()),
        ]
        return m

    def _wait(self, m: Module, e: Engine, engine: EngineIssue) -> None:
        """Found a cycle ahead, for the head that stays and for the next one, as issue and the run's end hang on it.

        Only LOAD and STORE fault when an instruction waits that comes before; behind a fault of its own an engine has
        none that does.
        """
        queue = engine.queue

        def below(data: Signal, waits: Value) -> Value:
            tag = data[len(data) - TAG_BITS :]
            for other in (Engine.LOAD, Engine.STORE):
                at, faulted = self.faulted[other], self.faulted_tag[other]
                waits = waits & ~(at if other == e else at & (tag >= faulted))
            return waits

        def comes(data: Signal) -> Value:
            return below(data, data[len(data) - TAG_BITS :] < self.limit)

        # the next entry or the one being written: compared both and chosen last, since each comparison takes long
        behind = (queue.stored & comes(queue.behind_head)) | (~queue.stored & queue.write & comes(queue.write_data))
        stays = below(queue.head, engine.waiting)
        m.d.sync += engine.waiting.eq(Mux(queue.pop | ~queue.valid, behind, stays))
