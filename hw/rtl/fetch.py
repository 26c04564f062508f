"""Instruction fetch: bursts of the program into a FIFO that gives one whole instruction a cycle."""

from __future__ import annotations

from math import gcd

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, Signal, signed

from tilewright.config import Config
from tilewright.hw.rtl.primitives import AsyncRam
from tilewright.isa.registers import DRAM_ADDRESS_BITS, TAG_BITS
from tilewright.isa.spec import bits_for, instruction_width


class Fetch(Elaboratable):
    """Requests bursts while there is room for them; a beat is part of ``word`` two cycles later.

    The FIFO holds *granules*, the largest unit of which both a beat and an instruction are multiples, in
    2^n banks, so that any run of granules can be read at once.

    start: pulse in cycle 0, with ``program_address`` (bytes) and ``program_beats``, which stands since the cycle
    before. request, request_address (in beats), request_length (minus one), granted: to the read arbiter. beat,
    beat_valid: its data. valid, word, take: the next instruction, in a register. dispatched: pulse; an instruction's
    beats are free now. stop: no more requests.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.width = instruction_width(config)
        self.beat_shift = bits_for(config.beat_bytes)
        self.start, self.stop = Signal(), Signal()
        self.program_address = Signal(DRAM_ADDRESS_BITS)
        self.program_beats = Signal(TAG_BITS + 4)
        self.request, self.granted = Signal(), Signal()
        self.request_address = Signal(DRAM_ADDRESS_BITS - self.beat_shift, reset_less=True)
        self.request_length = Signal(range(config.burst_beats))
        self.beat_valid = Signal()
        self.beat = Signal(config.bus_bits)
        self.valid, self.take, self.dispatched = Signal(), Signal(), Signal()
        self.word = Signal(self.width, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """Address side, FIFO, alignment.

        ``spare``: beats of room beyond the next burst's; whether to request it is then the sign alone.
        """
        m = Module()
        c = self.config
        granule = gcd(self.width, c.bus_bits)
        per_beat, per_word = c.bus_bits // granule, self.width // granule
        widest = max(per_beat, per_word)
        banks = 1 << bits_for(widest) if widest > 1 else 1
        depth = max(c.fetch_beats * per_beat, 2 * banks)  # granules
        position_bits = bits_for(depth)

        # address side: room is counted in beats, from what was requested to what dispatch has consumed
        longest = c.burst_beats
        shift = bits_for(longest) if longest > 1 else 0
        left = Signal.like(self.program_beats)
        # three longest bursts are left; two; one; anything
        many, several, more, some = Signal(), Signal(), Signal(), Signal()
        length, after = Signal(range(longest + 1)), Signal(range(longest + 1))  # of the next burst, of the one after it
        spare = Signal(signed(bits_for(c.fetch_beats + 1) + 2), init=c.fetch_beats)
        # dispatch frees the beats in which an instruction ends: ``whole`` of them, and one more from some phases
        whole, rest = divmod(per_word, per_beat)
        phase = Signal(range(per_beat)) if per_beat > 1 else Const(0, 1)  # where dispatch stands in its beat
        one_more = Signal()
        gained = Signal(signed(len(spare)))  # whole - after
        after_next = Signal.like(after)
        tail, full_left = left[:shift], left[shift:]
        m.d.comb += [
            length.eq(Mux(more, longest, tail)),
            one_more.eq(phase + rest >= per_beat),
            after_next.eq(Mux(many, longest, Mux(several, tail, 0))),
            self.request.eq(some & ~spare[-1] & ~self.stop),
            self.request_length.eq(length - 1),
        ]
        # grant and dispatch come late in their cycle: all that may follow is ready before. The sums have forms of their
        # own: Yosys would choose the operands of one adder instead
        less = ~(~spare + after)
        both = (Cat(Const(1, 1), spare) + Cat(one_more, gained))[1:]
        m.d.sync += spare.eq(
            Mux(
                self.granted,
                Mux(self.dispatched, both, less),
                Mux(self.dispatched, spare + Mux(one_more, whole + 1, whole), spare),
            )
        )
        if per_beat > 1:
            with m.If(self.dispatched):
                m.d.sync += phase.eq(phase + per_word)
        with m.If(self.granted):
            m.d.sync += [
                left.eq(Mux(more, left - longest, 0)), more.eq(several), several.eq(many),
                many.eq(many & (full_left != 3)), after.eq(after_next), gained.eq(whole - after_next),
                some.eq(several | (more & (tail != 0))),
                self.request_address.eq(self.request_address + longest),
            ]  # fmt: skip

        # FIFO: a beat fills per_beat neighbouring banks of one row
        first, next_first = Signal(position_bits), Signal(position_bits)  # granules that instructions start with
        last = Signal(position_bits)  # granule that the next beat starts with
        held = Signal(range(depth + 1))
        rotate = Signal(range(banks)) if banks > 1 else None
        words, rows = [], []
        for bank in range(banks):
            m.submodules[f"bank_{bank}"] = ram = AsyncRam(granule, depth // banks)
            lane = bank % per_beat
            at_bank = last[: bits_for(banks)] if banks > 1 else 0
            row_shift = bits_for(banks) if banks > 1 else 0
            m.d.comb += [
                ram.write_enable.eq(self.beat_valid & (at_bank == bank - lane if banks > 1 else 1)),
                ram.write_address.eq(last >> row_shift),
                ram.write_data.eq(self.beat[lane * granule : (lane + 1) * granule]),
            ]
            # banks before the instruction's first one hold the granules of the next row; found as ``first`` is
            ahead = (bank < next_first[: bits_for(banks)]) if banks > 1 else 0
            row = Signal.like(ram.read_address, name=f"row_{bank}")
            rows.append((row, (next_first >> row_shift) + ahead))
            m.d.comb += ram.read_address.eq(row)
            words.append(ram.read_data)
        if rotate is not None:
            m.d.comb += rotate.eq(first)
            pieces = [Array(words)[(rotate + k)[: bits_for(banks)]] for k in range(per_word)]
        else:
            pieces = words
        advance = Signal()
        m.d.comb += [next_first.eq(first + per_word), advance.eq((held >= per_word) & (~self.valid | self.take))]
        with m.If(self.beat_valid & advance):
            m.d.sync += held.eq(held + per_beat - per_word)
        with m.Elif(advance):
            m.d.sync += held.eq(held - per_word)
        with m.Elif(self.beat_valid):
            m.d.sync += held.eq(held + per_beat)
        with m.If(advance):
            m.d.sync += [self.word.eq(Cat(*pieces)), self.valid.eq(1), first.eq(next_first)]
            m.d.sync += [row.eq(following_row) for row, following_row in rows]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        with m.If(self.beat_valid):
            m.d.sync += last.eq(last + per_beat)
        beats = self.program_beats
        # found ahead, as ``program_beats`` stands since before ``start``: room beyond the first burst's, what there is
        room, found, following = Signal.like(spare), Signal(4), Signal.like(after)
        gained_first = Signal.like(gained)
        one = beats[shift:].any()
        two = beats[shift + 1 :].any()
        three = beats[shift + 2 :].any() | beats[shift : shift + 2].all()
        after_first = Mux(two, longest, Mux(one, beats[:shift], 0))
        m.d.sync += [
            room.eq(Mux(one, c.fetch_beats - longest, c.fetch_beats - beats[:shift])),
            found.eq(Cat(three, two, one, beats.any())),
            following.eq(after_first), gained_first.eq(whole - after_first),
        ]  # fmt: skip
        with m.If(self.start):
            m.d.sync += [
                left.eq(beats), Cat(many, several, more, some).eq(found), spare.eq(room), after.eq(following),
                gained.eq(gained_first),
                self.request_address.eq(self.program_address >> self.beat_shift),
                first.eq(0), last.eq(0), held.eq(0), self.valid.eq(0), *[row.eq(0) for row, _ in rows],
            ]  # fmt: skip
            if per_beat > 1:
                m.d.sync += phase.eq(0)
        return m
