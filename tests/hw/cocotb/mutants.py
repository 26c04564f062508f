"""Broken hardware: one line of one module each, the bench's test that must notice it, and what that must say."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

__all__ = ["MUTANTS", "Mutant"]

_RTL = "tilewright.hw.rtl."


@dataclass(frozen=True)
class Mutant:
    """``line`` of a class of the generator becomes ``wrong``; ``users``: modules that have imported the class.

    ``test`` of ``bench`` fails for it (expression for names), with what ``says`` matches in its traceback. ``other``:
    on the config of another shape, which has packed multipliers and two images.
    """

    name: str
    bench: str
    test: str
    says: str
    module: str
    kind: str
    users: tuple[str, ...]
    line: str
    wrong: str
    other: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While it lasts, the generator makes the broken hardware."""
        module = importlib.import_module(_RTL + self.module)
        text = inspect.getsource(module)
        assert text.count(self.line) == 1, f"{self.module}.py no longer has the line that this mutant changes"
        names = {"__name__": module.__name__, "__file__": module.__file__}
        exec(compile(text.replace(self.line, self.wrong), str(module.__file__), "exec"), names)
        with _patched([_RTL + user for user in self.users], self.kind, names[self.kind]):
            yield


@contextmanager
def _patched(modules: list[str], name: str, value: object) -> Iterator[None]:
    patches = [patch(f"{module}.{name}", value) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


MUTANTS = (
    Mutant(
        "a wrapped address is not brought back", "bench_engines", "every_engine_alone/engine=STORE", "bytes differ",
        "store", "Store", ("top",),
        "first + fields.wrap_base + ~fields.wrap_size", "first + fields.wrap_base",
    ),
    Mutant(
        "the lower clamp is left out", "bench_engines", "every_engine_alone/engine=ALU", "bytes differ",
        "alu_lane", "AluLane", ("alu",),
        "Mux(under, now.lo, now.hi)", "now.hi",
    ),
    Mutant(
        "every micro-op accumulates", "bench_engines", "every_engine_alone/engine=GEMM", "bytes differ",
        "gemm", "Gemm", ("top",),
        "accumulate_3.eq(uop.accumulate)", "accumulate_3.eq(1)",
    ),
    Mutant(
        "odd lanes multiply what even ones did", "bench_engines", "every_engine_alone/engine=GEMM", "bytes differ",
        "array", "MultiplierArray", ("gemm",),
        "Mux(taken, window[o + 1], self._vector(b))", "Mux(taken, window[o], self._vector(b))", other=True,
    ),
    Mutant(
        "the odd lanes have no turn", "bench_engines", "every_engine_alone/engine=GEMM", "bytes differ",
        "array", "MultiplierArray", ("gemm",),
        "with m.If(self.push | second):", "with m.If(self.push):", other=True,
    ),
    Mutant(
        "sums of packed products stay less by one", "bench_engines", "every_engine_alone/engine=GEMM", "bytes differ",
        "gemm", "Gemm", ("top",),
        "new - ~old if array.less else new + old", "new + old", other=True,
    ),
    Mutant(
        "a push hides a pop", "bench_tokens", "a_token_comes", "no interrupt within",
        "tokens", "Tokens", ("issue",),
        "with m.If(pushed != popped):", "with m.If(pushed | popped):",
    ),
    Mutant(
        "a pop hides a push", "bench_tokens", "a_token_comes", "no interrupt within",
        "tokens", "Tokens", ("issue",),
        "with m.If(pushed != popped):\n                    m.d.sync += [count.eq(count + Mux(pushed, 1, -1)),",
        "with m.If(pushed | popped):\n                    m.d.sync += [count.eq(count + Mux(popped, -1, 1)),",
    ),
    Mutant(
        "a push hides a pop of a counter", "bench_counters", "pushes_less_pops_at_random", "self.check",
        "tokens", "Tokens", ("tokens",),
        "with m.If(pushed != popped):", "with m.If(pushed | popped):",
    ),
    Mutant(
        "a counter is too narrow", "bench_counters", "queues_fill_to_their_depth_and_empty", "self.check",
        "tokens", "Tokens", ("tokens",),
        "Signal(range(self.most + 1)", "Signal(range(self.most // 2)",
    ),
    Mutant(
        "a register keeps its value", "bench_reset", "reset_in_the_middle_of_a_run", "assert await bench.read",
        "control", "ControlUnit", ("top",),
        'init=1 if register.name == "REPEAT" else 0)', 'init=1 if register.name == "REPEAT" else 0, reset_less=True)',
    ),
    Mutant(
        "bursts in flight outlive reset", "bench_reset", "reset_in_the_middle_of_a_run", "no interrupt within",
        "read_channel", "ReadChannel", ("top",),
        "flying, full = Signal(range(c.outstanding + 1)), Signal()",
        "flying, full = Signal(range(c.outstanding + 1), reset_less=True), Signal(reset_less=True)",
    ),
    Mutant(
        "an address that waits may change", "bench_axi", "back_pressure_on_one_channel/channel=ar",
        "the payload changed before ready",
        "read_channel", "ReadChannel", ("top",),
        "held.eq(self.arvalid & ~self.arready)", "held.eq(0)",
    ),
    Mutant(
        "bursts are cut at no boundary", "bench_axi", "bursts_stop_at_page_boundaries", "0x1000|no interrupt",
        "bursts", "BurstRequester", ("load", "store"),
        "reach.eq(place + row_size)", "reach.eq(row_size)",
    ),
    Mutant(
        "a write address is withdrawn", "bench_axi", "random_latency_and_pauses_everywhere/chance=0.5", "valid fell",
        "write_channel", "WriteChannel", ("store",),
        "self.awvalid.eq(address_due | opening)", "self.awvalid.eq((address_due | opening) & self.wready)",
    ),
    Mutant(
        "a fault does not wait for bursts under way", "bench_axi", "an_error_response", "in flight after the end",
        "control", "ControlUnit", ("top",),
        "with m.If(self.quiet):", "with m.If(1):",
    ),
    Mutant(
        "nothing is outside its segment", "bench_faults", "a_fault_names_its_instruction/code=SEGMENT",
        "assert .outcome.fault",
        "bursts", "ExtentCheck", ("load", "store"),
        "self.outside.eq(end > limit)", "self.outside.eq(0)",
    ),
    Mutant(
        "what does not decode goes on", "bench_faults", "a_fault_names_its_instruction/code=ILLEGAL", ".",
        "dispatch", "Dispatch", ("top",),
        "sound.eq(~is_illegal(self.word, self.config))", "sound.eq(1)",
    ),
    Mutant(
        "a tile may end a beat behind its segment", "bench_faults", "a_segment_ends_with_its_last_beat",
        "assert .outcome.fault",
        "bursts", "ExtentCheck", ("load", "store"),
        "self.outside.eq(end > limit)", "self.outside.eq(end > limit + 1)",
    ),
    Mutant(
        "a segment's last beat is out of reach", "bench_faults", "a_segment_ends_with_its_last_beat",
        "assert outcome.fault is None",
        "bursts", "ExtentCheck", ("load", "store"),
        "self.outside.eq(end > limit)", "self.outside.eq(end >= limit)",
    ),
    Mutant(
        "abort is ignored", "bench_faults", "a_hang_ends_by_abort", "bench.finish",
        "control", "ControlUnit", ("top",),
        "watchdog | self._command[Control.ABORT]", "watchdog",
    ),
    Mutant(
        "a port is shown what it has taken", "bench_ports", "one_port_lags.*channel=ar", ".",
        "port_pair", "PortPair", ("top",),
        ".eq(valid & ~done)", ".eq(valid)",
    ),
    Mutant(
        "the second port's data is not waited for", "bench_ports", "one_port_lags.*slow=1/channel=r", ".",
        "port_pair", "PortPair", ("top",),
        '.eq(has[0] & has[1]), self.bus[f"{channel}valid"]', '.eq(has[0]), self.bus[f"{channel}valid"]',
    ),
    Mutant(
        "both ports write the even words", "bench_ports", "each_port_pauses", ".",
        "port_pair", "PortPair", ("top",),
        'bus["wdata"].word_select(k, word)', 'bus["wdata"].word_select(0, word)',
    ),
    Mutant(
        "an error of the second port is lost", "bench_ports", "an_error_of_one_port.*port=1.*what=fetch", ".",
        "port_pair", "PortPair", ("top",),
        'read[0]["resp"] | read[1]["resp"]', 'read[0]["resp"]',
    ),
)  # fmt: skip
