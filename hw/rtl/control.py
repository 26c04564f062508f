"""AXI4-Lite control: the registers of ``isa.registers``, the run's state machine, counters and trace FIFO."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.counters import Counters
from tilewright.hw.rtl.tally import choose
from tilewright.isa.registers import (
    ADDRESS_BITS,
    DRAM_ADDRESS_BITS,
    ID_VALUE,
    TAG_BITS,
    Control,
    FaultCode,
    register_map,
)


class ControlPort(Elaboratable):
    """The AXI4-Lite slave: one access at a time; a write takes effect in the cycle after its later handshake.

    No output hangs on an input of the same cycle (AXI A3.2.1).

    write, write_address, write_data: pulse. read_address with ``came``; ``look`` two cycles after it, in which
    read_data is what stands there, so that the address can be decoded and the value found into registers.
    """

    def __init__(self) -> None:
        self.awvalid, self.awready, self.wvalid, self.wready = Signal(), Signal(), Signal(), Signal()
        self.awaddr, self.araddr = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        self.wdata, self.rdata = Signal(32), Signal(32)
        self.bvalid, self.bready = Signal(), Signal()
        self.arvalid, self.arready, self.rvalid, self.rready = Signal(), Signal(), Signal(), Signal()
        self.write = Signal()
        self.write_address = Signal(ADDRESS_BITS, reset_less=True)
        self.write_data = Signal(32, reset_less=True)
        self.came, self.look = Signal(), Signal()
        self.read_address = Signal(ADDRESS_BITS, reset_less=True)
        self.read_data = Signal(32)

    def elaborate(self, platform: object) -> Module:
        """Write: a half that is there waits for the other. Read: address, decoded, look up, data."""
        m = Module()
        taken, looks = Signal(), Signal()
        address_waits, data_waits = Signal(), Signal()
        has_address, has_data = Signal(), Signal()
        m.d.comb += [
            self.awready.eq(~address_waits & ~self.bvalid), self.wready.eq(~data_waits & ~self.bvalid),
            has_address.eq(address_waits | (self.awvalid & self.awready)),
            has_data.eq(data_waits | (self.wvalid & self.wready)),
            taken.eq(has_address & has_data),
            self.arready.eq(~self.came & ~looks & ~self.look & ~self.rvalid),
        ]  # fmt: skip
        m.d.sync += [
            address_waits.eq(has_address & ~taken),
            data_waits.eq(has_data & ~taken),
            self.write.eq(taken),
            self.came.eq(self.arvalid & self.arready),
            looks.eq(self.came),
            self.look.eq(looks),
        ]
        with m.If(self.awready):
            m.d.sync += self.write_address.eq(self.awaddr)
        with m.If(self.wready):
            m.d.sync += self.write_data.eq(self.wdata)
        with m.If(taken):
            m.d.sync += self.bvalid.eq(1)
        with m.Elif(self.bready):
            m.d.sync += self.bvalid.eq(0)
        with m.If(self.arvalid & self.arready):
            m.d.sync += self.read_address.eq(self.araddr)
        with m.If(self.look):
            m.d.sync += [self.rvalid.eq(1), self.rdata.eq(self.read_data)]
        with m.Elif(self.rready):
            m.d.sync += self.rvalid.eq(0)
        return m


class ControlUnit(Elaboratable):
    """Registers and the state of a run.

    ``start``: pulse in cycle 0 of an inference; ``running``: cycles after it up to the end. ``finished``: every
    instruction has retired and no token is left. ``quiet``: no bus transaction under way. ``fault_pulse`` with
    code and tag; ``fault_settled``: what comes before the faulting instruction has completed. ``stopped``:
    no new dispatch or burst from FETCH; ``halt``: no new burst at all; ``clear``: reset all engines.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = ControlPort()
        self.counters = Counters(config)
        self.start, self.running, self.irq = Signal(), Signal(), Signal()
        self.finished, self.quiet = Signal(), Signal()
        self.faults: list[tuple[Signal, FaultCode, Signal]] = []
        self.fault_settled, self.stopped, self.halt, self.clear = Signal(), Signal(), Signal(), Signal()
        self.fault_tag = Signal(TAG_BITS, init=(1 << TAG_BITS) - 1)
        self.program_address = Signal(DRAM_ADDRESS_BITS)
        self.program_beats = Signal(TAG_BITS + 4)
        self.program_instructions = Signal(TAG_BITS)
        self.bases = [Signal(DRAM_ADDRESS_BITS, name=f"segment_{k}_base") for k in range(config.segments)]
        self.limits = [Signal(32, name=f"segment_{k}_limit") for k in range(config.segments)]
        self.cycle = Signal(48)
        self.done = Signal()  # pulse
        self.bus_error = Signal()

    def add_fault(self, code: FaultCode, name: str) -> tuple[Signal, Signal]:
        """A fault input: (pulse, tag)."""
        pulse, tag = Signal(name=f"{name}_fault"), Signal(TAG_BITS, name=f"{name}_fault_tag")
        self.faults.append((pulse, code, tag))
        return pulse, tag

    def elaborate(self, platform: object) -> Module:
        """State machine, then registers."""
        m = Module()
        m.submodules.port = self.port
        m.submodules.counters = self.counters
        self._written: dict[str, Signal] = {}
        self._m = m
        self._storage()
        self._run()
        self._read()
        return m

    # -- registers -------------------------------------------------------------------------------------

    def _storage(self) -> None:
        """The read-write registers; ``_stored[name]`` is the value."""
        m, port = self._m, self.port
        self._stored: dict[str, Signal] = {}
        self._busy = Signal()
        offset = next(r.offset for r in register_map(self.config) if r.name == "CONTROL")
        self._command = Signal(len(Control))  # in the cycle after it was written
        m.d.sync += self._command.eq(
            Mux(port.write & (port.write_address == offset), port.write_data[: len(Control)], 0)
        )
        for register in register_map(self.config):
            if register.access == "rw":
                value = Signal(register.bits, name=register.name.lower(), init=1 if register.name == "REPEAT" else 0)
                self._stored[register.name] = value
                with m.If(port.write & (port.write_address == register.offset) & ~self._busy):
                    m.d.sync += value.eq(port.write_data)
        s = self._stored
        m.d.comb += [
            self.program_address.eq(Cat(s["PROGRAM_LOW"], s["PROGRAM_HIGH"])),
            self.program_beats.eq(s["PROGRAM_BEATS"]),
            self.program_instructions.eq(s["PROGRAM_INSTRUCTIONS"]),
            *[limit.eq(s[f"SEGMENT{k}_LIMIT"]) for k, limit in enumerate(self.limits)],
        ]

    # -- the run ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        m, s = self._m, self._stored
        self._done, self._faulted = Signal(), Signal()
        self._code = Signal(3)
        self._completed = Signal(16)
        self._cycles = Signal(48)
        settled = Signal()
        # the watchdog's cycle: found a cycle ahead, and its parts two
        watchdog, parts = Signal(), Signal(4)
        after, beyond = Signal.like(self.cycle), Signal.like(self.cycle)  # the cycle after this one, and the next
        segment, next_segment = Signal(range(self.config.segments)), Signal(range(self.config.segments))
        stride = Signal(len(s["SEGMENT0_STRIDE"]), reset_less=True)  # of the segment
        aborting = Signal()
        m.d.sync += [
            segment.eq(next_segment),
            stride.eq(choose([s[f"SEGMENT{k}_STRIDE"] for k in range(self.config.segments)], next_segment)),
        ]
        m.d.comb += [
            self.irq.eq(self._done & s["INTERRUPT_ENABLE"]),
            self.halt.eq(aborting),
            self.counters.count.eq(self.start | self.running),
            self.counters.restart.eq(self.start),
        ]
        with m.If(self.start):
            m.d.sync += [self.cycle.eq(1), after.eq(2), beyond.eq(3), watchdog.eq(s["WATCHDOG"] == 1)]
            m.d.sync += parts.eq(self._parts_equal(Const(2, len(after)), s["WATCHDOG"], len(parts)))
        with m.Elif(self.running):
            m.d.sync += [self.cycle.eq(after), after.eq(beyond), beyond.eq(beyond + 1), watchdog.eq(parts.all())]
            m.d.sync += parts.eq(self._parts_equal(beyond, s["WATCHDOG"], len(parts)))
        # the earliest instruction's fault wins, as program order says
        for k, (pulse, code, tag) in enumerate(self.faults):
            beaten = Cat(*[p & (t < tag) for p, _, t in self.faults[:k] + self.faults[k + 1 :]]).any()
            with m.If(pulse & (tag < self.fault_tag) & ~beaten):
                m.d.sync += [self._code.eq(code), self.fault_tag.eq(tag), self._faulted.eq(1)]
        m.d.comb += self.stopped.eq(self._faulted | aborting)
        with m.FSM(name="run"):
            with m.State("IDLE"):
                with m.If(self._command[Control.ACKNOWLEDGE]):
                    m.d.sync += [self._done.eq(0), self._faulted.eq(0), self._code.eq(0)]
                with m.If(self._command[Control.START]):
                    m.d.comb += self.start.eq(1)
                    m.d.sync += [self._done.eq(0), self._faulted.eq(0), self._code.eq(0), self._completed.eq(0)]
                    m.d.sync += self.fault_tag.eq((1 << TAG_BITS) - 1)
                    m.d.sync += [
                        base.eq(Cat(s[f"SEGMENT{k}_BASE_LOW"], s[f"SEGMENT{k}_BASE_HIGH"]))
                        for k, base in enumerate(self.bases)
                    ]
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.running.eq(1)
                with m.If(self.bus_error & ~self._faulted):
                    m.d.comb += self.running.eq(0)
                    m.d.sync += [
                        self._cycles.eq(self.cycle), self._code.eq(FaultCode.BUS), self._faulted.eq(1), aborting.eq(1),
                    ]  # fmt: skip
                    m.next = "DRAIN"
                with m.Elif(settled):
                    m.d.comb += self.running.eq(0)
                    m.d.sync += self._cycles.eq(self.cycle)
                    with m.If(self._faulted):
                        m.d.sync += aborting.eq(1)
                        m.next = "DRAIN"
                    with m.Else():
                        m.d.sync += self._completed.eq(self._completed + 1)
                        m.next = "NEXT"
                with m.Elif(watchdog | self._command[Control.ABORT]):
                    m.d.comb += self.running.eq(0)
                    m.d.sync += [
                        self._cycles.eq(self.cycle), self._code.eq(FaultCode.WATCHDOG), self._faulted.eq(1),
                        self.fault_tag.eq((1 << TAG_BITS) - 1), aborting.eq(1),
                    ]  # fmt: skip
                    m.next = "DRAIN"
            with m.State("NEXT"):
                with m.If(self._completed >= s["REPEAT"]):
                    m.d.comb += self.done.eq(1)
                    m.d.sync += self._done.eq(1)
                    m.next = "IDLE"
                with m.Else():
                    m.next = "ADVANCE"
            with m.State("ADVANCE"):  # one segment a cycle, as all of them go around
                moved = self.bases[0] + stride
                m.d.sync += [base.eq(following) for base, following in zip(self.bases, [*self.bases[1:], moved])]
                m.d.comb += next_segment.eq(segment + 1)
                with m.If(segment == self.config.segments - 1):
                    m.next = "AGAIN"
            with m.State("AGAIN"):
                m.d.comb += self.start.eq(1)
                m.next = "RUN"
            # bursts under way complete, then everything starts afresh
            with m.State("DRAIN"):  # noqa: SIM117
                with m.If(self.quiet):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [self.clear.eq(1), self.done.eq(1)]
                m.d.sync += [aborting.eq(0), self._done.eq(1)]
                m.next = "IDLE"
        # DONE_LATENCY = 2: the last retire is counted a cycle after it, the end is known another cycle later
        m.d.sync += settled.eq(self.running & ~settled & Mux(self._faulted, self.fault_settled, self.finished))
        under_way = Signal()
        m.d.comb += self._busy.eq(under_way | self._command[Control.START])
        with m.If(self.start):
            m.d.sync += under_way.eq(1)
        with m.Elif(self.done):
            m.d.sync += under_way.eq(0)

    @staticmethod
    def _parts_equal(a: Value, b: Value, parts: int) -> Value:
        """Of each of so many parts of two values, as long as ``a``, whether they are equal."""
        size = -(-len(a) // parts)
        other = Cat(b, Const(0, max(0, len(a) - len(b))))
        return Cat(a[at : at + size] == other[at : at + size] for at in range(0, len(a), size))

    # -- reading ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        m, port = self._m, self.port
        counters = self.counters
        fingerprint = int(self.config.fingerprint, 16)
        values: dict[str, Value] = {
            "ID": Const(ID_VALUE, 32),
            "FINGERPRINT_LOW": Const(fingerprint & 0xFFFFFFFF, 32),
            "FINGERPRINT_HIGH": Const(fingerprint >> 32, 32),
            "STATUS": Cat(self._busy, self._done, self._done & self._faulted),
            "FAULT_CODE": self._code,
            "FAULT_INSTRUCTION": self.fault_tag,
            "COMPLETED": self._completed,
            "CYCLES_LOW": self._cycles[:32],
            "CYCLES_HIGH": self._cycles[32:],
            **counters.values,
            **self._stored,
        }
        here = [r for r in register_map(self.config) if r.access != "wo" and r.name in values]
        chosen = {r: Signal(name=f"reads_{r.name.lower()}", reset_less=True) for r in here}
        m.d.sync += [signal.eq(port.read_address == register.offset) for register, signal in chosen.items()]
        read: Value = counters.value
        for register, signal in chosen.items():
            value = values[register.name]
            read = read | (value & signal.replicate(len(value)))
        trace = next(signal for register, signal in chosen.items() if register.name == "TRACE_CYCLE")
        m.d.comb += [
            port.read_data.eq(read),
            counters.read.eq(port.came), counters.address.eq(port.read_address),
            counters.trace_pop.eq(port.look & trace),
            counters.cycle.eq(Mux(self.start, 0, self.cycle)),
        ]  # fmt: skip
