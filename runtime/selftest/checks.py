"""The checks of ``tilewright selftest``, from the ground up; each gives a :class:`Finding`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program
from tilewright.isa.registers import ID_VALUE, Status, register_map
from tilewright.isa.spec import Engine
from tilewright.runtime.device_base import Counters, Device, DeviceError, DeviceFault
from tilewright.runtime.pynq.registers import Registers
from tilewright.runtime.selftest import diagnosis, programs
from tilewright.runtime.selftest.programs import INPUT, OUTPUT, Bytes, Case

RATE_SHARE = 0.8  #: of the reachable bandwidth, at least
IRQ_CYCLES = 20_000  #: of the program whose end is waited for
IRQ_SECONDS = 2.0  #: within which its interrupt must come
IDLE_SECONDS = 0.05  #: within which none must come while nothing runs
NETWORK_INFERENCES = 4
CLOCK_CYCLES, CLOCK_INFERENCES = 1 << 16, 256  #: of the program that measures the clock: 0.17 s at 100 MHz
CLOCK_TOLERANCE = 0.05
AT_RESET = {"STATUS": 0, "FAULT_CODE": 0, "REPEAT": 1, "PROGRAM_LOW": 0, "SEGMENT0_LIMIT": 0}  #: registers' values

FAILURES = (DeviceError, DeviceFault)  #: how a program ends that does not end well


@dataclass(frozen=True)
class Finding:
    """What a check found. ``ok``: None where it was left out. ``detail``: a measurement, or the probable cause."""

    name: str
    ok: bool | None
    detail: str


@dataclass
class Bench:
    """A device under test, and what earlier checks have seen of it."""

    device: Device
    previous: dict[str, Bytes] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The device's."""
        return self.device.config

    @property
    def registers(self) -> Registers | None:
        """Those of the device's first core, where it has any."""
        return getattr(self.device, "registers", None)

    @property
    def cores(self) -> list[Registers]:
        """The registers of each core; none where the device has none."""
        board = getattr(self.device, "board", None)
        return [] if board is None else list(board.cores)

    def run(self, program: Program, inputs: Bytes | None = None, read: int = 0) -> tuple[Bytes, Counters]:
        """Run a program; (inferences, ``read``) bytes of its output. Raises one of FAILURES."""
        count = 1 if inputs is None else len(inputs)
        allocation = self.device.allocate(program, count)
        try:
            if inputs is not None and inputs.size:
                self.device.write_stack(allocation, INPUT, 0, inputs)
            self.device.launch(allocation, count)
            self.device.wait(allocation)
            return self.device.read_stack(allocation, OUTPUT, count, 0, read), self.device.counters(allocation)
        finally:
            self.device.release(allocation)


Check = Callable[[Bench], Finding]


def check_registers(bench: Bench) -> Finding:
    """Identity, reset values, and patterns in everything that can be written, of every core."""
    name, cores = "registers", bench.cores
    if not cores:
        return Finding(name, None, f"the {bench.device} has none")
    for core, registers in enumerate(cores):
        wrong = _wrong_register(bench.config, registers)
        if wrong is not None:
            return Finding(name, False, wrong + f" (core {core})" * (len(cores) > 1))
    for core, registers in enumerate(cores):
        registers.write("WATCHDOG", core)
    if [registers.read("WATCHDOG") for registers in cores] != list(range(len(cores))):
        return Finding(name, False, "cores share a register: upper address lines of the control port are stuck")
    for registers in cores:
        registers.write("WATCHDOG", 0)
    count = sum(r.access == "rw" for r in register_map(bench.config))
    everywhere = f" in each of {len(cores)} cores" * (len(cores) > 1)
    return Finding(name, True, f"identity, reset values, {count} registers hold patterns{everywhere}")


def _wrong_register(config: Config, registers: Registers) -> str | None:
    """What is wrong with a core's registers."""
    if registers.read("ID") != ID_VALUE:
        return f"ID holds {registers.read('ID'):#010x}, not {ID_VALUE:#010x}: no Tilewright here"
    for at_reset, value in AT_RESET.items():
        if (found := registers.read(at_reset)) != value:
            return (
                f"{at_reset} holds {found:#x} after reset, not {value:#x}: the reset is not connected, or the "
                "bitstream was not loaded anew"
            )
    writable = [r for r in register_map(config) if r.access == "rw"]
    try:
        for pattern in (0xFFFFFFFF, 0xAAAAAAAA, 0x55555555, 0):
            for register in writable:
                value = pattern & ((1 << register.bits) - 1)
                registers.write(register.name, value)
                if (found := registers.read(register.name)) != value:
                    return diagnosis.bad_register(register.name, value, found, register.bits)
        for k, register in enumerate(writable):
            registers.write(register.name, (k + 1) & ((1 << register.bits) - 1))
        for k, register in enumerate(writable):
            if registers.read(register.name) != (k + 1) & ((1 << register.bits) - 1):
                return (
                    f"{register.name} was changed by a write to another register: address lines of the control port "
                    "are stuck or crossed"
                )
    finally:
        for register in writable:
            registers.write(register.name, 0)
    registers.write("ID", 0)
    if registers.read("ID") != ID_VALUE:
        return "ID was changed by a write: this is memory, not the accelerator"
    return None


def check_fetch(bench: Bench) -> Finding:
    """A program is read from memory, runs on all engines, and ends."""
    try:
        _, counters = bench.run(programs.waits(bench.config))
    except FAILURES as error:
        return Finding("program", False, diagnosis.failed_run(error))
    if bench.registers is not None:
        issued = [bench.registers.read(f"{engine.name}_INSTRUCTIONS") for engine in Engine]
        if any(issued) and issued != [1, 1, 1, 1]:
            text = ", ".join(f"{engine.name} {count}" for engine, count in zip(Engine, issued))
            return Finding("program", False, f"one WAIT per engine ran as {text}; {diagnosis.FETCHED_RUBBISH}")
    return Finding("program", True, f"fetched, run and ended in {counters.cycles} cycles")


def check_case(name: str, make: Callable[[Config], Case]) -> Check:
    """A check that a program's output is what it should be."""

    def check(bench: Bench) -> Finding:
        case = make(bench.config)
        try:
            found, counters = bench.run(case.program, case.inputs, case.outputs.shape[1])
        except FAILURES as error:
            return Finding(name, False, diagnosis.failed_run(error))
        if (found != case.outputs).any():
            beat = bench.config.axi_bits // 8  # of a port: it is ports that are connected wrongly
            text = diagnosis.wrong_bytes(found.reshape(-1), case.outputs.reshape(-1), bench.previous.get(name), beat)
            return Finding(name, False, text)
        bench.previous[name] = found.reshape(-1)
        return Finding(name, True, f"{found.size} bytes right, {counters.cycles} cycles")

    return check


def check_load(bench: Bench) -> Finding:
    """LOAD brings what the processor has just written: twice, so that old bytes show."""
    for seed in (1, 2):
        finding = check_case("load", partial(programs.copy, seed=seed))(bench)
        if finding.ok:
            continue
        text = finding.detail.replace(diagnosis.NOT_THERE, diagnosis.READS_ZEROS)  # STORE has been seen to work
        return Finding("load", False, text)
    return Finding("load", True, f"{finding.detail}, also after a change")


def check_bandwidth(opcode: str) -> Check:
    """Bytes per cycle of many long transfers, from the difference of two runs: what starts and ends them cancels."""

    def check(bench: Bench) -> Finding:
        config, name = bench.config, f"{opcode} bandwidth"
        measured = []
        for times in (2, 6):
            program, size = programs.moving(config, opcode, times)
            try:
                measured.append((size, bench.run(program)[1].cycles))
            except FAILURES as error:
                return Finding(name, False, diagnosis.failed_run(error))
        (size, cycles), (more, longer) = measured
        if not cycles:
            return Finding(name, None, f"the {bench.device} counts no cycles")
        if longer <= cycles:
            return Finding(name, False, f"{more} bytes took {longer} cycles, {size} took {cycles}: the counter stands")
        beat, in_flight = config.beat_bytes, config.outstanding * config.burst_beats
        reachable = beat * min(1.0, in_flight / (config.burst_beats + config.dram_latency))
        rate = (more - size) / (longer - cycles)
        if rate < RATE_SHARE * reachable:
            return Finding(name, False, diagnosis.slow_port(rate, beat, reachable))
        seconds = rate * config.clock_mhz / 1000
        return Finding(name, True, f"{rate:.2f} of {beat} B/cycle, {seconds:.2f} GB/s at {config.clock_mhz} MHz")

    return check


def check_faults(bench: Bench) -> Finding:
    """What must fault does, with the right code, and a good run follows each."""
    for make, code, instruction in ((programs.outside, "SEGMENT", 1), (programs.hang, "WATCHDOG", None)):
        try:
            bench.run(make(bench.config))
        except DeviceFault as error:
            if error.code != code or (bench.registers is not None and error.instruction != instruction):
                return Finding("faults", False, f"{code} was provoked, {error.code} at {error.instruction} came")
        except DeviceError as error:
            return Finding("faults", False, f"{code} was provoked: {diagnosis.failed_run(error)}")
        else:
            return Finding("faults", False, f"{code} was provoked and not noticed: is the bitstream of this version?")
        after = check_case("faults", lambda config: programs.copy(config, 3))(bench)
        if not after.ok:
            return Finding("faults", False, f"after {code} nothing works: {after.detail}")
    return Finding("faults", True, "SEGMENT and WATCHDOG come as they should, and good runs after them")


def check_interrupt(bench: Bench) -> Finding:
    """The interrupt comes at the end of a program, and not before."""
    board, registers = getattr(bench.device, "board", None), bench.registers
    if board is None or registers is None:
        return Finding("interrupt", None, f"the {bench.device} has none")
    if board.interrupt is None:
        return Finding(
            "interrupt", False, f"{board.no_interrupt}: connect irq to the interrupt controller in the block design; "
            "runs poll until then, which works but costs processor time",
        )  # fmt: skip
    # PYNQ may have kept one from earlier
    if board.interrupt.wait(IDLE_SECONDS) and board.interrupt.wait(IDLE_SECONDS):
        return Finding(
            "interrupt", False, "it comes while nothing runs: the line is stuck high or inverted, or the controller is "
            "set to edges; it must be level, active high",
        )  # fmt: skip
    allocation = bench.device.allocate(programs.waits(bench.config, IRQ_CYCLES), 1)
    try:
        bench.device.launch(allocation, 1)
        begin = time.monotonic()
        came = board.interrupt.wait(IRQ_SECONDS)
        took, done = time.monotonic() - begin, registers.status() >> Status.DONE & 1
        bench.device.wait(allocation)
    except FAILURES as error:
        return Finding("interrupt", False, diagnosis.failed_run(error))
    finally:
        bench.device.release(allocation)
    if not came:
        return Finding(
            "interrupt", False, "no interrupt: the program has ended, but nothing came; is irq connected, and does "
            "/proc/interrupts list the controller as fabric? Runs poll until then",
        )  # fmt: skip
    if not done:
        return Finding("interrupt", False, "it came before the program had ended: is another core on the same line?")
    return Finding("interrupt", True, f"at the end of a program, after {took * 1e3:.1f} ms")


def check_clock(bench: Bench) -> Finding:
    """The clock's rate, from a program of known cycles and the processor's time."""
    board = getattr(bench.device, "board", None)
    expected = None if board is None else board.clock_mhz
    if expected is None:
        return Finding("clock", None, "the hardware is simulated")
    program = programs.waits(bench.config, CLOCK_CYCLES, PAGE)
    allocation = bench.device.allocate(program, CLOCK_INFERENCES)
    try:
        begin = time.monotonic()
        bench.device.launch(allocation, CLOCK_INFERENCES)
        bench.device.wait(allocation)
        took = time.monotonic() - begin
        counters = bench.device.counters(allocation)
    except FAILURES as error:
        return Finding("clock", False, diagnosis.failed_run(error))
    finally:
        bench.device.release(allocation)
    found = counters.cycles * -(-CLOCK_INFERENCES // counters.cores) / took / 1e6
    if abs(found - expected) > CLOCK_TOLERANCE * expected:
        return Finding("clock", False, diagnosis.wrong_clock(found, expected))
    return Finding("clock", True, f"{found:.1f} MHz")


def check_network(bench: Bench) -> Finding:
    """A convolution over several inferences with one doorbell, on every core."""
    count = max(NETWORK_INFERENCES, len(bench.cores))
    finding = check_case("network", lambda config: programs.gemm(config, count))(bench)
    return Finding("network", finding.ok, f"{count} inferences, one launch: {finding.detail}")


#: (check, names of those that must have passed before it)
CHECKS: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("registers", check_registers, ()),
    ("program", check_fetch, ("registers",)),
    ("store", check_case("store", programs.fill_and_store), ("program",)),
    ("load", check_load, ("store",)),
    ("alu", check_case("alu", programs.alu), ("load",)),
    ("rescale", check_case("rescale", programs.rescale), ("load",)),
    ("gemm", check_case("gemm", programs.gemm), ("alu",)),
    ("window", check_case("window", programs.window), ("alu",)),
    ("load bandwidth", check_bandwidth("load"), ("load",)),
    ("store bandwidth", check_bandwidth("store"), ("store",)),
    ("faults", check_faults, ("load",)),
    ("interrupt", check_interrupt, ("program",)),
    ("clock", check_clock, ("program",)),
    ("network", check_network, ("gemm",)),
)


def run_checks(bench: Bench) -> Iterator[Finding]:
    """All checks in order; those that build on one that failed are left out."""
    failed: set[str] = set()
    for name, check, needed in CHECKS:
        missing = [other for other in needed if other in failed]
        if missing:
            failed.add(name)
            yield Finding(name, None, f"left out: it builds on {missing[0]}")
            continue
        finding = check(bench)
        if finding.ok is False:
            failed.add(name)
        yield finding


def check_artifact(bench: Bench, artifact: Any, x: Any = None, expected: Any = None) -> Finding:
    """A compiled network, run twice; compared with ``expected``, else with the simulator where that is installed."""
    from tilewright.runtime.executable import Executable
    from tilewright.runtime.random_inputs import random_inputs

    try:
        executable = Executable(artifact, bench.device)
        given = random_inputs(executable.inputs, 0, 2) if x is None else x
        first, report = executable.run(given)
        again = executable.run(given)[0]
    except FAILURES as error:
        return Finding("artifact", False, diagnosis.failed_run(error))
    if not _equal(first, again):
        return Finding("artifact", False, "two runs differ: timing is not met, or memory is disturbed")
    name = f"{executable.name}: {report.cycles} cycles"
    if expected is None:
        try:
            expected = Executable(artifact, "sim", verified=True).run(given)[0]
        except ImportError:
            return Finding("artifact", True, f"{name}, two runs equal (no simulator here to compare with)")
    if not _equal(first, expected):
        return Finding("artifact", False, f"{name}, but its output is not the expected one")
    return Finding("artifact", True, f"{name}, output as expected")


def _equal(a: Any, b: Any) -> bool:
    pairs = list(zip(a, b)) if isinstance(a, list) else [(a, b)]
    return all(p.shape == np.asarray(q).shape and bool((p == q).all()) for p, q in pairs)
