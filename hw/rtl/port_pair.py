"""Two memory ports that carry one wide bus: of each beat the even word goes over the first, the odd over the second.

Where words lie in DRAM, so that a burst of the bus is one burst of as many beats on each port, says
:mod:`tilewright.isa.dram_order`.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.isa.spec import bits_for

Master = dict[str, Signal]  #: of an AXI master, by name: ``arvalid``


class PortPair(Elaboratable):
    """``bus``: what a core of one port would have for its port, twice as wide; ``ports``: the two.

    Addresses and write data go to each port at its own handshake, and the core's comes when both have taken them. Read
    data and responses come to the core when both ports have them; what one has alone waits here, so that no ready hangs
    on a valid of the same cycle (AXI A3.2.1). So each port may lag as it likes, and for neither to wait for the other a
    port need only buffer what is in flight, which the Config sees to.
    """

    def __init__(self, config: Config, bus: Master, ports: tuple[Master, Master]) -> None:
        self.config, self.bus, self.ports = config, bus, ports

    def elaborate(self, platform: object) -> Module:
        """The five channels; what is not named here is 0."""
        m = Module()
        bus, word = self.bus, self.config.axi_bits
        for channel in ("ar", "aw", "w"):
            self._fork(m, channel)
        read = self._join(m, "r", ("data", "last", "resp"))
        response = self._join(m, "b", ("resp",))
        for k, port in enumerate(self.ports):
            for channel in ("ar", "aw"):
                m.d.comb += [
                    port[f"{channel}addr"].eq(self._address(bus[f"{channel}addr"], k)),
                    port[f"{channel}size"].eq(bits_for(word // 8)),
                    *(port[f"{channel}{name}"].eq(bus[f"{channel}{name}"]) for name in ("len", "burst", "cache")),
                ]
            m.d.comb += [
                port["wdata"].eq(bus["wdata"].word_select(k, word)), port["wlast"].eq(bus["wlast"]),
                port["wstrb"].eq(bus["wstrb"].word_select(k, word // 8)),
                bus["rdata"].word_select(k, word).eq(read[k]["data"]),
            ]  # fmt: skip
        m.d.comb += [
            bus["rlast"].eq(read[0]["last"]),
            # an error of either: both codes for one have the upper bit set
            bus["rresp"].eq(read[0]["resp"] | read[1]["resp"]),
            bus["bresp"].eq(response[0]["resp"] | response[1]["resp"]),
        ]
        return m

    def _address(self, address: Signal, number: int) -> Value:
        """Blocks as long as the longest burst: in each, the words of the first port lie before those of the second."""
        word, longest = bits_for(self.config.axi_bits // 8), self.config.burst_beats
        place = bits_for(longest) if longest > 1 else 0
        beats = address[word + 1 :]
        return Cat(Const(0, word), beats[:place], Const(number, 1), beats[place:])

    def _fork(self, m: Module, channel: str) -> None:
        valid = self.bus[f"{channel}valid"]
        taken = [Signal(name=f"{channel}_taken_{k}") for k in range(2)]  # by this port and not by the other
        has = [done | port[f"{channel}ready"] for done, port in zip(taken, self.ports)]
        both = Signal(name=f"{channel}_both")
        m.d.comb += [both.eq(has[0] & has[1]), self.bus[f"{channel}ready"].eq(both)]
        for done, now, port in zip(taken, has, self.ports):
            m.d.comb += port[f"{channel}valid"].eq(valid & ~done)
            m.d.sync += done.eq(valid & now & ~both)

    def _join(self, m: Module, channel: str, names: tuple[str, ...]) -> list[dict[str, Value]]:
        """What each port has for the core: from its pins, or of the beat that came ahead of the other's."""
        came: list[dict[str, Value]] = []
        waits = [Signal(name=f"{channel}_waits_{k}") for k in range(2)]
        has = [waiting | port[f"{channel}valid"] for waiting, port in zip(waits, self.ports)]
        both = Signal(name=f"{channel}_both")
        m.d.comb += [both.eq(has[0] & has[1]), self.bus[f"{channel}valid"].eq(both)]
        for k, (waiting, now, port) in enumerate(zip(waits, has, self.ports)):
            kept = {n: Signal.like(port[f"{channel}{n}"], name=f"{channel}{n}_{k}", reset_less=True) for n in names}
            m.d.comb += port[f"{channel}ready"].eq(~waiting)
            m.d.sync += waiting.eq(now & ~(both & self.bus[f"{channel}ready"]))
            with m.If(~waiting):
                m.d.sync += [signal.eq(port[f"{channel}{n}"]) for n, signal in kept.items()]
            came.append({n: Mux(waiting, signal, port[f"{channel}{n}"]) for n, signal in kept.items()})
        return came
