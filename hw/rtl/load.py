"""LOAD, address side: takes instructions from the queue, requests their bursts, hands tiles to the data side."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.hw.rtl.bursts import BurstRequester, ExtentCheck, row_beats
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.isa.spec import Opcode, bits_for, core_bits


class Load(Elaboratable):
    """The LOAD engine's control: issue, bursts, busy.

    head: the instruction that ``issue`` takes. ready: may issue as far as the engine goes; FILL and WAIT also
    need ``drained``. tile_write, tile: to the data side, in the cycle of issue. ``fault``: pulse FAULT_LATENCY = 2
    cycles after the issue of an instruction that reaches outside its segment. ``there``: cores whose doorbells can be
    heard; ``heard``: the head hears no other; ``hear``: those that it takes, in the cycle of issue.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.head = Signal(widest_format(config))
        self.issue, self.ready, self.drains = Signal(), Signal(), Signal()
        self.request, self.granted = Signal(), Signal()
        self.request_address = Signal(DRAM_ADDRESS_BITS - bits_for(config.beat_bytes))
        self.request_length = Signal(range(config.burst_beats))
        self.fault = Signal()
        self.slots_busy = Signal()  # data side: a FILL or WAIT has more slots to go
        self.there, self.hear = Signal(core_bits(config)), Signal(core_bits(config))
        self.heard = Signal()
        fields = view(Opcode.LOAD, self.head, config)
        self.beats, self._drive_beats = row_beats(config, fields.memory, fields.cols)
        self.check = ExtentCheck(config, fields, self.beats)

    def elaborate(self, platform: object) -> Module:
        """Stage 0: issue; 1: base, extent; 2: first request, or fault."""
        m = Module()
        fields = view(Opcode.LOAD, self.head, self.config)
        is_load = Signal()
        m.submodules.check = check = self.check
        m.submodules.bursts = bursts = BurstRequester(
            self.config, len(fields.rows), len(self.beats), len(fields.stride)
        )
        m.d.comb += [
            *self._drive_beats,
            is_load.eq(fields.opcode == Opcode.LOAD),
            self.drains.eq(~is_load),
            self.ready.eq(~(bursts.setup | bursts.active | self.fault | self.slots_busy)),
            bursts.begin.eq(self.issue & is_load), bursts.offset.eq(fields.offset), bursts.rows.eq(fields.rows),
            bursts.stride.eq(fields.stride), bursts.beats.eq(self.beats),
            # stage 1: the segment's base
            bursts.first.eq(check.base), bursts.outside.eq(check.outside),
            # stage 2: requests
            self.request.eq(bursts.active),
            self.request_address.eq(bursts.address),
            self.request_length.eq(bursts.length),
            bursts.step.eq(self.granted),
        ]  # fmt: skip
        m.d.sync += self.fault.eq(bursts.setup & check.outside)
        if self.config.cores > 1:
            asked = Signal.like(self.hear)
            m.d.comb += [
                asked.eq(Mux(fields.opcode == Opcode.WAIT, view(Opcode.WAIT, self.head, self.config).hear, 0)),
                self.heard.eq(~(asked & ~self.there).any()), self.hear.eq(Mux(self.issue, asked, 0)),
            ]  # fmt: skip
        return m
