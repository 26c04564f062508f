"""Dispatch: one instruction a cycle, in program order, from FETCH to its engine's command queue."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Elaboratable, Module, Signal

from tilewright.config import Config
from tilewright.hw.rtl.layout import engine_of, is_illegal, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Engine, instruction_width


class Dispatch(Elaboratable):
    """A full queue blocks; what is dispatched in one cycle can issue in the next (DISPATCH_LATENCY = 1).

    valid, word, take: from FETCH. ``queues[engine]``: head holds instruction and tag (index in the program).
    ``illegal``: pulse; the instruction ``tag`` does not decode, nothing is dispatched from it on. ``left``:
    instructions not yet dispatched.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.start, self.stop = Signal(), Signal()
        self.instructions = Signal(TAG_BITS)
        self.valid, self.take = Signal(), Signal()
        self.word = Signal(instruction_width(config))
        self.bits = widest_format(config)
        self.queues = [Queue(self.bits + TAG_BITS, config.queue_depth) for _ in Engine]
        self.tag, self.left = Signal(TAG_BITS), Signal(TAG_BITS)
        self.illegal = Signal()
        self.engine = Signal(2)

    def elaborate(self, platform: object) -> Module:
        """Decode, check, enqueue."""
        m = Module()
        bad, ready = Signal(), Signal()
        for engine, queue in zip(Engine, self.queues):
            m.submodules[f"queue_{engine.name.lower()}"] = queue
            m.d.comb += [
                queue.write.eq(self.take & (self.engine == engine)),
                queue.write_data.eq(Cat(self.word[: self.bits], self.tag)),
            ]
        m.d.comb += [
            self.engine.eq(engine_of(self.word, self.config)),
            bad.eq(is_illegal(self.word, self.config)),
            ready.eq(self.valid & (self.left != 0) & ~self.stop),
            self.illegal.eq(ready & bad),
            self.take.eq(ready & ~bad & ~Array([q.full for q in self.queues])[self.engine]),
        ]
        with m.If(self.take):
            m.d.sync += [self.tag.eq(self.tag + 1), self.left.eq(self.left - 1)]
        with m.If(self.start):
            m.d.sync += [self.tag.eq(0), self.left.eq(self.instructions)]
        return m
