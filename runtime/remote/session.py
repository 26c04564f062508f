"""One client's session on the server: requests in, replies out, one after another, on a device it has for itself.

Every request has the form ``{"do": NAME, ...}`` and gets one reply, ``{"ok": true, ...}`` or ``{"error": KIND,
"message": TEXT, ...}``; ``wait`` sends ``{"progress": N}`` before its reply. Whatever ends the session, its segments
are released.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.isa.container import load as load_program
from tilewright.isa.program import Program
from tilewright.isa.spec import MOST_CORES
from tilewright.isa.verifier import verify, verify_together
from tilewright.progress import Advance
from tilewright.runtime.device_base import Allocation, Device, DeviceError, DeviceFault, has_shared
from tilewright.runtime.records import check_meta
from tilewright.runtime.remote.frames import Channel, ConnectionLost

KEPT_PROGRAMS = 4  #: programs the server keeps verified, so that a client need not send them again
_MOST_INFERENCES = 1 << 16
_EVENT_FIELDS = ("dispatch", "issue", "retire")


class RequestError(DeviceError):
    """A request lacks a field, names something that is not there, or asks for more than the server gives."""


class Programs:
    """Verified programs by the SHA-256 of their container, the last few of them."""

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._kept: OrderedDict[str, Program] = OrderedDict()

    def get(self, digest: str) -> Program | None:
        """The program, if it is kept."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
        return self._kept.get(digest)

    def add(self, container: bytes) -> str:
        """Parse and verify a container; returns its digest. Raises :class:`TilewrightError` if it is not legal.

        A program of several that share memory is verified with those others, once it is known which.
        """
        digest = hashlib.sha256(container).hexdigest()
        program = load_program(container, "the program sent", most_bytes=self._memory_limit)
        check_memory([(program, 1)], self._memory_limit)
        if not has_shared(program):
            verify(program)
        check_meta(program, "the program sent")
        self._kept[digest] = program
        while len(self._kept) > KEPT_PROGRAMS:
            self._kept.popitem(last=False)
        return digest


class Session:
    """Serves one client until it leaves. ``memory_limit`` bounds the bytes of all its segments."""

    def __init__(self, channel: Channel, device: Device, programs: Programs, memory_limit: int) -> None:
        self._channel, self._device, self._programs, self._memory_limit = channel, device, programs, memory_limit
        self._allocations: dict[int, Allocation] = {}
        self._groups: set[tuple[int, ...]] = set()  #: allocations that share memory, verified together
        self._next_handle = 1
        self._requests: dict[str, Callable[[dict[str, Any], bytearray], tuple[dict[str, Any], bytes]]] = {
            "have": self._have, "program": self._program, "allocate": self._allocate, "write": self._write,
            "launch": self._launch, "wait": self._wait, "read": self._read, "counters": self._counters,
            "release": self._release, "share": self._share, "together": self._together,
        }  # fmt: skip

    def serve(self) -> None:
        """Answer requests until the client says goodbye. Raises :class:`RemoteError` if it goes without."""
        try:
            while True:
                request, payload = self._channel.receive()
                if request.get("do") == "bye":
                    return
                try:
                    reply, data = self._answer(request, payload)
                except ConnectionLost:
                    raise
                except TilewrightError as error:
                    reply, data = error_reply(error), b""
                self._channel.send(reply, data)
        finally:
            for allocation in self._allocations.values():
                self._device.release(allocation)
            self._allocations.clear()

    def _answer(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        handler = self._requests.get(str(request.get("do")))
        if handler is None:
            raise RequestError(f"request {request.get('do')!r} is not known; are both sides of one version?")
        reply, data = handler(request, payload)
        return {"ok": True, **reply}, data

    # -- requests ----------------------------------------------------------------------------------------

    def _have(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        return {"have": self._programs.get(_text(request, "program")) is not None}, b""

    def _program(self, _: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        return {"program": self._programs.add(bytes(payload))}, b""

    def _allocate(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        program = self._programs.get(_text(request, "program"))
        if program is None:
            raise RequestError("the program is not here any more; send it again")
        inferences = _number(request, "inferences", 1, _MOST_INFERENCES)
        held = [(a.program, a.inferences) for a in self._allocations.values()]
        check_memory([*held, (program, inferences)], self._memory_limit)
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._allocations[handle] = self._device.allocate(program, inferences)
        return {"handle": handle}, b""

    def _write(self, request: dict[str, Any], payload: bytearray) -> tuple[dict[str, Any], bytes]:
        rows = _number(request, "rows", 1, _MOST_INFERENCES)
        if len(payload) % rows:
            raise RequestError(f"{len(payload)} bytes do not make {rows} rows")
        data = np.frombuffer(payload, np.uint8).reshape(rows, -1)
        allocation, segment, offset = self._place(request)
        first = _number(request, "first", 0, _MOST_INFERENCES)
        for k, row in enumerate(data):
            self._device.write(allocation, segment, first + k, offset, row)
        return {}, b""

    def _read(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        allocation, segment, offset = self._place(request)
        first, rows = _number(request, "first", 0, _MOST_INFERENCES), _number(request, "rows", 1, _MOST_INFERENCES)
        size = _number(request, "size", 0, self._memory_limit)
        if rows > allocation.inferences - first or rows * size > self._memory_limit:
            raise RequestError(f"{rows} x {size} bytes from inference {first} on lie outside what is allocated")
        pieces = [self._device.read(allocation, segment, first + k, offset, size) for k in range(rows)]
        return {}, b"".join(piece.tobytes() for piece in pieces)

    def _launch(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        self._device.launch(self._allocation(request), _number(request, "inferences", 1, _MOST_INFERENCES))
        return {}, b""

    def _wait(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        self._to_its_end(lambda progress: self._device.wait(self._allocation(request), progress))
        return {}, b""

    def _share(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        handles, allocations = self._several(request)
        if taken := {handle for group in self._groups for handle in group} & set(handles):
            raise RequestError(f"share: allocation {min(taken)} shares memory already")
        verify_together([allocation.program for allocation in allocations])
        self._device.share(allocations)
        self._groups.add(handles)
        return {}, b""

    def _together(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        handles, allocations = self._several(request)
        inferences = _number(request, "inferences", 1, _MOST_INFERENCES)
        if handles not in self._groups and any(has_shared(allocation.program) for allocation in allocations):
            raise RequestError("together: programs that share memory run with those that they share it with")
        self._to_its_end(lambda progress: self._device.run_together(allocations, inferences, progress))
        return {}, b""

    def _several(self, request: dict[str, Any]) -> tuple[tuple[int, ...], list[Allocation]]:
        """Different allocations, in the order of their cores."""
        handles = request.get("handles")
        if not isinstance(handles, list) or not 0 < len(handles) <= MOST_CORES:
            raise RequestError(f"{request.get('do')}: handles: must be a list of 1 to {MOST_CORES} allocations")
        allocations = [self._allocation({**request, "handle": handle}) for handle in handles]
        if len(set(handles)) < len(handles):
            raise RequestError(f"{request.get('do')}: handles: an allocation is there twice")
        return tuple(handles), allocations

    def _to_its_end(self, run: Callable[[Advance], None]) -> None:
        """Let the device run, and tell the client how far it is."""
        lost: list[ConnectionLost] = []

        def progress(finished: int) -> None:
            # a client that has gone must not leave the device in the middle of a launch
            if not lost:
                try:
                    self._channel.send({"progress": finished})
                except ConnectionLost as error:
                    lost.append(error)

        run(progress)
        if lost:
            raise lost[0]

    def _counters(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        counters = self._device.counters(self._allocation(request))
        reply = {"cycles": int(counters.cycles), "read_bytes": int(counters.read_bytes),
                 "write_bytes": int(counters.write_bytes), "cores": int(counters.cores),
                 "interval": None if counters.interval is None else float(counters.interval),
                 "stalls": {name: int(cycles) for name, cycles in counters.stalls.items()},
                 "events": counters.events is not None, "together": counters.together}  # fmt: skip
        if counters.events is None:
            return reply, b""
        arrays = [np.asarray(getattr(counters.events, name), "<i8") for name in _EVENT_FIELDS]
        return reply, b"".join(array.tobytes() for array in arrays)

    def _release(self, request: dict[str, Any], _: bytearray) -> tuple[dict[str, Any], bytes]:
        allocation = self._allocation(request)
        del self._allocations[request["handle"]]
        self._device.release(allocation)
        return {}, b""

    def _allocation(self, request: dict[str, Any]) -> Allocation:
        handle = _number(request, "handle", 0, self._next_handle)
        if handle not in self._allocations:
            raise RequestError(f"there is no allocation {handle}")
        return self._allocations[handle]

    def _place(self, request: dict[str, Any]) -> tuple[Allocation, int, int]:
        allocation = self._allocation(request)
        segment = _number(request, "segment", 0, len(allocation.program.segments) - 1)
        return allocation, segment, _number(request, "offset", 0, self._memory_limit)


def error_reply(error: Exception, kind: str = "device") -> dict[str, Any]:
    """The reply that reports an error; a fault keeps its code, instruction and layer."""
    if isinstance(error, DeviceFault):
        return {"error": "fault", "message": str(error), "code": error.code, "instruction": error.instruction,
                "layer": error.layer, "detail": error.detail}  # fmt: skip
    return {"error": kind, "message": str(error)}


def check_memory(wanted: Sequence[tuple[Program, int]], limit: int) -> None:
    """Raise :class:`RequestError` if the segments of programs, for so many inferences each, exceed ``limit``."""
    size = sum(s.size + (n - 1) * s.repeat_stride for program, n in wanted for s in program.segments)
    if size > limit:
        raise RequestError(f"{size} bytes of segments asked for, the server gives {limit} (serve --max-memory)")


def _number(request: dict[str, Any], name: str, low: int, high: int) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{request.get('do')}: {name} = {value!r}: must be an integer from {low} to {high}")
    return value


def _text(request: dict[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise RequestError(f"{request.get('do')}: {name} = {value!r}: must be text")
    return value
