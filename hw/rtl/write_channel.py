"""AXI write master: the bursts of STORE's tiles, the limit of those in flight, and the responses that retire tiles."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.hw.rtl.ports import length_bits
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.isa.spec import bits_for


class WriteChannel(Elaboratable):
    """A burst is opened with its first beat; address and data then go out, each at its own handshake.

    ``active``, ``address`` (in beats), ``length`` (less one), ``single`` (one beat), ``final`` (the tile's last),
    ``note``: the burst to be written; ``step`` takes it. ``behind``: another one is there then. ``beat_valid``,
    ``beat``, ``beat_sent``: the data. ``halt``: open no further burst. ``retire``, ``retire_note``: in the cycle after
    a tile's last response. ``limited``: only the number of bursts in flight keeps the next from being opened.
    ``quiet``: no burst open, no response outstanding.

    A response may come before its burst's address is taken, as AXI3 allows, but not before its last beat.
    """

    def __init__(self, config: Config, note_bits: int) -> None:
        self.config = config
        self.active, self.behind, self.final, self.step = Signal(), Signal(), Signal(), Signal()
        self.address = Signal(DRAM_ADDRESS_BITS - bits_for(config.beat_bytes))
        self.length = Signal(range(config.burst_beats))
        self.single = Signal()
        self.note = Signal(note_bits)
        self.beat_valid, self.beat_sent = Signal(), Signal()
        self.beat = Signal(config.bus_bits)
        self.halt, self.limited, self.quiet, self.error = Signal(), Signal(), Signal(), Signal()
        self.retire = Signal()
        self.retire_note = Signal(note_bits, reset_less=True)
        self.awvalid, self.awready = Signal(), Signal()
        self.awaddr = Signal(DRAM_ADDRESS_BITS)
        self.awlen = Signal(length_bits(config))
        self.wvalid, self.wready, self.wlast = Signal(), Signal(), Signal()
        self.wdata = Signal(config.bus_bits)
        self.bvalid = Signal()
        self.bresp = Signal(2)

    def elaborate(self, platform: object) -> Module:
        """Which halves of the open burst are done, and a queue with an entry for every response to come."""
        m = Module()
        c = self.config
        flying = Signal(range(c.outstanding + 1))
        opened, opening, present = Signal(), Signal(), Signal()
        address_sent, data_sent, burst_done = Signal(), Signal(), Signal()
        address_due = Signal()  # of the open burst: it is not sent yet
        may_send = Signal()  # a beat, if one is there: of the open burst, or of the one that may be opened
        address_done, data_done = Signal(), Signal()  # ... it has been sent with this cycle
        # a burst is there, none is open and the limit allows one more; found a cycle ahead
        may_open, next_may_open, next_may_send = Signal(), Signal(), Signal()
        follows, another = Signal(), Signal()  # a burst behind one that ends; any at all
        sent = Signal(range(c.burst_beats + 1))
        begun, last = Signal(), Signal()  # a beat has been sent; the next one is the burst's last
        wanted, full, next_full = Signal(), Signal(), Signal()
        m.submodules.responses = responses = Queue(1 + len(self.note), c.outstanding)
        m.d.comb += [
            wanted.eq(self.active & ~opened & self.beat_valid),
            opening.eq(may_open & self.beat_valid & ~self.halt),
            present.eq(opened | opening),
            self.awvalid.eq(address_due | opening),
            self.awaddr.eq(self.address << (DRAM_ADDRESS_BITS - len(self.address))),
            self.awlen.eq(self.length),
            self.wvalid.eq(may_send & self.beat_valid & (opened | ~self.halt)),
            self.wdata.eq(self.beat),
            self.wlast.eq(Mux(begun, last, self.single)),
            self.beat_sent.eq(self.wvalid & self.wready),
            address_done.eq(address_sent | (self.awvalid & self.awready)),
            data_done.eq(data_sent | (self.beat_sent & self.wlast)),
            # data that is sent belongs to a burst that is open, so that its address is due or sent
            burst_done.eq((address_sent | self.awready) & data_done),
            self.step.eq(burst_done),
            responses.write.eq(opening),
            responses.write_data[0].eq(self.final),
            responses.write_data[1:].eq(self.note),
            responses.pop.eq(self.bvalid),
            self.error.eq(self.bvalid & self.bresp[1]),
            self.limited.eq(wanted & full),
            # the end of the data comes last of all
            next_may_open.eq(~next_full & Mux(data_done, follows, ~present & another)),
            next_may_send.eq(Mux(data_done, ~next_full & follows, present | (~next_full & another))),
            follows.eq((address_sent | self.awready) & self.behind),
            another.eq(self.active | self.behind),
            next_full.eq(Mux(opening != self.bvalid, opening & (flying == c.outstanding - 1), full)),
            self.quiet.eq(~opened & (flying == 0)),
        ]
        m.d.sync += [
            opened.eq(present & ~burst_done),
            address_sent.eq(address_done & ~data_done), address_due.eq(present & ~address_done),
            data_sent.eq(data_done & ~address_done), full.eq(next_full),
            may_open.eq(next_may_open), may_send.eq(next_may_send),
            self.retire.eq(self.bvalid & responses.head[0]),
            self.retire_note.eq(responses.head[1:]),
        ]  # fmt: skip
        with m.If(opening != self.bvalid):
            m.d.sync += flying.eq(flying + Mux(opening, 1, -1))
        with m.If(self.beat_sent):
            m.d.sync += [
                sent.eq(Mux(self.wlast, 0, sent + 1)), begun.eq(~self.wlast), last.eq(sent + 1 == self.length),
            ]  # fmt: skip
        return m
