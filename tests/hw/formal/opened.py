"""Modules of the design opened up: a proof reaches their registers, or runs them with a line changed."""

from __future__ import annotations

import inspect
import sys
from types import FrameType, ModuleType
from typing import Any, ClassVar

from amaranth.hdl import Array, Elaboratable, Module, Signal

from tilewright.hw.rtl.queue import Queue
from tilewright.isa.spec import bits_for


class OpenRam(Elaboratable):
    """``AsyncRam`` as registers that a proof may look at; every instance made is kept in ``made``."""

    made: ClassVar[list[OpenRam]] = []

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.address_bits = bits_for(depth)
        self.write_enable = Signal()
        self.write_address = Signal(self.address_bits)
        self.write_data = Signal(width)
        self.read_address = Signal(self.address_bits)
        self.read_data = Signal(width)
        self.cells = [Signal(width, name=f"cell_{k}") for k in range(depth)]
        OpenRam.made.append(self)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.read_data.eq(Array(self.cells)[self.read_address])
        for k, cell in enumerate(self.cells):
            with m.If(self.write_enable & (self.write_address == k)):
                m.d.sync += cell.eq(self.write_data)
        return m


class Recorder:
    """Stands in for ``Signal`` in a module under proof, so that the proof reaches its registers."""

    def __init__(self) -> None:
        self.named: dict[str, Signal] = {}
        self.made: list[Signal] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Signal:
        signal = Signal(*args, **kwargs, src_loc_at=1)
        self.named[signal.name] = signal
        self.made.append(signal)
        return signal

    def like(self, other: Any, **kwargs: Any) -> Signal:
        signal = Signal.like(other, **kwargs, src_loc_at=1)
        self.named[signal.name] = signal
        self.made.append(signal)
        return signal


class OpenQueue(Queue):
    """A queue that is elaborated at once, so that a proof may look at its ring (an :class:`OpenRam`)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self._module = super().elaborate(None)
        self.ring = OpenRam.made[-1]

    def elaborate(self, platform: object) -> Module:
        return self._module


def elaborated(unit: Elaboratable) -> tuple[Module, dict[str, Any]]:
    """A unit's module, and the local names of its ``elaborate``, by which a proof reaches its registers."""
    found: dict[str, Any] = {}
    code = type(unit).elaborate.__code__

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is code:
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        return unit.elaborate(None), found
    finally:
        sys.setprofile(before)


def variant(module: ModuleType, change: tuple[str, str] | None = None) -> dict[str, Any]:
    """The names of a module executed anew; ``change``: with one piece of its source replaced by another."""
    source = inspect.getsource(module)
    if change is not None:
        assert source.count(change[0]) == 1, change[0]
        source = source.replace(*change)
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, str(module.__file__), "exec"), names)
    return names
