"""Artifacts that another runtime holds as bytes, such as the accelerator parts of a TVM library."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilewright.config import Config
    from tilewright.runtime.device_base import Device
    from tilewright.runtime.executable import Executable
    from tilewright.runtime.report.report import Report

_LIMIT = 16  #: artifacts kept ready to run
_loaded: OrderedDict[tuple[str, str], Executable] = OrderedDict()
_opened: dict[tuple[str, Config], Device] = {}  #: by name, and the Config with its clock and cores
_chosen: list[tuple[object, str | Device | None]] = [(None, None)]  #: who chose what; the last is in force
_listening: list[list[Report]] = []
_CHANGING = threading.Lock()  #: held by the thread that changes one of these


@contextmanager
def use_device(device: str | Device) -> Iterator[None]:
    """Inside, regions run on ``device`` (a name or an open device), whatever they were compiled for, in all threads.

    Raises :class:`DeviceError` for a name that is none.
    """
    from tilewright.runtime.device import Device, check_device

    if not isinstance(device, Device):
        check_device(device)
    who = object()
    with _CHANGING:
        _chosen.append((who, device))
    try:
        yield
    finally:
        with _CHANGING:  # threads need not leave in the order in which they came
            _chosen.remove((who, device))


@contextmanager
def collect_reports() -> Iterator[list[Report]]:
    """Gives a list that the report of every region that runs inside is appended to, in order."""
    reports: list[Report] = []
    with _CHANGING:
        _listening.append(reports)
    try:
        yield reports
    finally:
        with _CHANGING:
            del _listening[next(i for i, kept in enumerate(_listening) if kept is reports)]


def run_bytes(artifact: bytes, inputs: list[NDArray[Any]], device: str = "sim") -> list[NDArray[Any]]:
    """Run an artifact held as bytes (the content of a ``.twa`` file) once.

    ``inputs``: arrays of the tensors' own shapes (batch of 1 included, or as many images), in order. Returns the
    outputs likewise.
    ``device``: what runs it, unless :func:`use_device` says otherwise. Loaded artifacts are kept by hash, so that
    repeated calls do not parse and verify again; artifacts of one Config share a device.
    """
    from tilewright.runtime.executable import element_shape

    executable = _executable(artifact, _chosen[-1][1] or device)
    stacked = [
        x.reshape(1, *element_shape(t)) if x.shape == t.shape else x for x, t in zip(inputs, executable.inputs)
    ] + inputs[len(executable.inputs) :]
    outputs, report = executable.run(stacked)
    with _CHANGING:
        for reports in _listening:
            reports.append(report)
    several = outputs if isinstance(outputs, list) else [outputs]
    return [y.reshape(-1, *t.shape[1:]) if t.shape else y.reshape(()) for y, t in zip(several, executable.outputs)]


def _executable(artifact: bytes, device: str | Device) -> Executable:
    from tilewright.runtime.artifact import Artifact
    from tilewright.runtime.device import open_device
    from tilewright.runtime.executable import Executable

    digest = hashlib.sha256(artifact).hexdigest()
    if not isinstance(device, str):  # the caller's own, and kept no longer than he does
        return Executable(Artifact.from_bytes(artifact), device)
    with _CHANGING:
        if (digest, device) not in _loaded:
            parsed = Artifact.from_bytes(artifact)
            own = device, parsed.config
            if own not in _opened:
                _opened[own] = open_device(device, parsed.config)
            _loaded[digest, device] = Executable(parsed, _opened[own])
            while len(_loaded) > _LIMIT:
                _loaded.popitem(last=False)
        _loaded.move_to_end((digest, device))
        return _loaded[digest, device]
