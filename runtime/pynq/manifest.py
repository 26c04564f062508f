"""The manifest beside a bitstream: which Config it holds and where the accelerator is in it (``docs/boards.md``)."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import read_bytes
from tilewright.runtime.device_base import DeviceError
from tilewright.schema import read_json

MANIFEST_FORMAT = 1
OVERLAY_VARIABLE = "TILEWRIGHT_OVERLAY"  #: environment variable that names the overlay where no option does
DEFAULT_IP = "tilewright_0"


class OverlayError(DeviceError):
    """An overlay is missing, incomplete, or not what its manifest says; names the file and the way out."""


@dataclass(frozen=True)
class Manifest:
    """An overlay: the bitstream's path, its Config, the accelerator's cell and interrupt pin in the block design.

    ``clock_mhz``: the clock that the build has achieved; None: the config's. In the file ``format`` is 1, ``config``
    has every parameter, as an artifact has, and ``fingerprint`` is the Config's, 16 hex digits, as in the registers.
    Where ``bitstream_sha256`` is there, a bitstream that differs is refused. ``ip`` and ``interrupt`` may be missing;
    further keys are ignored.
    """

    bitstream: Path
    config: Config
    ip: str = DEFAULT_IP
    interrupt: str = f"{DEFAULT_IP}/irq"
    clock_mhz: float | None = None


def find_overlay(overlay: str | Path | None, config: Config | None) -> Manifest:
    """The manifest of ``overlay``, or of what ``TILEWRIGHT_OVERLAY`` names.

    ``overlay``: a ``.bit`` file, or a folder, of which the overlay of ``config`` is taken. Raises
    :class:`OverlayError` where there is none, and where it is of another config.
    """
    given = overlay if overlay is not None else os.environ.get(OVERLAY_VARIABLE)
    if not given:
        raise OverlayError(
            f"pynq device: no overlay is given; name a .bit file, or a folder of them, by the overlay option or in "
            f"{OVERLAY_VARIABLE}"
        )
    path = Path(given)
    if path.is_dir():
        return _from_folder(path, config)
    manifest = read_manifest(path)
    if config is not None and manifest.config.fingerprint != config.fingerprint:
        differing = "; ".join(config.differences(manifest.config))
        raise OverlayError(
            f"{path}: this overlay is of config {manifest.config.name}, {config.name} is wanted ({differing}); "
            f"compile the model for {manifest.config.name} or use another overlay"
        )
    return manifest


def _from_folder(folder: Path, config: Config | None) -> Manifest:
    manifests = [read_manifest(path) for path in sorted(folder.glob("*.bit"))]
    fitting = [m for m in manifests if config is None or m.config.fingerprint == config.fingerprint]
    names = ", ".join(f"{m.bitstream.name} ({m.config.name})" for m in manifests) or "none"
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise OverlayError(f"{folder}: holds several overlays that fit: {names}; name one of them")
    wanted = "" if config is None else f" of config {config.name} ({config.fingerprint})"
    raise OverlayError(f"{folder}: holds no overlay{wanted}; overlays there: {names}")


def read_manifest(bitstream: Path) -> Manifest:
    """The manifest of a ``.bit`` file. Raises :class:`OverlayError` unless its three files are there and fit."""
    if bitstream.suffix != ".bit":
        raise OverlayError(f"{bitstream}: an overlay is named by its .bit file")
    for path, what in (
        (bitstream, "there is no such bitstream; build it or copy it to the board"),
        (bitstream.with_suffix(".hwh"), "the block design must lie beside the bitstream; copy it to the board too"),
        (bitstream.with_suffix(".json"), "the manifest must lie beside the bitstream; copy it to the board too"),
    ):
        if not path.is_file():
            raise OverlayError(f"{path}: {what}")
    source = bitstream.with_suffix(".json")
    try:
        values = read_json(read_bytes(source))
    except ValueError as error:
        raise OverlayError(f"{source}: not valid JSON: {error}; build the overlay again") from error
    manifest = _parse(values, bitstream, source)
    digest = values.get("bitstream_sha256")
    if digest is not None and digest != hashlib.sha256(read_bytes(bitstream)).hexdigest():
        raise OverlayError(f"{bitstream}: its checksum is not the manifest's; copy all three files again")
    return manifest


def _parse(values: Any, bitstream: Path, source: Path) -> Manifest:
    if not isinstance(values, dict) or values.get("format") != MANIFEST_FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise OverlayError(
            f"{source}: manifest format {found}, this version of Tilewright reads {MANIFEST_FORMAT}; "
            "build the overlay again"
        )
    parameters, fingerprint = values.get("config"), values.get("fingerprint")
    if not isinstance(parameters, dict) or not isinstance(fingerprint, str):
        raise OverlayError(f"{source}: config and fingerprint are missing; build the overlay again")
    try:
        config = Config.from_dict(parameters)
    except (TilewrightError, TypeError) as error:
        raise OverlayError(f"{source}: config: {error}") from error
    if config.fingerprint != fingerprint:
        raise OverlayError(
            f"{source}: fingerprint {fingerprint} is not that of its config, {config.fingerprint}: made by another "
            "version of Tilewright, or edited; build the overlay again"
        )
    ip = str(values.get("ip", DEFAULT_IP))
    clock = values.get("clock_mhz")
    if clock is not None and not isinstance(clock, int | float):
        raise OverlayError(f"{source}: clock_mhz is {clock!r}, not a number; build the overlay again")
    return Manifest(bitstream, config, ip, str(values.get("interrupt", f"{ip}/irq")), clock)
