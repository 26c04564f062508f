"""The AXI3 control port: single beats reach the registers with their IDs, bursts end in SLVERR, nothing hangs."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("amaranth")

from amaranth.hdl import Elaboratable, Module
from amaranth.sim import Simulator

from tests.hw.formal.opened import variant
from tilewright.config import PRESETS
from tilewright.hw.rtl import axi3_control
from tilewright.hw.rtl.axi3_ports import ID_BITS, board_ports
from tilewright.hw.rtl.control import ControlPort

TINY = PRESETS["tiny"]
OKAY, SLVERR = 0, 2


class Slave(Elaboratable):
    """The converter with the accelerator's control port behind it; reading an address gives its complement."""

    def __init__(self, kind: Any) -> None:
        self.control, self.registers = kind(TINY), ControlPort()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.control, m.submodules.registers = self.control, self.registers
        for name, signal in self.control.lite.items():
            if name.endswith(("prot", "strb", "resp")):
                continue  # the control port has none
            inside = getattr(self.registers, name)
            outwards = name in ("awready", "wready", "arready") or (name[0] in "br" and not name.endswith("ready"))
            m.d.comb += signal.eq(inside) if outwards else inside.eq(signal)
        m.d.comb += self.registers.read_data.eq(~self.registers.read_address)
        return m


@dataclass
class Request:
    """A transfer, and what came back."""

    write: bool
    number: int
    address: int
    beats: list[int]
    answers: list[tuple[int, ...]] = field(default_factory=list)  #: (ID, response[, data, last])


def requests(draw: random.Random, count: int) -> list[Request]:
    found = []
    for _ in range(count):
        beats = 1 if draw.random() < 0.7 else draw.randint(2, 16)
        found.append(
            Request(draw.random() < 0.5, draw.getrandbits(ID_BITS), 4 * draw.getrandbits(10), [draw.getrandbits(32)
                    for _ in range(beats)])
        )  # fmt: skip
    return found


def carried_out(kind: Any, wanted: list[Request], draw: random.Random, eager: float) -> list[tuple[int, int]]:
    """Drive the requests, writes and reads beside each other; the writes that reached the registers, in order.

    ``eager``: how probably a valid or ready is up in a cycle. Raises AssertionError where a transfer does not end.
    """
    unit = Slave(kind)
    bus = unit.control.port
    reached: list[tuple[int, int]] = []
    writes, reads = ([r for r in wanted if r.write == way] for way in (True, False))

    async def drive(context: Any) -> None:
        sent = {"aw": 0, "w": 0, "ar": 0}  #: requests whose address, whose data has been sent
        beat, answered, read_answered = 0, 0, 0
        up: dict[str, bool] = dict.fromkeys(sent, False)
        for _ in range(200 + 200 * len(wanted)):
            if answered == len(writes) and read_answered == len(reads):
                return
            for name, of in (("aw", writes), ("w", writes), ("ar", reads)):
                up[name] = sent[name] < len(of) and (up[name] or draw.random() < eager)
                context.set(bus[f"{name}valid"], up[name])
                if up[name]:
                    request = of[sent[name]]
                    if name == "w":
                        context.set(bus["wid"], request.number)
                        context.set(bus["wdata"], request.beats[beat])
                        context.set(bus["wstrb"], 15)
                        context.set(bus["wlast"], beat == len(request.beats) - 1)
                    else:
                        context.set(bus[f"{name}id"], request.number)
                        context.set(bus[f"{name}addr"], request.address)
                        context.set(bus[f"{name}len"], len(request.beats) - 1)
            for name in ("bready", "rready"):
                context.set(bus[name], draw.random() < eager)
            if context.get(unit.registers.write):
                reached.append((context.get(unit.registers.write_address), context.get(unit.registers.write_data)))
            taken = {n: context.get(bus[f"{n}valid"]) and context.get(bus[f"{n}ready"])
                     for n in ("aw", "w", "ar", "b", "r")}  # fmt: skip
            for name in ("aw", "ar"):
                if taken[name]:
                    sent[name], up[name] = sent[name] + 1, False
            if taken["w"]:
                up["w"] = False
                beat += 1
                if beat == len(writes[sent["w"]].beats):
                    sent["w"], beat = sent["w"] + 1, 0
            if taken["b"]:
                assert answered < len(writes), "an answer to nothing"
                writes[answered].answers.append((context.get(bus["bid"]), context.get(bus["bresp"])))
                answered += 1
            if taken["r"]:
                names = ("rid", "rresp", "rdata", "rlast")
                reads[read_answered].answers.append(tuple(context.get(bus[name]) for name in names))
                read_answered += context.get(bus["rlast"])
            await context.tick()
        raise AssertionError("a transfer does not end")

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    return reached


def check(kind: Any, seed: int, eager: float) -> None:
    draw = random.Random(seed)
    wanted = requests(draw, 60)
    reached = carried_out(kind, wanted, draw, eager)
    assert reached == [(r.address, r.beats[0]) for r in wanted if r.write and len(r.beats) == 1]
    for r in wanted:
        single = len(r.beats) == 1
        if r.write:
            assert r.answers == [(r.number, OKAY if single else SLVERR)]
        elif single:
            assert r.answers == [(r.number, OKAY, ~r.address & 0xFFF, 1)]
        else:
            beats = [(number, response, last) for number, response, _, last in r.answers]
            assert beats == [(r.number, SLVERR, k == len(r.beats) - 1) for k in range(len(r.beats))]


def holds(kind: Any, seed: int, eager: float) -> bool:
    try:
        check(kind, seed, eager)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("eager", [1.0, 0.4])
def test_single_beats_reach_the_registers_and_bursts_are_refused(eager: float) -> None:
    check(axi3_control.Axi3Control, seed=3, eager=eager)


TWINS = {
    "a burst's first beat is written": ("refused.eq(p[\"awlen\"] != 0)", "refused.eq(0)"),
    "a burst is read as one beat": ("left.eq(p[\"arlen\"])", "left.eq(0)"),
    "a burst is answered at its first beat": ("(p[\"wlast\"] | ~refused)", "1"),
    "an answer has no ID": ("p[\"bid\"].eq(number)", "p[\"bid\"].eq(0)"),
    "a burst reads a register": ("lite[\"arvalid\"].eq(reading & ~refused & ", "lite[\"arvalid\"].eq(reading & "),
}  # fmt: skip


@pytest.mark.parametrize("change", TWINS.values(), ids=[name.replace(" ", "-") for name in TWINS])
def test_a_broken_port_is_noticed(change: tuple[str, str]) -> None:
    kind = variant(axi3_control, change)["Axi3Control"]
    assert not all(holds(kind, seed, eager) for seed in range(3) for eager in (1.0, 0.4))


@pytest.mark.parametrize("cores", [1, 2])
def test_the_top_for_zynq_7000_has_the_declared_ports(cores: int) -> None:
    from tilewright.hw.rtl.generate import generate_verilog

    config = TINY.replace(axi_version=3, cores=cores)
    text = generate_verilog(config, events=False, control_axi=3)["tilewright.v"]
    top = text[text.index("module tilewright(") :].partition("endmodule")[0]
    found = {
        name: (way, int(high or 0) + 1)
        for way, high, name in re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", top, re.M)
    }
    declared = {p.name: (f"{p.direction}put", p.width) for p in board_ports(config, 3)}
    assert found == {"clk": ("input", 1), "rst": ("input", 1), **declared}
    assert not any(name.startswith(("s_axil_", "ev_")) for name in found)
