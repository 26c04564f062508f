"""The ports of a core and of the top module, declared as data: name, direction, width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tilewright.config import AXI_BURST_BEATS, Config
from tilewright.isa.registers import ADDRESS_BITS, DRAM_ADDRESS_BITS, window_bits
from tilewright.isa.spec import bits_for

MASTER, EVENTS, BELLS = "m_axi_", "ev_", "bell_"  #: what the names of a core's own ports begin with


@dataclass(frozen=True)
class Port:
    """One port, beside clk and rst (active high, synchronous)."""

    name: str
    direction: Literal["in", "out"]
    width: int
    doc: str = ""

    @property
    def is_event(self) -> bool:
        """Whether only simulation looks at it."""
        return self.name.startswith(EVENTS)


def channel(prefix: str, direction: Literal["in", "out"], names: dict[str, int]) -> list[Port]:
    """The payload and valid of an AXI channel go in ``direction``, ready the other way."""
    back: Literal["in", "out"] = "in" if direction == "out" else "out"
    return [
        *[Port(f"{prefix}{n}", direction, w) for n, w in names.items()],
        Port(f"{prefix}valid", direction, 1),
        Port(f"{prefix}ready", back, 1),
    ]


def length_bits(config: Config) -> int:
    """Bits of AxLEN: 4 in AXI3, 8 in AXI4."""
    return bits_for(AXI_BURST_BEATS[config.axi_version])


def ports(config: Config) -> list[Port]:
    """The top module's: a core's; of several cores each one's memory ports and events, numbered, and one control."""
    inner = core_ports(config)
    if config.cores == 1:
        return inner
    wide = {f"s_axil_{channel}addr": window_bits(config) for channel in ("aw", "ar")}
    shared = [p for p in inner_ports(config) if not p.name.startswith(BELLS)]
    return [
        *(replace(p, width=wide.get(p.name, p.width), doc=p.doc and "level: that of any core") for p in shared),
        *(
            replace(p, name=outer_name(p.name, core, config))
            for core in range(config.cores) for p in inner if p.name.startswith((MASTER, EVENTS))
        ),
    ]  # fmt: skip


def host_ports(config: Config) -> list[Port]:
    """Of the top module's what the processor sees: the AXI4-Lite slave and the interrupt."""
    return [p for p in ports(config) if p.name.startswith("s_axil_") or p.name == "irq"]


def inner_ports(config: Config) -> list[Port]:
    """Of a core's ports what does not go straight outside where there are several: registers, interrupt, doorbells."""
    return [p for p in core_ports(config) if not p.name.startswith((MASTER, EVENTS))]


def outer_name(name: str, core: int, config: Config) -> str:
    """A port of a core as the top module of several calls it: ``m_axi_0_araddr``, ``ev_1_start``.

    Of cores with two memory ports core 0 has 0 and 1, core 1 has 2 and 3, and so on.
    """
    if name.startswith(MASTER) and config.axi_ports > 1:
        own, rest = name.removeprefix(MASTER).split("_", 1)
        return f"{MASTER}{core * config.axi_ports + int(own)}_{rest}"
    for prefix in (MASTER, EVENTS):
        if name.startswith(prefix):
            return f"{prefix}{core}_{name.removeprefix(prefix)}"
    return name


def masters(config: Config) -> list[str]:
    """The prefixes of a core's memory ports, by themselves: ``m_axi_``, or of two ``m_axi_0_`` and ``m_axi_1_``."""
    return [MASTER] if config.axi_ports == 1 else [f"{MASTER}{k}_" for k in range(config.axi_ports)]


def memory_port(config: Config, prefix: str, bits: int) -> list[Port]:
    """An AXI master of some data width, of the Config's version.

    AXI3 has a two-bit AxLOCK, names the burst of each write beat in WID, and knows no AxQOS.
    """
    axi3 = config.axi_version == 3
    address = {
        "id": 1, "addr": DRAM_ADDRESS_BITS, "len": length_bits(config), "size": 3, "burst": 2, "lock": 2 if axi3 else 1,
        "cache": 4, "prot": 3, **({} if axi3 else {"qos": 4}),
    }  # fmt: skip
    write = {**({"id": 1} if axi3 else {}), "data": bits, "strb": bits // 8, "last": 1}
    return [
        *channel(f"{prefix}ar", "out", address),
        *channel(f"{prefix}r", "in", {"id": 1, "data": bits, "resp": 2, "last": 1}),
        *channel(f"{prefix}aw", "out", address),
        *channel(f"{prefix}w", "out", write),
        *channel(f"{prefix}b", "in", {"id": 1, "resp": 2}),
    ]


def core_ports(config: Config) -> list[Port]:
    """AXI3 or AXI4 masters, AXI4-Lite slave, interrupt, event outputs for simulation; doorbells of several cores."""
    return [
        *(port for prefix in masters(config) for port in memory_port(config, prefix, config.axi_bits)),
        *channel("s_axil_aw", "in", {"addr": ADDRESS_BITS, "prot": 3}),
        *channel("s_axil_w", "in", {"data": 32, "strb": 4}),
        *channel("s_axil_b", "out", {"resp": 2}),
        *channel("s_axil_ar", "in", {"addr": ADDRESS_BITS, "prot": 3}),
        *channel("s_axil_r", "out", {"data": 32, "resp": 2}),
        Port("irq", "out", 1, "level: STATUS.DONE and INTERRUPT_ENABLE"),
        Port("ev_start", "out", 1, "high in cycle 0 of an inference, the cycle after START's write handshake"),
        Port("ev_dispatch", "out", 1, "an instruction is dispatched in this cycle"),
        Port("ev_dispatch_engine", "out", 2, "to this engine"),
        Port("ev_issue", "out", 4, "bit e: engine e issues in this cycle"),
        Port("ev_retire", "out", 4, "bit e: an instruction of engine e retires in this cycle"),
        Port("ev_done", "out", 1, "the run (all repeats) has ended"),
        *(doorbells(config.cores) if config.cores > 1 else ()),
    ]


def doorbells(cores: int) -> tuple[Port, ...]:
    """Of a core of several, a bit for each: no ports of the whole design."""
    return (
        Port(f"{BELLS}there", "in", cores, "can be heard"),
        Port(f"{BELLS}hear", "out", cores, "are heard by an issue in this cycle"),
        Port(f"{BELLS}ring", "out", cores, "are rung at by a retire in this cycle"),
    )
