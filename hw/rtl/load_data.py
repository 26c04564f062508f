"""LOAD, data side: beats and fill slots to memory writes, in order, several tiles in flight."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, signed

from tilewright.config import Config
from tilewright.hw.rtl.functions import add, any_of
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Memory, Opcode, bits_for, entry_bytes, memory_depth


class LoadData(Elaboratable):
    """Takes tiles in issue order; each then takes its beats (LOAD) or a slot a cycle (FILL, WAIT).

    A beat that arrives in cycle a is written in a + 2 and, if it is the tile's last, retires it in a + 3.

    Outputs in the write cycle: ``write`` (one bit per Memory), ``address`` (units or entries; of act the low bits
    count), ``part`` (beat within the entry), ``whole`` (FILL: the whole unit), ``data`` (beat) and ``value`` (FILL).
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
        """Stage a: the beat into a register, as it comes from a port; a + 1: walk of the tile; a + 2: write; a + 3:
        retire."""
        m = Module()
        c = self.config
        width = len(self.head)
        last_parts, cols_per_beat = [], []
        for index in range(8):
            entry = entry_bytes(c, Memory(index)) if index < len(Memory) else c.beat_bytes
            last_parts.append(max(1, entry // c.beat_bytes) - 1)
            cols_per_beat.append(max(1, c.beat_bytes // entry))
        part, part_end = Signal.like(self.part), Signal(reset_less=True)  # whether it is the entry's last
        one_part, one_col = Signal(reset_less=True), Signal(reset_less=True)  # a beat an entry; an entry a beat
        per_beat, last_part = Signal(range(max(cols_per_beat) + 1), reset_less=True), Signal.like(part, reset_less=True)
        # Facts that take long to find are found as a tile enters, and wait along with it. Every burst in flight may
        # belong to another tile, a beat of one may wait in its register, and a tile may not have requested yet
        facts = len(per_beat) + len(last_part) + 3
        m.submodules.tiles = tiles = Queue(width + TAG_BITS + facts, c.outstanding + 3)
        word = tiles.head[:width]
        load, fill, wait = (view(op, word, c) for op in (Opcode.LOAD, Opcode.FILL, Opcode.WAIT))
        entering, entering_wait = (view(op, self.head, c) for op in (Opcode.LOAD, Opcode.WAIT))
        coming = view(Opcode.LOAD, tiles.load_data[:width], c)
        coming_wait = view(Opcode.WAIT, tiles.load_data[:width], c)
        # of the tile at the head, found along with it: what it is, columns in a beat, beats (less one) of an entry
        is_load, is_wait, is_act = (Signal(name=f"is_{n}", reset_less=True) for n in ("load", "wait", "act"))

        # stage a
        beat_here = Signal()
        beat = Signal.like(self.beat, reset_less=True)
        m.d.sync += [beat_here.eq(self.beat_valid), beat.eq(self.beat)]

        # stage a + 1
        offset_bits = self.sram_bits + 1
        row_offset, offset = Signal(offset_bits, reset_less=True), Signal(offset_bits, reset_less=True)
        rows_left, cols_left = Signal.like(load.rows, reset_less=True), Signal.like(load.cols, reset_less=True)
        wait_left = Signal.like(wait.cycles, reset_less=True)
        step, entry_done, row_done, tile_done = Signal(), Signal(), Signal(), Signal()
        # the counters' zeros are found a cycle ahead: whether LOAD may issue hangs on them
        cols_end, rows_end, wait_end = (Signal(name=f"{n}_end", reset_less=True) for n in ("cols", "rows", "wait"))
        more_slots = Signal(reset_less=True)  # a FILL or WAIT, and not in its last slot
        fill_end = Signal()  # ... FILL will be, after this slot
        # in act: whether the offset wraps, and above which offsets the one behind it does
        wraps = Signal(reset_less=True)
        col_bound = Signal(signed(max(len(load.wrap_size), len(load.sram_col)) + 1), reset_less=True)
        row_bound = Signal(signed(max(len(load.wrap_size), len(load.sram_row)) + 1), reset_less=True)
        less = Signal.like(load.wrap_base, reset_less=True)  # base less the size of what wraps
        next_row = Signal.like(offset)
        near_part = Cat(Const(0, 1), last_part[1:])  # the last but one: parts of an entry are a power of two
        entering_wraps, entering_cols_end, entering_more = Signal(), Signal(), Signal()
        entering_per_beat, entering_last_part = Signal.like(per_beat), Signal.like(last_part)
        fresh = Signal()  # the tile did not wait: what is the same for every FILL and WAIT is not yet that of a LOAD
        m.d.comb += [
            entering_per_beat.eq(Mux(entering.opcode == Opcode.LOAD, _chosen(cols_per_beat, entering.memory), 1)),
            entering_last_part.eq(Mux(entering.opcode == Opcode.LOAD, _chosen(last_parts, entering.memory), 0)),
            entering_cols_end.eq(_less(entering.cols, entering_per_beat)),
            entering_wraps.eq(entering.sram > entering.wrap_size),
            entering_more.eq(
                (entering.opcode != Opcode.LOAD)
                & Mux(
                    entering.opcode == Opcode.WAIT, entering_wait.cycles != 0, Cat(entering.cols, entering.rows).any()
                )
            ),
            tiles.write.eq(self.issue),
            tiles.write_data.eq(
                Cat(
                    self.head, self.tag, entering_wraps, entering_more, entering_cols_end, entering_per_beat,
                    entering_last_part,
                )
            ),
            step.eq(tiles.valid & (~is_load | beat_here)),
            entry_done.eq(part_end),
            row_done.eq(entry_done & cols_end),
            tile_done.eq(step & Mux(is_wait, wait_end, row_done & rows_end)),
            tiles.pop.eq(tile_done),
            self.slots_busy.eq(tiles.valid & more_slots),
            next_row.eq(row_offset + load.sram_row),
        ]  # fmt: skip
        m.d.comb += fill_end.eq(Mux(cols_end, (load.cols == 0) & (rows_left == 1), (cols_left == 1) & rows_end))
        with m.If(step):
            m.d.sync += [
                more_slots.eq(~is_load & ~Mux(is_wait, wait_left == 1, fill_end)),
                part.eq(Mux(entry_done, 0, part + 1)), part_end.eq(one_part | (~entry_done & (part == near_part))),
                wait_left.eq(wait_left - 1), wait_end.eq(wait_left == 1),
            ]  # fmt: skip
            with m.If(entry_done):
                m.d.sync += [
                    offset.eq(add(offset, Mux(one_col, load.sram_col, per_beat))), wraps.eq(offset > col_bound),
                    cols_left.eq(cols_left - per_beat), cols_end.eq(_less(cols_left, per_beat << 1)),
                ]  # fmt: skip
            with m.If(row_done):
                m.d.sync += [
                    row_offset.eq(next_row), offset.eq(next_row), wraps.eq(row_offset > row_bound),
                    cols_left.eq(load.cols), cols_end.eq(_less(load.cols, per_beat)),
                    rows_left.eq(rows_left - 1), rows_end.eq(rows_left == 1),
                ]  # fmt: skip
        # what takes longest to find of a tile that does not wait is found in its first cycle: its first beat has not
        # been requested yet
        m.d.sync += fresh.eq(tiles.load & ~tiles.stored)
        with m.If(fresh & is_load):
            found = _chosen(cols_per_beat, load.memory), _chosen(last_parts, load.memory)
            m.d.sync += [
                per_beat.eq(found[0]), one_col.eq(found[0] == 1),
                last_part.eq(found[1]), one_part.eq(found[1] == 0), part_end.eq(found[1] == 0),
                cols_end.eq(_less(load.cols, found[0])),
            ]  # fmt: skip
        with m.If(tiles.load):
            behind_last_part = tiles.behind_head[len(tiles.head) - len(last_part) :]
            behind_per_beat = tiles.behind_head[len(tiles.head) - len(last_part) - len(per_beat) :][: len(per_beat)]
            at = width + TAG_BITS
            m.d.sync += [
                Cat(wraps, more_slots).eq(tiles.load_data[at : at + 2]),
                cols_end.eq(Mux(tiles.stored, tiles.behind_head[at + 2], coming.cols == 0)),
                per_beat.eq(Mux(tiles.stored, behind_per_beat, 1)),
                one_col.eq(~tiles.stored | (behind_per_beat == 1)),
                last_part.eq(Mux(tiles.stored, behind_last_part, 0)),
                one_part.eq(~tiles.stored | (behind_last_part == 0)),
                part_end.eq(~tiles.stored | (behind_last_part == 0)),
                is_load.eq(coming.opcode == Opcode.LOAD), is_wait.eq(coming.opcode == Opcode.WAIT),
                is_act.eq(coming.memory == Memory.ACT),
                part.eq(0), row_offset.eq(coming.sram), offset.eq(coming.sram),
                col_bound.eq(coming.wrap_size - coming.sram_col), row_bound.eq(coming.wrap_size - coming.sram_row),
                less.eq(coming.wrap_base + ~coming.wrap_size),
                rows_left.eq(coming.rows), rows_end.eq(coming.rows == 0),
                cols_left.eq(coming.cols),
                wait_left.eq(coming_wait.cycles), wait_end.eq(coming_wait.cycles == 0),
            ]  # fmt: skip

        # stage a + 2: the write. A FILL's first slot is the cycle after its issue, and it writes in the one after that
        done = Signal()
        note = Cat(load.push, load.trace, tiles.head[width : width + TAG_BITS])
        done_note = Signal.like(note, reset_less=True)
        low = bits_for(memory_depth(c, Memory.ACT))
        place = Mux(wraps, less, load.wrap_base) & is_act.replicate(len(less))
        m.d.sync += [
            self.write.eq(Mux(step & ~is_wait, 1 << load.memory, 0)),
            self.address.eq(Cat(add(offset[:low], place[:low]), offset[low:])),
            self.part.eq(part), self.whole.eq(~is_load), self.data.eq(beat), self.value.eq(fill.value),
            done.eq(tile_done), done_note.eq(note),
        ]  # fmt: skip

        # stage a + 3: retire
        m.d.sync += [self.retire.eq(done), Cat(self.retire_push, self.retire_trace, self.retire_tag).eq(done_note)]
        m.d.comb += self.drained.eq(~(tiles.valid | done | self.retire))
        return m


def _chosen(numbers: list[int], index: Value) -> Value:
    """The number of an index, bit by bit: Yosys makes a ROM of an array, and moves the index's register behind it."""
    bits = max(numbers).bit_length()
    return Cat(any_of(index == k for k, number in enumerate(numbers) if number >> bit & 1) for bit in range(bits))


def _less(value: Value, power: Value) -> Value:
    """value < power, for a power of two: parallel LUTs are faster than a carry chain."""
    return ~any_of(bit & ~power[k + 1 :].any() for k, bit in enumerate(value))
