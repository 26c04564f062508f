"""All memories of the accelerator, and the write port that LOAD has on each."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.load_data import LoadData
from tilewright.hw.rtl.memory import BankedMemory, WritePort
from tilewright.hw.rtl.primitives import Ram
from tilewright.isa.spec import (
    TABLE_ENTRIES,
    TABLE_ENTRY_VALUES,
    TABLES,
    Engine,
    Memory,
    bits_for,
    uop_depth,
    uop_width,
)


class UopMemory(Elaboratable):
    """Micro-ops; a row is a beat or a micro-op, whichever is wider. ``word`` comes a cycle after ``enable``."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self.width = uop_width(config, engine)
        self.row = max(self.width, config.bus_bits)
        self.per_row = self.row // self.width
        depth = uop_depth(config, engine)
        self.ram = Ram(self.row, max(1, depth // self.per_row), chunks=self.row // config.bus_bits)
        self.enable = Signal()
        self.address = Signal(bits_for(depth))
        self.word = Signal(self.width)

    def elaborate(self, platform: object) -> Module:
        """The row, then the micro-op in it."""
        m = Module()
        m.submodules.ram = ram = self.ram
        shift = bits_for(self.per_row) if self.per_row > 1 else 0
        m.d.comb += [ram.read_enable.eq(self.enable), ram.read_address.eq(self.address >> shift)]
        if shift:
            part = Signal(shift, reset_less=True)
            m.d.sync += part.eq(self.address[:shift])
            words = [ram.read_data[k * self.width : (k + 1) * self.width] for k in range(self.per_row)]
            m.d.comb += self.word.eq(Array(words)[part])
        else:
            m.d.comb += self.word.eq(ram.read_data)
        return m


class ParameterMemory(Elaboratable):
    """prm: a RAM per field, a write enable per channel. Data two cycles after ``enable``."""

    FIELD_BITS = (32, 32, 32, 6)  #: bias, multiplier, offset, shift, in DRAM order

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.block_out
        self.rams = [
            Ram(bits * n, config.prm_entries, chunks=n, registered=True, style="distributed")
            for bits in self.FIELD_BITS
        ]
        self.enable = Signal()
        self.address = Signal(bits_for(config.prm_entries))
        self.data = [Signal(bits * n, name=f"data_{k}") for k, bits in enumerate(self.FIELD_BITS)]
        self.write = Signal()
        self.write_address = Signal(bits_for(config.prm_entries))
        self.write_part = Signal(range(max(2, config.prm_entry_bytes // config.beat_bytes)))
        self.write_data = Signal(config.bus_bits)

    def elaborate(self, platform: object) -> Module:
        """A beat holds words part * n to part * n + n - 1 of the entry; word 4c + k is field k of channel c."""
        m = Module()
        words = self.config.bus_bits // 32
        for k, (name, bits) in enumerate(zip(("bias", "multiplier", "offset", "shift"), self.FIELD_BITS)):
            m.submodules[name] = ram = self.rams[k]
            enables, values = [], []
            for channel in range(self.config.block_out):
                part, lane = divmod(4 * channel + k, words)
                enables.append(self.write & (self.write_part == part))
                values.append(self.write_data[32 * lane : 32 * lane + bits])
            m.d.comb += [
                ram.read_enable.eq(self.enable), ram.read_address.eq(self.address), self.data[k].eq(ram.read_data),
                ram.write_enable.eq(Cat(*enables)), ram.write_address.eq(self.write_address),
                ram.write_data.eq(Cat(*values)),
            ]  # fmt: skip
        return m


class TableMemory(Elaboratable):
    """RESCALE's tables, one copy per lane: each looks up another value. A result comes a cycle after ``enable``."""

    def __init__(self, lanes: int) -> None:
        self.rams = [Ram(8 * TABLE_ENTRY_VALUES, TABLES * TABLE_ENTRIES) for _ in range(lanes)]
        self.enable = Signal()
        self.table = Signal(range(TABLES))
        self.index = Signal(8 * lanes)  #: an int8 per lane
        self.result = Signal(8 * lanes)
        self.write = Signal()
        self.write_address = Signal(self.rams[0].address_bits)
        self.write_data = Signal(8 * TABLE_ENTRY_VALUES)

    def elaborate(self, platform: object) -> Module:
        """The entry, then the value in it."""
        m = Module()
        low = bits_for(TABLE_ENTRY_VALUES)
        for lane, ram in enumerate(self.rams):
            m.submodules[f"lane_{lane}"] = ram
            index = self.index.word_select(lane, 8)
            place = Signal(low, name=f"place_{lane}", reset_less=True)
            m.d.sync += place.eq(index[:low])
            m.d.comb += [
                ram.read_enable.eq(self.enable), ram.read_address.eq(Cat(index[low:], self.table)),
                ram.write_enable.eq(self.write), ram.write_address.eq(self.write_address),
                ram.write_data.eq(self.write_data),
                self.result.word_select(lane, 8).eq(ram.read_data.word_select(place, 8)),
            ]  # fmt: skip
        return m


class Memories(Elaboratable):
    """act, acc, wgt, prm, both micro-op memories and tables; LOAD's data side writes all of them."""

    def __init__(self, config: Config, load: LoadData) -> None:
        self.config, self.load = config, load
        row = config.act_row_units * config.act_unit_bytes
        self.act = BankedMemory(
            config.act_units // config.act_row_units, 8 * row, config.act_banks, row // config.beat_bytes,
            ("gemm", "alu", "store"), ("alu", "load"),
        )  # fmt: skip
        row = config.out_units * config.acc_unit_bytes
        self.acc = BankedMemory(
            config.acc_units // config.out_units, 8 * row, config.acc_banks, row // config.beat_bytes,
            ("gemm", "alu_src", "alu_dst"), ("gemm", "alu", "load"),
        )  # fmt: skip
        # the array has the second register of packed weights: that of the sum of two
        self.wgt = Ram(
            8 * config.wgt_entry_bytes, config.wgt_entries, chunks=config.wgt_entry_bytes // config.beat_bytes,
            registered=not config.dsp_packing,
        )  # fmt: skip
        self.prm = ParameterMemory(config)
        self.uop_gemm = UopMemory(config, Engine.GEMM)
        self.uop_alu = UopMemory(config, Engine.ALU)
        self.table = TableMemory(config.out_units * config.batch * config.lanes)

    def elaborate(self, platform: object) -> Module:
        """Write data is repeated over the row; the chunk enables pick the place."""
        m = Module()
        c, load = self.config, self.load
        for name in ("act", "acc", "wgt", "prm", "uop_gemm", "uop_alu", "table"):
            m.submodules[name] = getattr(self, name)

        act_data = Mux(load.whole, load.value[:8].replicate(c.beat_bytes), load.data)
        act_parts = c.act_unit_bytes // c.beat_bytes
        self._unit_write(m, self.act.writers[1], c.act_row_units, act_parts, load.write[Memory.ACT], act_data)

        # acc: int8 beats widen to four beats' width
        wide = Signal(4 * c.bus_bits)
        for k in range(c.beat_bytes):
            byte = load.data[8 * k : 8 * k + 8]
            m.d.comb += wide[32 * k : 32 * k + 32].eq(Cat(byte, byte[7].replicate(24)))
        parts = c.acc_unit_bytes // c.beat_bytes
        narrow = load.write[Memory.ACC8]
        beat = Mux(load.whole, load.value.replicate(c.bus_bits // 32), load.data)
        data = Mux(narrow, wide, beat.replicate(4))
        port = self.acc.writers[2]
        self._unit_write(m, port, c.out_units, parts, load.write[Memory.ACC] | narrow, data, narrow)
        self._others(m)
        return m

    def _unit_write(
        self, m: Module, port: WritePort, row_units: int, parts: int, write: Value, data: Value,
        four: Value | None = None,
    ) -> None:  # fmt: skip
        """Write chunk ``load.part`` of a unit's ``parts``, or four chunks from 4 * part on, or the whole unit."""
        load = self.load
        bits = bits_for(row_units) if row_units > 1 else 0
        mask = Signal(parts, name=f"{port.data.name}_mask")
        place = Const(1, 1) << load.part
        if four is not None:
            place = Mux(four, Const(0b1111, 4) << Cat(Const(0, 2), load.part), place)
        m.d.comb += mask.eq(Mux(load.whole, (1 << parts) - 1, place))
        hits = [write & (load.address[:bits] == j) if bits else write for j in range(row_units)]
        m.d.comb += [
            port.address.eq(load.address >> bits),
            port.data.eq(data.replicate(len(port.data) // len(data))),
            port.chunks.eq(Cat(*[Mux(hit, mask, 0)[:parts] for hit in hits])),
        ]

    def _others(self, m: Module) -> None:
        load = self.load
        chunks = self.wgt.chunks
        m.d.comb += [
            self.wgt.write_enable.eq(Mux(load.write[Memory.WGT], Const(1, chunks) << load.part, 0)),
            self.wgt.write_address.eq(load.address), self.wgt.write_data.eq(load.data.replicate(chunks)),
            self.prm.write.eq(load.write[Memory.PRM]), self.prm.write_address.eq(load.address),
            self.prm.write_part.eq(load.part), self.prm.write_data.eq(load.data),
            self.table.write.eq(load.write[Memory.TABLE]), self.table.write_address.eq(load.address),
            self.table.write_data.eq(load.data),
        ]  # fmt: skip
        for memory, uops in ((Memory.UOP_GEMM, self.uop_gemm), (Memory.UOP_ALU, self.uop_alu)):
            shift = bits_for(uops.per_row) if uops.per_row > 1 else 0
            chunks = uops.ram.chunks
            m.d.comb += [
                uops.ram.write_enable.eq(Mux(load.write[memory], Const(1, chunks) << load.part, 0)),
                uops.ram.write_address.eq(load.address >> shift),
                uops.ram.write_data.eq(load.data.replicate(chunks)),
            ]
