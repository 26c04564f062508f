"""An overlay on a board: loaded through PYNQ, its registers mapped, checked to be what the manifest says."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from tilewright.isa.registers import ADDRESS_BITS, ID_VALUE, Control, Status
from tilewright.runtime.pynq.interrupt import InterruptLine
from tilewright.runtime.pynq.manifest import Manifest, OverlayError
from tilewright.runtime.pynq.registers import Registers

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


class Board:
    """A loaded overlay. ``registers``: the accelerator's; ``interrupt``: its line, or None and ``no_interrupt`` why.

    ``pynq``: the package, or what stands for it in tests. ``download``: False attaches to the overlay that is loaded
    already, which must be the same one. Raises :class:`OverlayError`.
    """

    def __init__(self, manifest: Manifest, pynq: Any = None, download: bool = True) -> None:
        self.manifest = manifest
        self._pynq = import_pynq() if pynq is None else pynq
        try:
            self._overlay = self._pynq.Overlay(str(manifest.bitstream), download=download)
        except PYNQ_ERRORS as error:
            raise OverlayError(
                f"{manifest.bitstream}: PYNQ cannot load it: {type(error).__name__}: {error}; run on the board, as "
                "root, with the files of one build"
            ) from error
        self.registers = Registers(self._window(), manifest.config)
        self._check_identity()
        self.interrupt: InterruptLine | None = None
        self.no_interrupt: str | None = None
        self._open_interrupt()
        if self.registers.status() >> Status.BUSY & 1 and not self.stop():
            raise OverlayError(f"{manifest.bitstream}: a run of another process goes on and cannot be ended; reboot")

    @property
    def clock_mhz(self) -> float | None:
        """The clock that the accelerator should have; None where the hardware is simulated."""
        if getattr(self._pynq, "simulated", False):
            return None
        return self.manifest.clock_mhz or float(self.manifest.config.clock_mhz)

    def allocate(self, size: int) -> Any:
        """``size`` bytes of contiguous memory, cached by the processor. Raises what PYNQ raises when there is none."""
        return self._pynq.allocate((size,), "u1", cacheable=1)

    def stop(self) -> bool:
        """End the run under way; whether that worked. The accelerator can start anew then."""
        self.registers.command(Control.ABORT)
        end = time.monotonic() + SETTLE_SECONDS
        while not self.registers.status() >> Status.DONE & 1:
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        self.registers.command(Control.ACKNOWLEDGE)
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
        self.registers.forget()
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
        if size < 1 << ADDRESS_BITS:
            raise OverlayError(
                f"{self.manifest.bitstream}: the address range of {name} has {size} bytes, the registers need "
                f"{1 << ADDRESS_BITS}; correct it in the block design's address editor"
            )
        try:
            return self._pynq.MMIO(base, 1 << ADDRESS_BITS).array
        except PYNQ_ERRORS as error:
            raise OverlayError(
                f"{self.manifest.bitstream}: registers at {base:#x} cannot be mapped: {error}; run as root"
            ) from error

    def _check_identity(self) -> None:
        found, config = self.registers.read("ID"), self.manifest.config
        if found != ID_VALUE:
            raise OverlayError(
                f"{self.manifest.bitstream}: register ID of {self.manifest.ip} holds {found:#010x}, not "
                f"{ID_VALUE:#010x}: no Tilewright at this address, or its clock or reset is not connected"
            )
        low_half, high_half = self.registers.read("FINGERPRINT_LOW"), self.registers.read("FINGERPRINT_HIGH")
        fingerprint = f"{high_half:08x}{low_half:08x}"
        if fingerprint != config.fingerprint:
            raise OverlayError(
                f"{self.manifest.bitstream}: the hardware is of config {fingerprint}, the manifest says {config.name} "
                f"({config.fingerprint}): a wrong bitstream, or the manifest of another one; copy all three files again"
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
