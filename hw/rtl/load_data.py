"""LOAD, data side: beats and fill slots to memory writes, in order, several tiles in flight."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.functions import any_of
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Memory, Opcode, bits_for, entry_bytes, memory_depth


class LoadData(Elaboratable):
    """Takes tiles in issue order; each then takes its beats (LOAD) or a slot a cycle (FILL, WAIT).

    A beat that arrives in cycle a is written in a + 2 and, if it is the tile's last, retires it in a + 3.

    Outputs in the write cycle: ``write`` (one bit per Memory), ``address`` (units or entries), ``part`` (beat
    within the entry), ``whole`` (FILL: the whole unit), ``data`` (beat) and ``value`` (FILL).
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.issue = Signal()
        self.head = Signal(widest_format(config))
        self.tag = Signal(TAG_BITS)
        self.beat_valid = Signal()
        self.beat = Signal(config.bus_bits)
        self.slots_busy = Signal()
        self.write = Signal(len(Memory))
        self.sram_bits = len(view(Opcode.LOAD, self.head, config).sram)
        self.address = Signal(self.sram_bits, reset_less=True)
        self.parts = max(1, *(entry_bytes(config, m) // config.beat_bytes for m in Memory))
        self.part = Signal(range(max(2, self.parts)), reset_less=True)
        self.whole = Signal(reset_less=True)
        self.data = Signal(config.bus_bits, reset_less=True)
        self.value = Signal(32, reset_less=True)
        self.retire = Signal()
        self.retire_push = Signal(3, reset_less=True)
        self.retire_trace = Signal(reset_less=True)
        self.retire_tag = Signal(TAG_BITS, reset_less=True)
        self.drained = Signal()

    def elaborate(self, platform: object) -> Module:
        """Stage a: walk of the tile; a + 1: wrap; a + 2: write; a + 3: retire."""
        m = Module()
        c = self.config
        width = len(self.head)
        # every burst in flight may belong to another tile, and one more may not have requested yet
        last_parts, cols_per_beat = [], []
        for index in range(8):
            entry = entry_bytes(c, Memory(index)) if index < len(Memory) else c.beat_bytes
            last_parts.append(max(1, entry // c.beat_bytes) - 1)
            cols_per_beat.append(max(1, c.beat_bytes // entry))
        part, part_end = Signal.like(self.part), Signal(reset_less=True)  # whether it is the entry's last
        one_part = Signal(reset_less=True)
        per_beat, last_part = Signal(range(max(cols_per_beat) + 1), reset_less=True), Signal.like(part, reset_less=True)
        # facts that take long to find are found as a tile enters, and wait along with it
        facts = len(per_beat) + len(last_part) + 3
        m.submodules.tiles = tiles = Queue(width + TAG_BITS + facts, c.outstanding + 2)
        found = tiles.load_data[width + TAG_BITS :]
        word = tiles.head[:width]
        load, fill, wait = (view(op, word, c) for op in (Opcode.LOAD, Opcode.FILL, Opcode.WAIT))
        entering, entering_wait = (view(op, self.head, c) for op in (Opcode.LOAD, Opcode.WAIT))
        coming = view(Opcode.LOAD, tiles.load_data[:width], c)
        coming_wait = view(Opcode.WAIT, tiles.load_data[:width], c)
        # of the tile at the head, found along with it: what it is, columns in a beat, beats (less one) of an entry
        is_load, is_wait = Signal(reset_less=True), Signal(reset_less=True)

        # stage a
        offset_bits = self.sram_bits + 1
        row_offset, offset = Signal(offset_bits, reset_less=True), Signal(offset_bits, reset_less=True)
        rows_left, cols_left = Signal.like(load.rows, reset_less=True), Signal.like(load.cols, reset_less=True)
        wait_left = Signal.like(wait.cycles, reset_less=True)
        step, entry_done, row_done, tile_done = Signal(), Signal(), Signal(), Signal()
        # the counters' zeros are found a cycle ahead: whether LOAD may issue hangs on them
        cols_end, rows_end, wait_end = (Signal(name=f"{n}_end", reset_less=True) for n in ("cols", "rows", "wait"))
        more_slots = Signal(reset_less=True)  # a FILL or WAIT, and not in its last slot
        fill_end = Signal()  # ... FILL will be, after this slot
        next_row = Signal.like(offset)
        entering_cols_end, entering_more = Signal(), Signal()
        entering_counts = entering_per_beat, entering_last_part = Signal.like(per_beat), Signal.like(last_part)
        m.d.comb += [
            entering_per_beat.eq(Mux(entering.opcode == Opcode.LOAD, _chosen(cols_per_beat, entering.memory), 1)),
            entering_last_part.eq(Mux(entering.opcode == Opcode.LOAD, _chosen(last_parts, entering.memory), 0)),
            entering_cols_end.eq(entering.cols < entering_per_beat),
            entering_more.eq(
                (entering.opcode != Opcode.LOAD)
                & Mux(
                    entering.opcode == Opcode.WAIT, entering_wait.cycles != 0, Cat(entering.cols, entering.rows).any()
                )
            ),
            tiles.write.eq(self.issue),
            tiles.write_data.eq(
                Cat(self.head, self.tag, entering_cols_end, entering_more, entering_last_part == 0, *entering_counts)
            ),
            step.eq(tiles.valid & (~is_load | self.beat_valid)),
            entry_done.eq(part_end),
            row_done.eq(entry_done & cols_end),
            tile_done.eq(step & Mux(is_wait, wait_end, row_done & rows_end)),
            tiles.pop.eq(tile_done),
            self.slots_busy.eq(tiles.valid & more_slots),
            next_row.eq(row_offset + load.sram_row),
        ]
        m.d.comb += fill_end.eq(Mux(cols_end, (load.cols == 0) & (rows_left == 1), (cols_left == 1) & rows_end))
        with m.If(step):
            m.d.sync += [
                more_slots.eq(~is_load & ~Mux(is_wait, wait_left == 1, fill_end)),
                part.eq(Mux(entry_done, 0, part + 1)), part_end.eq(one_part | (~entry_done & (part + 1 == last_part))),
                wait_left.eq(wait_left - 1), wait_end.eq(wait_left == 1),
            ]  # fmt: skip
            with m.If(entry_done):
                m.d.sync += [
                    offset.eq(offset + Mux(per_beat == 1, load.sram_col, per_beat)),
                    cols_left.eq(cols_left - per_beat), cols_end.eq(cols_left < (per_beat << 1)),
                ]  # fmt: skip
            with m.If(row_done):
                m.d.sync += [
                    row_offset.eq(next_row), offset.eq(next_row), cols_left.eq(load.cols),
                    cols_end.eq(load.cols < per_beat), rows_left.eq(rows_left - 1), rows_end.eq(rows_left == 1),
                ]  # fmt: skip
        with m.If(tiles.load):
            m.d.sync += [
                Cat(cols_end, more_slots, one_part, per_beat, last_part).eq(found), part_end.eq(found[2]),
                is_load.eq(coming.opcode == Opcode.LOAD), is_wait.eq(coming.opcode == Opcode.WAIT),
                part.eq(0), row_offset.eq(coming.sram), offset.eq(coming.sram),
                rows_left.eq(coming.rows), rows_end.eq(coming.rows == 0),
                cols_left.eq(coming.cols),
                wait_left.eq(coming_wait.cycles), wait_end.eq(coming_wait.cycles == 0),
            ]  # fmt: skip

        # stage a + 1: wrapping of act offsets
        valid_1, done_1, slots_done_1 = Signal(), Signal(), Signal()
        offset_1 = Signal.like(offset, reset_less=True)
        part_1 = Signal.like(part, reset_less=True)
        memory_1 = Signal.like(load.memory, reset_less=True)
        base_1 = Signal.like(load.wrap_base, reset_less=True)
        less_1 = Signal.like(base_1, reset_less=True)  # base less the size of what wraps
        wraps_1 = Signal(reset_less=True)
        fill_1 = Signal(reset_less=True)
        value_1 = Signal(32, reset_less=True)
        data_1 = Signal.like(self.data, reset_less=True)
        note = Cat(load.push, load.trace, tiles.head[width : width + TAG_BITS])
        note_1, note_2 = Signal.like(note, reset_less=True), Signal.like(note, reset_less=True)
        m.d.sync += [
            valid_1.eq(step & ~is_wait), done_1.eq(tile_done & is_load), slots_done_1.eq(tile_done & ~is_load),
            offset_1.eq(offset), part_1.eq(part), memory_1.eq(load.memory), base_1.eq(load.wrap_base),
            less_1.eq(load.wrap_base - load.wrap_size - 1), wraps_1.eq(offset > load.wrap_size), fill_1.eq(~is_load),
            value_1.eq(fill.value), data_1.eq(self.beat),
            note_1.eq(note),
        ]  # fmt: skip
        act_mask = memory_depth(c, Memory.ACT) - 1
        wrapped = Signal(bits_for(memory_depth(c, Memory.ACT)))
        m.d.comb += wrapped.eq((offset_1 + Mux(wraps_1, less_1, base_1)) & act_mask)

        # stage a + 2: the write
        done_2 = Signal()
        m.d.sync += [
            self.write.eq(Mux(valid_1, 1 << memory_1, 0)),
            self.address.eq(Mux(memory_1 == Memory.ACT, wrapped, offset_1)),
            self.part.eq(part_1), self.whole.eq(fill_1), self.data.eq(data_1), self.value.eq(value_1),
            done_2.eq(done_1), note_2.eq(note_1),
        ]  # fmt: skip

        # stage a + 3: retire. The first slot of a FILL or WAIT is the cycle of its issue, where a LOAD's stage a is
        # the arrival of a beat; so it retires a stage earlier (its last write then happens in that cycle).
        m.d.sync += [
            self.retire.eq(done_2 | slots_done_1),
            Cat(self.retire_push, self.retire_trace, self.retire_tag).eq(Mux(slots_done_1, note_1, note_2)),
        ]
        m.d.comb += self.drained.eq(~(tiles.valid | done_1 | done_2 | slots_done_1 | self.retire))
        return m


def _chosen(numbers: list[int], index: Value) -> Value:
    """The number of an index, bit by bit: Yosys makes a ROM of an array, and moves the index's register behind it."""
    bits = max(numbers).bit_length()
    return Cat(any_of(index == k for k, number in enumerate(numbers) if number >> bit & 1) for bit in range(bits))
