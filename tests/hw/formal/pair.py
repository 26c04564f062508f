"""Two memory ports for one bus, beside AXI's rules and counts of what went over each of the three."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cat, Mux, Signal, Value

from tests.hw.formal.opened import Recorder, variant
from tests.hw.formal.prover import Proof
from tilewright.config import Config
from tilewright.hw.rtl import port_pair
from tilewright.hw.rtl.ports import memory_port

ADDRESS = ("addr", "len", "burst", "cache")
SENT = {"ar": ADDRESS, "aw": ADDRESS, "w": ("data", "strb", "last")}
ANSWERED = {"r": ("data", "resp", "last"), "b": ("resp",)}


def pair_proof(config: Config, change: tuple[str, str] | None = None, steady: bool = True) -> Proof:
    """What the core sends goes to each port once, and stays there until taken; the core gets what both have sent.

    ``steady``: the core keeps what it offers until it is taken.
    """
    proof = Proof()
    m = proof.module
    bus, first, second = (
        {p.name: Signal(p.width, name=f"{who}_{p.name}") for p in memory_port(config, "", bits)}
        for who, bits in (("bus", config.bus_bits), ("first", config.axi_bits), ("second", config.axi_bits))
    )
    ports = (first, second)
    names = variant(port_pair, change)
    names["Signal"] = inside = Recorder()
    m.submodules.pair = pair = names["PortPair"](config, bus, ports).elaborate(None)
    assert pair is not None
    for channel, payload in SENT.items():
        valid = proof.free_like(bus[f"{channel}valid"], f"bus_{channel}_valid")
        offered = Cat(*(proof.free_like(bus[f"{channel}{name}"], f"bus_{channel}_{name}") for name in payload))
        kept = proof.before(valid & ~bus[f"{channel}ready"], f"{channel}_kept")
        if steady:
            m.d.comb += Assume(~kept | (valid & (offered == proof.before(offered, f"{channel}_offered"))))
        both = Value.cast(1)
        for k, port in enumerate(ports):
            ready = proof.free_like(port[f"{channel}ready"], f"{channel}_ready_{k}")
            shown = Cat(*(port[f"{channel}{name}"] for name in payload))
            waits = proof.before(port[f"{channel}valid"] & ~ready, f"{channel}_waits_{k}")
            ahead = Signal(2, name=f"{channel}_ahead_{k}")  # of the bus: handshakes
            m.d.sync += ahead.eq(ahead + (port[f"{channel}valid"] & ready) - (valid & bus[f"{channel}ready"]))
            m.d.comb += [
                Assert(~waits | port[f"{channel}valid"]),
                Assert(~waits | (shown == proof.before(shown, f"{channel}_shown_{k}"))),
                Assert(ahead == inside.named[f"{channel}_taken_{k}"]), Assert((ahead == 0) | kept),
                Assert(~port[f"{channel}valid"] | valid),
            ]  # fmt: skip
            both = both & (ahead == 1)
        m.d.comb += Assert(~both)
    for channel in ANSWERED:
        ready = proof.free_like(bus[f"{channel}ready"], f"bus_{channel}_ready")
        taken = bus[f"{channel}valid"] & ready
        there = Value.cast(1)
        for k, port in enumerate(ports):
            valid = proof.free_like(port[f"{channel}valid"], f"{channel}_valid_{k}")
            ahead = Signal(2, name=f"{channel}_ahead_{k}")  # of the bus: handshakes
            m.d.sync += ahead.eq(ahead + (valid & port[f"{channel}ready"]) - taken)
            m.d.comb += [Assert(ahead == inside.named[f"{channel}_waits_{k}"]), Assert(ahead < 2)]
            there = there & ((ahead == 1) | valid)
        m.d.comb += Assert(bus[f"{channel}valid"] == there)
    _payload(proof, inside, config, bus, ports)
    return proof


def _came(proof: Proof, inside: Recorder, port: dict[str, Signal], channel: str, name: str, k: int) -> Value:
    """What a port has sent and the bus has not taken: the last that was taken from it, or what it shows."""
    shown = proof.free_like(port[f"{channel}{name}"], f"{channel}_{name}_{k}")
    last = Signal.like(shown, name=f"{channel}_{name}_last_{k}")
    with proof.module.If(port[f"{channel}valid"] & port[f"{channel}ready"]):
        proof.module.d.sync += last.eq(shown)
    proof.module.d.comb += Assert(port[f"{channel}ready"] | (inside.named[f"{channel}{name}_{k}"] == last))
    return Mux(port[f"{channel}ready"], shown, last)


def _payload(
    proof: Proof, inside: Recorder, config: Config, bus: dict[str, Signal], ports: tuple[dict[str, Signal], ...]
) -> None:
    """Which word goes where, by arithmetic on addresses; and errors of either port."""
    m, word = proof.module, config.axi_bits
    block = config.burst_beats * config.beat_bytes
    for k, port in enumerate(ports):
        for channel in ("ar", "aw"):
            address = bus[f"{channel}addr"]
            place = address & (block - 1)
            m.d.comb += [
                Assert(
                    port[f"{channel}addr"] == address - place + k * (block // 2) + ((place >> 1) & ~(word // 8 - 1))
                ),
                Assert(1 << port[f"{channel}size"] == word // 8),
                *(Assert(port[f"{channel}{name}"] == bus[f"{channel}{name}"]) for name in ADDRESS[1:]),
            ]
        data = _came(proof, inside, port, "r", "data", k)
        m.d.comb += [
            Assert(port["wdata"] == bus["wdata"][k * word :][:word]),
            Assert(port["wstrb"] == bus["wstrb"][k * word // 8 :][: word // 8]),
            Assert(port["wlast"] == bus["wlast"]),
            Assert(~bus["rvalid"] | (bus["rdata"][k * word :][:word] == data)),
        ]
    for channel in ANSWERED:
        errors = [_came(proof, inside, port, channel, "resp", k)[1] for k, port in enumerate(ports)]
        m.d.comb += Assert(~bus[f"{channel}valid"] | (bus[f"{channel}resp"][1] == errors[0] | errors[1]))
    lasts = [_came(proof, inside, port, "r", "last", k) for k, port in enumerate(ports)]
    m.d.comb += [
        Assume(~bus["rvalid"] | (lasts[0] == lasts[1])), Assert(~bus["rvalid"] | (bus["rlast"] == lasts[1])),
    ]  # fmt: skip
