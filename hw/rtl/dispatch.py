"""Dispatch: one instruction a cycle, in program order, from FETCH to its engine's command queue."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal

from tilewright.config import Config
from tilewright.hw.rtl.layout import engine_of, is_illegal, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Engine, instruction_width


class Dispatch(Elaboratable):
    """A full queue blocks; what is dispatched in one cycle can issue in the next (DISPATCH_LATENCY = 1).

    valid, word, take: from FETCH; a word is decoded into a register, and ``dispatched`` from there.
    ``queues[engine]``: head holds instruction and tag (index in the program).
    ``illegal``: pulse; the instruction ``tag`` does not decode, nothing is dispatched from it on. ``idle``: all
    instructions have been dispatched.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.start, self.stop = Signal(), Signal()
        self.instructions = Signal(TAG_BITS)
        self.valid, self.take = Signal(), Signal()
        self.word = Signal(instruction_width(config))
        self.bits = widest_format(config)
        self.queues = [Queue(self.bits + TAG_BITS, config.queue_depth) for _ in Engine]
        self.tag = Signal(TAG_BITS)
        self.dispatched, self.illegal, self.idle = Signal(), Signal(), Signal()
        self.engine = Signal(2, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """Decode and check; enqueue."""
        m = Module()
        valid, sound = Signal(), Signal()  # an instruction stands here; and it decodes
        word = Signal(self.bits, reset_less=True)
        left, some_left = Signal(TAG_BITS), Signal()  # instructions not yet decoded
        for engine, queue in zip(Engine, self.queues):
            m.submodules[f"queue_{engine.name.lower()}"] = queue
            m.d.comb += [
                queue.write.eq(sound & ~self.stop & (self.engine == engine) & ~queue.full),
                queue.write_data.eq(Cat(word, self.tag)),
            ]
        m.d.comb += [
            self.illegal.eq(valid & ~sound & ~self.stop),
            self.dispatched.eq(Cat(queue.write for queue in self.queues).any()),
            self.take.eq(self.valid & some_left & (~valid | self.dispatched)),
            self.idle.eq(~some_left & ~valid),
        ]
        with m.If(self.take):
            m.d.sync += [
                valid.eq(1), word.eq(self.word[: self.bits]), self.engine.eq(engine_of(self.word, self.config)),
                sound.eq(~is_illegal(self.word, self.config)), left.eq(left - 1), some_left.eq(left != 1),
            ]  # fmt: skip
        with m.Elif(self.dispatched):
            m.d.sync += [valid.eq(0), sound.eq(0)]
        with m.If(self.dispatched):
            m.d.sync += self.tag.eq(self.tag + 1)
        with m.If(self.start):
            m.d.sync += [self.tag.eq(0), left.eq(self.instructions), some_left.eq(self.instructions != 0)]
        return m
