"""Broken hardware: one line of one module each, and the bench's test that must notice it."""

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
    """``line`` of a class of the generator becomes ``wrong``; ``users``: modules that have imported the class."""

    name: str
    bench: str
    test: str
    module: str
    kind: str
    users: tuple[str, ...]
    line: str
    wrong: str

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
        "an address that waits may change", "bench_axi", "back_pressure_on_one_channel/channel=ar",
        "read_channel", "ReadChannel", ("top",),
        "held.eq(self.arvalid & ~self.arready)", "held.eq(0)",
    ),
    Mutant(
        "bursts are cut at no boundary", "bench_axi", "bursts_stop_at_page_boundaries",
        "bursts", "BurstRequester", ("load", "store"),
        "room.eq(longest - self.address[: bits_for(longest)])", "room.eq(longest)",
    ),
    Mutant(
        "a write address is withdrawn", "bench_axi", "back_pressure_on_one_channel/channel=w",
        "write_channel", "WriteChannel", ("store",),
        "self.awvalid.eq(present & ~address_sent)", "self.awvalid.eq(present & ~address_sent & self.wready)",
    ),
    Mutant(
        "nothing is outside its segment", "bench_faults", "a_fault_names_its_instruction/code=SEGMENT",
        "bursts", "ExtentCheck", ("load", "store"),
        "self.outside.eq(end > Array(self.limits)[segment])", "self.outside.eq(0)",
    ),
    Mutant(
        "abort is ignored", "bench_faults", "a_hang_ends_by_abort",
        "control", "ControlUnit", ("top",),
        "watchdog | self._control(Control.ABORT)", "watchdog",
    ),
)  # fmt: skip
