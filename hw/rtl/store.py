"""STORE: reads act tiles and hands them to the write channel."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.hw.rtl.bursts import BurstRequester, ExtentCheck
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.hw.rtl.write_channel import WriteChannel
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Opcode, act_bits

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
        self.issue, self.ready, self.drains, self.drained = Signal(), Signal(), Signal(), Signal()
        self.read_enable = Signal()
        self.read_address = Signal(act_bits(config), reset_less=True)
        self.read_data = Signal(8 * config.act_unit_bytes)
        self.fault = Signal()
        self.retire = Signal()
        self.retire_push = Signal(3)
        self.retire_trace = Signal()
        self.retire_tag = Signal(TAG_BITS)
        self.channel = WriteChannel(config, len(self.retire_push) + len(self.retire_trace) + TAG_BITS)
        fields = view(Opcode.STORE, self.head, config)
        self.parts = config.act_unit_bytes // config.beat_bytes
        self.beats = Signal(len(fields.cols) + self.parts.bit_length())
        self.check = ExtentCheck(config, fields, self.beats)

    def elaborate(self, platform: object) -> Module:
        """Stage 0: issue; 1: read address, segment base, extent; 2, 3: act's output; 4: on the bus."""
        m = Module()
        c = self.config
        fields = view(Opcode.STORE, self.head, c)
        wait = view(Opcode.WAIT, self.head, c)
        note = Cat(fields.push, fields.trace, self.tag)
        is_store, stage_1 = Signal(), Signal()
        m.submodules.check = check = self.check
        m.submodules.bursts = bursts = BurstRequester(c, len(fields.rows), len(self.beats), len(fields.stride))
        rows, stride = Signal.like(fields.rows, reset_less=True), Signal.like(fields.stride, reset_less=True)
        beats, tile_note = Signal.like(self.beats, reset_less=True), Signal.like(note, reset_less=True)
        waiting, wait_done = Signal(), Signal()
        wait_left = Signal.like(wait.cycles, reset_less=True)
        m.d.comb += [
            is_store.eq(fields.opcode == Opcode.STORE),
            self.drains.eq(~is_store),
            self.beats.eq((fields.cols + 1) * self.parts),
            wait_done.eq(waiting & (wait_left == 0)),
            self.ready.eq(~stage_1 & ~bursts.active & (~waiting | wait_done)),
            self.fault.eq(stage_1 & check.outside),
            bursts.setup.eq(stage_1 & ~check.outside),
            bursts.first.eq(check.base), bursts.rows.eq(rows), bursts.stride.eq(stride), bursts.beats.eq(beats),
        ]  # fmt: skip
        m.d.sync += [stage_1.eq(self.issue & is_store), wait_left.eq(wait_left - 1)]
        with m.If(wait_done):
            m.d.sync += waiting.eq(0)
        with m.If(self.issue):
            m.d.sync += [
                Cat(rows, stride, beats).eq(Cat(fields.rows, fields.stride, self.beats)), tile_note.eq(note),
                waiting.eq(~is_store), wait_left.eq(wait.cycles),
            ]  # fmt: skip
        m.submodules.buffer = buffer = Queue(c.axi_bits, BUFFER)
        self._walk(m, fields, is_store, buffer)
        m.submodules.channel = channel = self.channel
        m.d.comb += [
            channel.active.eq(bursts.active), channel.address.eq(bursts.address), channel.length.eq(bursts.length),
            channel.final.eq(bursts.final), channel.note.eq(tile_note), bursts.step.eq(channel.step),
            channel.beat_valid.eq(buffer.valid), channel.beat.eq(buffer.head), buffer.pop.eq(channel.beat_sent),
            self.retire.eq(channel.retire | wait_done),
            Cat(self.retire_push, self.retire_trace, self.retire_tag).eq(
                Mux(wait_done, tile_note, channel.retire_note)
            ),
            self.drained.eq(~stage_1 & ~bursts.active & channel.quiet & ~channel.retire & ~waiting),
        ]  # fmt: skip
        return m

    def _walk(self, m: Module, fields: object, is_store: Signal, buffer: Queue) -> None:
        """Addresses of the tile's units, a part (beat) a cycle, as fast as the buffer has room."""
        offset_bits = len(fields.sram) + 1
        size, base = Signal.like(fields.wrap_size, reset_less=True), Signal.like(fields.wrap_base, reset_less=True)
        row_step, col_step = (
            Signal.like(fields.sram_row, reset_less=True),
            Signal.like(fields.sram_col, reset_less=True),
        )
        row_offset, offset = Signal(offset_bits, reset_less=True), Signal(offset_bits, reset_less=True)
        cols, cols_left = Signal.like(fields.cols, reset_less=True), Signal.like(fields.cols, reset_less=True)
        rows_left = Signal.like(fields.rows, reset_less=True)
        part = Signal(range(max(2, self.parts)))
        walking, step, unit_done = Signal(), Signal(), Signal()
        credit = Signal(range(BUFFER + 1), init=BUFFER)
        next_offset, next_row = Signal(offset_bits), Signal(offset_bits)
        load_offset = Signal(offset_bits)
        use_size, use_base = Signal.like(size), Signal.like(base)
        m.d.comb += [
            step.eq(walking & (credit != 0)),
            unit_done.eq(step & (part == self.parts - 1)),
            self.read_enable.eq(step),
            next_row.eq(row_offset + row_step),
            next_offset.eq(Mux(cols_left == 0, next_row, offset + col_step)),
            load_offset.eq(Mux(self.issue, fields.sram, next_offset)),
            use_size.eq(Mux(self.issue, fields.wrap_size, size)),
            use_base.eq(Mux(self.issue, fields.wrap_base, base)),
        ]
        wrapped = use_base + Mux(load_offset > use_size, load_offset - use_size - 1, load_offset)
        m.d.sync += credit.eq(credit + (buffer.pop & buffer.valid) - step)
        with m.If(step):
            m.d.sync += part.eq(Mux(unit_done, 0, part + 1))
        with m.If(unit_done):
            m.d.sync += [offset.eq(next_offset), self.read_address.eq(wrapped), cols_left.eq(cols_left - 1)]
            with m.If(cols_left == 0):
                m.d.sync += [row_offset.eq(next_row), cols_left.eq(cols), rows_left.eq(rows_left - 1)]
                with m.If(rows_left == 0):
                    m.d.sync += walking.eq(0)
        with m.If(self.issue & is_store):
            m.d.sync += [
                walking.eq(1), part.eq(0), offset.eq(fields.sram), row_offset.eq(fields.sram),
                self.read_address.eq(wrapped), size.eq(fields.wrap_size), base.eq(fields.wrap_base),
                row_step.eq(fields.sram_row), col_step.eq(fields.sram_col), cols.eq(fields.cols),
                cols_left.eq(fields.cols), rows_left.eq(fields.rows),
            ]  # fmt: skip
        # stages 2 and 3: act's latch and output register
        step_2, step_3 = Signal(), Signal()
        part_2, part_3 = Signal.like(part, reset_less=True), Signal.like(part, reset_less=True)
        m.d.sync += [step_2.eq(step), step_3.eq(step_2), part_2.eq(part), part_3.eq(part_2)]
        bits = self.config.axi_bits
        beats = [self.read_data[k * bits : (k + 1) * bits] for k in range(self.parts)]
        m.d.comb += [
            buffer.write.eq(step_3),
            buffer.write_data.eq(Array(beats)[part_3] if self.parts > 1 else beats[0]),
        ]
