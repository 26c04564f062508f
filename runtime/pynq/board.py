"""An overlay on a board: loaded through PYNQ, its registers mapped, checked to be what the manifest says."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib import import_module
from typing import Any
from weakref import ReferenceType, ref

from tilewright.isa.registers import ID_VALUE, Control, Status, window_bits
from tilewright.runtime.pynq.interrupt import InterruptLine
from tilewright.runtime.pynq.manifest import Manifest, OverlayError
from tilewright.runtime.pynq.registers import Registers
from tilewright.runtime.turn import Turn

SETTLE_SECONDS = 0.5  #: within which an abort has ended, bursts under way included

#: what PYNQ raises for an overlay it cannot load: files, metadata, no board, no rights
PYNQ_ERRORS = (OSError, RuntimeError, ValueError, KeyError, AttributeError, TypeError, ImportError)


def import_pynq() -> Any:
    """The ``pynq`` package. Raises :class:`OverlayError` saying where it is found."""
    try:
        return import_module("pynq")
    except ImportError as error:
        raise OverlayError(
            f"pynq device: the pynq package is not available here ({error}); on a board, run in the image's own "
            "environment: sudo -i, then source /etc/profile.d/pynq_venv.sh"
        ) from error


#: which Board has used the logic last, by the identity of the package that drives it: what runs there is its own
_last_users: dict[int, ReferenceType[Board]] = {}
_turns: dict[int, Turn] = {}  #: of all devices on the same logic, likewise


class Board:
    """A loaded overlay. ``cores``: each core's registers; ``interrupt``: their line, or None and ``no_interrupt`` why.

    ``pynq``: the package, or what stands for it in tests. ``download``: False attaches to the overlay that is loaded
    already, which must be the same one. Raises :class:`OverlayError`.
    """

    def __init__(self, manifest: Manifest, pynq: Any = None, download: bool = True) -> None:
        self.manifest = manifest
        self._pynq = import_pynq() if pynq is None else pynq
        self.turn = _turns.setdefault(id(self._pynq), Turn())
        try:
            self._overlay = self._pynq.Overlay(str(manifest.bitstream), download=download)
        except PYNQ_ERRORS as error:
            raise OverlayError(
                f"{manifest.bitstream}: PYNQ cannot load it: {type(error).__name__}: {error}; run on the board, as "
                "root, with the files of one build"
            ) from error
        _last_users[id(self._pynq)] = ref(self)
        window = self._window()
        self.cores = [Registers(window, manifest.config, core) for core in range(manifest.config.cores)]
        self._check_identity()
        self.interrupt: InterruptLine | None = None
        self.no_interrupt: str | None = None
        self._open_interrupt()
        if not self.stop(self.busy()):
            raise OverlayError(f"{manifest.bitstream}: a run of another process goes on and cannot be ended; reboot")

    def use(self) -> None:
        """What is started from now on is this one's, which others that drive the same logic leave alone.

        One of those may have used it since: nothing is known of the registers then, and the overlay may be another.
        Raises :class:`OverlayError` if it is, or if something runs.
        """
        if self.is_last_user:
            return
        for registers in self.cores:
            registers.forget()
        if (found := self._found_fingerprint()) != self.manifest.config.fingerprint:
            raise OverlayError(
                f"{self.manifest.bitstream}: another device has loaded another overlay since (config {found}); close "
                "that and open this one again"
            )
        if self.busy():
            raise OverlayError(f"{self.manifest.bitstream}: a run of another device of this process has not ended")
        _last_users[id(self._pynq)] = ref(self)

    def _found_fingerprint(self) -> str:
        """Of the Config that core 0 says it has; empty where there is no Tilewright."""
        registers = self.cores[0]
        if registers.read("ID") != ID_VALUE:
            return ""
        return f"{registers.read('FINGERPRINT_HIGH'):08x}{registers.read('FINGERPRINT_LOW'):08x}"

    @property
    def is_last_user(self) -> bool:
        """Whether what runs in the logic can be this one's."""
        return _last_users[id(self._pynq)]() is self

    @property
    def clock_mhz(self) -> float | None:
        """The clock that the accelerator should have; None where the hardware is simulated."""
        if getattr(self._pynq, "simulated", False):
            return None
        return self.manifest.clock_mhz or float(self.manifest.config.clock_mhz)

    def allocate(self, size: int) -> Any:
        """``size`` bytes of contiguous memory, cached by the processor. Raises what PYNQ raises when there is none."""
        return self._pynq.allocate((size,), "u1", cacheable=1)

    def busy(self) -> list[int]:
        """The cores that run a program."""
        return [core for core, registers in enumerate(self.cores) if registers.status() >> Status.BUSY & 1]

    def ended(self, cores: Iterable[int]) -> list[int]:
        """Those of the cores, which have been started, that have ended."""
        if len(self.cores) == 1:
            return [core for core in cores if self.cores[core].status() >> Status.DONE & 1]
        interrupts = self.cores[0].read("INTERRUPTS")
        return [core for core in cores if interrupts >> core & 1]

    def stop(self, cores: Iterable[int]) -> bool:
        """End what runs on these cores; whether that worked. They can start anew then."""
        running = [self.cores[core] for core in cores]
        for registers in running:
            registers.command(Control.ABORT)
        end = time.monotonic() + SETTLE_SECONDS
        for registers in running:
            while not registers.status() >> Status.DONE & 1:
                if time.monotonic() > end:
                    return False
                time.sleep(0.001)
            registers.command(Control.ACKNOWLEDGE)
        return True

    def reload(self) -> None:
        """Load the bitstream anew: the reset that always works. Raises :class:`OverlayError` if it does not."""
        try:
            self._overlay.download()
        except PYNQ_ERRORS as error:
            raise OverlayError(
                f"{self.manifest.bitstream}: cannot be loaded anew ({type(error).__name__}: {error}); close all "
                "devices and open one again, or reboot"
            ) from error
        for registers in self.cores:
            registers.forget()
        self._check_identity()
        self._open_interrupt()

    def _window(self) -> Any:
        name, found = self.manifest.ip, self._overlay.ip_dict
        # a parser that finds several interfaces lists each as CELL/INTERFACE
        interfaces = [key for key in found if key.startswith(f"{name}/")]
        if name not in found and len(interfaces) == 1:
            name = interfaces[0]
        if name not in found:
            raise OverlayError(
                f"{self.manifest.bitstream}: its block design has no cell {name}, only {', '.join(found) or 'none'}; "
                "copy the .hwh of the same build"
            )
        base, size = int(found[name]["phys_addr"]), int(found[name]["addr_range"])
        needed = 1 << window_bits(self.manifest.config)
        if size < needed:
            raise OverlayError(
                f"{self.manifest.bitstream}: the address range of {name} has {size} bytes, the registers need "
                f"{needed}; correct it in the block design's address editor"
            )
        try:
            return self._pynq.MMIO(base, needed).array
        except PYNQ_ERRORS as error:
            raise OverlayError(
                f"{self.manifest.bitstream}: registers at {base:#x} cannot be mapped: {error}; run as root"
            ) from error

    def _check_identity(self) -> None:
        config = self.manifest.config
        for core, registers in enumerate(self.cores):
            found = registers.read("ID")
            if found != ID_VALUE:
                place = f"{self.manifest.ip}" + (f", core {core}," if core else "")
                raise OverlayError(
                    f"{self.manifest.bitstream}: register ID of {place} holds {found:#010x}, not "
                    f"{ID_VALUE:#010x}: no Tilewright at this address, or its clock or reset is not connected"
                )
            low_half, high_half = registers.read("FINGERPRINT_LOW"), registers.read("FINGERPRINT_HIGH")
            fingerprint = f"{high_half:08x}{low_half:08x}"
            if fingerprint != config.fingerprint:
                raise OverlayError(
                    f"{self.manifest.bitstream}: the hardware is of config {fingerprint}, the manifest says "
                    f"{config.name} ({config.fingerprint}): a wrong bitstream, or the manifest of another one; copy "
                    "all three files again"
                )
        if config.cores > 1 and (count := self.cores[0].read("CORES")) != config.cores:
            raise OverlayError(
                f"{self.manifest.bitstream}: the hardware has {count} cores, the manifest says {config.cores}: a wrong "
                "bitstream, or the manifest of another one; copy all three files again"
            )

    def _open_interrupt(self) -> None:
        pin = self.manifest.interrupt
        self.interrupt = None
        if pin not in self._overlay.interrupt_pins:
            self.no_interrupt = f"the block design has no interrupt pin {pin}"
            return
        try:
            self.interrupt, self.no_interrupt = InterruptLine(self._pynq, pin), None
        except PYNQ_ERRORS as error:
            self.no_interrupt = f"PYNQ cannot open interrupt {pin}: {type(error).__name__}: {error}"
