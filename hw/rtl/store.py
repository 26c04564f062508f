"""STORE: reads act tiles and hands them to the write channel."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, signed

from tilewright.config import Config
from tilewright.hw.rtl.bursts import BurstRequester, ExtentCheck
from tilewright.hw.rtl.functions import add
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.hw.rtl.write_channel import WriteChannel
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Opcode, act_bits, bits_for, core_bits

BUFFER = 8  #: beats between the memory's pipeline and the bus, enough for the full rate


class Store(Elaboratable):
    """One tile at a time on the data side; responses of several tiles may be outstanding.

    read_enable, read_address (unit): to act; read_data (a whole unit) comes two cycles later. ``channel``: the bus,
    its limits and errors. ``fault``: as in Load.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.head = Signal(widest_format(config))
        self.tag = Signal(TAG_BITS)
        self.issue, self.drains = Signal(), Signal()
        self.ready, self.drained = Signal(init=1), Signal(init=1)
        self.read_enable = Signal()
        self.read_address = Signal(act_bits(config), reset_less=True)
        self.read_data = Signal(8 * config.act_unit_bytes)
        self.fault = Signal()
        self.retire = Signal()
        self.retire_push = Signal(3)
        self.retire_trace = Signal()
        self.retire_tag = Signal(TAG_BITS)
        self.ring = Signal(core_bits(config))  #: cores that the retire rings at
        self.channel = WriteChannel(config, len(self.retire_push) + len(self.retire_trace) + TAG_BITS)
        fields = view(Opcode.STORE, self.head, config)
        self.parts = config.act_unit_bytes // config.beat_bytes
        self.beats = Signal(len(fields.cols) + bits_for(self.parts) if self.parts > 1 else len(fields.cols))
        self.check = ExtentCheck(config, fields, self.beats)

    def elaborate(self, platform: object) -> Module:
        """Stage 0: issue; 1: read address, segment base, extent; 2: fault; 2, 3: act's output; 4: on the bus."""
        m = Module()
        c = self.config
        fields = view(Opcode.STORE, self.head, c)
        wait = view(Opcode.WAIT, self.head, c)
        note = Cat(fields.push, fields.trace, self.tag)
        is_store = Signal()
        m.submodules.check = check = self.check
        m.submodules.bursts = bursts = BurstRequester(c, len(fields.rows), len(self.beats), len(fields.stride))
        # bursts stand ready for the bus, so that its handshakes do not reach where they are cut
        burst = [bursts.address, bursts.length, bursts.single, bursts.final]
        m.submodules.ahead = ahead = Queue(len(Cat(burst)), 2)
        m.submodules.channel = channel = self.channel
        tile_note = Signal.like(note, reset_less=True)
        waiting, wait_end, wait_done = Signal(), Signal(), Signal()
        wait_left = Signal.like(wait.cycles, reset_less=True)
        m.d.comb += [
            is_store.eq(fields.opcode == Opcode.STORE),
            self.drains.eq(~is_store),
            self.beats.eq((fields.cols * self.parts) | (self.parts - 1)),
            wait_done.eq(waiting & wait_end),
            bursts.begin.eq(self.issue & is_store), bursts.offset.eq(fields.offset), bursts.rows.eq(fields.rows),
            bursts.stride.eq(fields.stride), bursts.beats.eq(self.beats), bursts.first.eq(check.base),
            bursts.outside.eq(check.outside), bursts.step.eq(bursts.active & ~ahead.full),
            ahead.write.eq(bursts.step), ahead.write_data.eq(Cat(burst)), ahead.pop.eq(channel.step),
            Cat(channel.address, channel.length, channel.single, channel.final).eq(ahead.head),
            channel.active.eq(ahead.valid), channel.behind.eq(ahead.behind),
        ]  # fmt: skip
        m.d.sync += [
            self.fault.eq(bursts.setup & check.outside), wait_left.eq(wait_left - 1), wait_end.eq(wait_left == 1),
        ]  # fmt: skip
        # ``ready`` and ``drained`` are found a cycle ahead: issue hangs on them. A tile that has been set up goes on as
        # bursts, or as the fault that the cycle after it takes
        m.d.sync += self.drained.eq(
            ~(self.issue | bursts.setup | bursts.active | ahead.valid | (waiting & ~wait_end)) & channel.quiet
        )
        with m.If(self.ready):
            m.d.sync += self.ready.eq(~self.issue | (~is_store & (wait.cycles == 0)))
        with m.Else():
            m.d.sync += self.ready.eq(
                ~(bursts.setup | bursts.active | ahead.stored) & (~ahead.valid | channel.step)
                & (~waiting | wait_end | (wait_left == 1))
            )  # fmt: skip
        with m.If(wait_done):
            m.d.sync += waiting.eq(0)
        with m.If(self.issue):
            m.d.sync += [
                tile_note.eq(note), waiting.eq(~is_store), wait_left.eq(wait.cycles), wait_end.eq(wait.cycles == 0),
            ]  # fmt: skip
        if c.cores > 1:
            cores = Signal.like(self.ring, reset_less=True)
            m.d.comb += self.ring.eq(Mux(wait_done, cores, 0))
            with m.If(self.issue):
                m.d.sync += cores.eq(wait.ring)
        m.submodules.buffer = buffer = Queue(c.bus_bits, BUFFER)
        self._walk(m, fields, is_store, buffer)
        m.d.comb += [
            channel.note.eq(tile_note),
            channel.beat_valid.eq(buffer.valid), channel.beat.eq(buffer.head), buffer.pop.eq(channel.beat_sent),
            self.retire.eq(channel.retire | wait_done),
            Cat(self.retire_push, self.retire_trace, self.retire_tag).eq(
                Mux(wait_done, tile_note, channel.retire_note)
            ),
        ]  # fmt: skip
        return m

    def _walk(self, m: Module, fields: object, is_store: Signal, buffer: Queue) -> None:
        """Addresses of the tile's units, a part (beat) a cycle, as fast as the buffer has room."""
        c = self.config
        offset_bits = len(fields.sram) + 1
        base = Signal.like(fields.wrap_base, reset_less=True)
        wrapped_base = Signal.like(base, reset_less=True)  # base less the size of what wraps
        row_step, col_step = (
            Signal.like(fields.sram_row, reset_less=True),
            Signal.like(fields.sram_col, reset_less=True),
        )
        # the next unit's offset, should it be of this row or of the next one, and whether it wraps
        next_col, next_row = Signal(offset_bits, reset_less=True), Signal(offset_bits, reset_less=True)
        col_wraps, row_wraps = Signal(reset_less=True), Signal(reset_less=True)
        # of offsets, above which the step from there wraps: the sum need not be waited for
        col_bound = Signal(signed(max(len(fields.wrap_size), len(col_step)) + 1), reset_less=True)
        row_bound = Signal(signed(max(len(fields.wrap_size), len(row_step)) + 1), reset_less=True)
        cols, cols_left = Signal.like(fields.cols, reset_less=True), Signal.like(fields.cols, reset_less=True)
        rows_left = Signal.like(fields.rows, reset_less=True)
        cols_end, rows_end = Signal(reset_less=True), Signal(reset_less=True)  # it ends its row, the tile
        part = Signal(range(self.parts)) if self.parts > 1 else Const(0, 1)
        walking, step, unit_done = Signal(), Signal(), Signal()
        credit = Signal(range(BUFFER + 1), init=BUFFER)
        offset, after_col, after_row = Signal(offset_bits), Signal(offset_bits), Signal(offset_bits)
        m.d.comb += [
            step.eq(walking & (credit != 0)),
            unit_done.eq(step & (part == self.parts - 1)),
            self.read_enable.eq(step),
            offset.eq(Mux(cols_end, next_row, next_col)),
            after_col.eq(offset + col_step),
            after_row.eq(next_row + row_step),
        ]
        m.d.sync += credit.eq(credit + (buffer.pop & buffer.valid) - step)
        if self.parts > 1:
            with m.If(step):
                m.d.sync += part.eq(Mux(unit_done, 0, part + 1))
        with m.If(unit_done):
            m.d.sync += [
                self.read_address.eq(offset + Mux(Mux(cols_end, row_wraps, col_wraps), wrapped_base, base)),
                next_col.eq(after_col), col_wraps.eq(offset > col_bound),
                cols_left.eq(cols_left - 1), cols_end.eq(cols_left == 1),
            ]  # fmt: skip
            with m.If(cols_end):
                m.d.sync += [
                    next_row.eq(after_row), row_wraps.eq(next_row > row_bound), cols_left.eq(cols),
                    cols_end.eq(cols == 0), rows_left.eq(rows_left - 1), rows_end.eq(rows_left == 1),
                ]  # fmt: skip
                with m.If(rows_end):
                    m.d.sync += walking.eq(0)
        first, size = fields.sram, fields.wrap_size
        with m.If(self.issue):
            m.d.sync += [
                walking.eq(is_store), base.eq(fields.wrap_base),
                wrapped_base.eq(fields.wrap_base - fields.wrap_size - 1),
                # both sums in forms that stay two, and the choice behind them
                self.read_address.eq(
                    Mux(
                        first > fields.wrap_size,
                        first + fields.wrap_base + ~fields.wrap_size,
                        add(first, fields.wrap_base),
                    )
                ),
                row_step.eq(fields.sram_row), col_step.eq(fields.sram_col),
                col_bound.eq(fields.wrap_size - fields.sram_col), row_bound.eq(fields.wrap_size - fields.sram_row),
                next_row.eq(first + fields.sram_row), row_wraps.eq(_exceeds(first, fields.sram_row, size)),
                next_col.eq(first + fields.sram_col), col_wraps.eq(_exceeds(first, fields.sram_col, size)),
                cols.eq(fields.cols), cols_left.eq(fields.cols), cols_end.eq(fields.cols == 0),
                rows_left.eq(fields.rows), rows_end.eq(fields.rows == 0),
            ]  # fmt: skip
            if self.parts > 1:
                m.d.sync += part.eq(0)
        # stages 2 and 3: act's latch and output register
        step_2, step_3 = Signal(), Signal()
        part_2, part_3 = Signal.like(part, reset_less=True), Signal.like(part, reset_less=True)
        m.d.sync += [step_2.eq(step), step_3.eq(step_2), part_2.eq(part), part_3.eq(part_2)]
        m.d.comb += [buffer.write.eq(step_3), buffer.write_data.eq(self.read_data.word_select(part_3, c.bus_bits))]


def _exceeds(first: Value, step: Value, size: Value) -> Value:
    """first + step > size, by one carry: three terms become two by LUTs, where a comparison would wait for the sum."""
    bits = max(len(first), len(step), len(size)) + 2
    a, b, c = (Cat(term, Const(0, bits - len(term))) for term in (first, step, size))
    c = ~c  # -size - 1
    both = (a & b) | (a & c) | (b & c)
    return ~((a ^ b ^ c) + Cat(Const(0, 1), both[:-1]))[bits - 1]
