"""AXI read master: one address grant a cycle, FETCH before LOAD, and the limit of bursts in flight."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.config import Config
from tilewright.hw.rtl.ports import length_bits
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.isa.spec import bits_for


class ReadChannel(Elaboratable):
    """Arbitrates two requesters; data comes back in order and is always accepted.

    ``requests``: (request, address in beats, length minus one, granted) of FETCH and LOAD, in order of
    priority. A grant is the address handshake. An address that the bus does not take at once stays.
    ``owner``: which requester's beat is on the bus. ``idle``: nothing in flight. ``error``: the beat has an
    error response.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.beat_shift = bits_for(config.beat_bytes)
        address_bits = DRAM_ADDRESS_BITS - self.beat_shift
        self.request = [Signal(name=f"request_{n}") for n in ("fetch", "load")]
        self.address = [Signal(address_bits, name=f"address_{n}") for n in ("fetch", "load")]
        self.length = [Signal(range(config.burst_beats), name=f"length_{n}") for n in ("fetch", "load")]
        self.granted = [Signal(name=f"granted_{n}") for n in ("fetch", "load")]
        self.arvalid, self.arready = Signal(), Signal()
        self.araddr = Signal(DRAM_ADDRESS_BITS)
        self.arlen = Signal(length_bits(config))
        self.rvalid, self.rlast = Signal(), Signal()
        self.rresp = Signal(2)
        self.beat_valid = [Signal(name=f"beat_valid_{n}") for n in ("fetch", "load")]
        self.idle, self.error = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        """Arbiter, credit counter, queue of owners."""
        m = Module()
        c = self.config
        flying, full = Signal(range(c.outstanding + 1)), Signal()  # bursts; as many as may be
        held, held_choice = Signal(), Signal()  # an address waits for the bus: it may not change
        choice = Signal()
        m.submodules.owners = owners = Queue(1, c.outstanding)
        taken = Signal()
        ended = Signal()
        m.d.comb += [
            choice.eq(Mux(held, held_choice, ~self.request[0])),
            self.arvalid.eq(held | ((self.request[0] | self.request[1]) & ~full)),
            self.araddr.eq(Mux(choice, self.address[1], self.address[0]) << self.beat_shift),
            self.arlen.eq(Mux(choice, self.length[1], self.length[0])),
            taken.eq(self.arvalid & self.arready),
            self.granted[0].eq(taken & ~choice),
            self.granted[1].eq(taken & choice),
            owners.write.eq(taken),
            owners.write_data.eq(choice),
            ended.eq(self.rvalid & self.rlast),
            owners.pop.eq(ended),
            self.beat_valid[0].eq(self.rvalid & ~owners.head),
            self.beat_valid[1].eq(self.rvalid & owners.head),
            self.idle.eq((flying == 0) & ~held),
            self.error.eq(self.rvalid & self.rresp[1]),
        ]
        m.d.sync += [
            held.eq(self.arvalid & ~self.arready),
            held_choice.eq(choice),
        ]
        with m.If(taken != ended):
            m.d.sync += [flying.eq(flying + Mux(taken, 1, -1)), full.eq(taken & (flying == c.outstanding - 1))]
        return m
