"""The device behind ``pynq://HOST[:PORT]``: one that a ``tilewright serve`` elsewhere holds.

The connection is made when segments are allocated and ends when the last are released, so that the board is free
between runs. Writes are sent without waiting for their replies, which are read before the next request that needs one.
A fault and every other error that the server reports leave the connection as it is; a message cut short ends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.container import dump as dump_program
from tilewright.isa.program import Program
from tilewright.kinds import instance
from tilewright.progress import Advance
from tilewright.ranges import real
from tilewright.runtime.device_base import (
    Allocation,
    Counters,
    Device,
    DeviceError,
    DeviceFault,
    Events,
    bytes_of,
    has_shared,
)
from tilewright.runtime.remote.frames import Channel, FrameError, RemoteError
from tilewright.runtime.remote.greeting import Address

_ANSWER_SECONDS = 60.0
WAIT_SECONDS = 90.0  #: longer than a client that fell silent keeps a device (``serve --idle``)
_PIECE_BYTES = 4 << 20  #: about how much one write request carries
_UNANSWERED = 64  #: most requests sent ahead of their replies


class RemoteDevice(Device):
    """The accelerator of another machine.

    ``wait``: the most seconds to wait for a turn where another client has the device. The server is asked for its
    Config at once. Raises :class:`RemoteError`, :class:`DeviceError` if that is another than ``config``.
    """

    name: ClassVar[str] = "pynq"

    def __init__(self, config: Config, url: str, wait: float = WAIT_SECONDS) -> None:
        super().__init__(config)
        instance("url", url, str, "text: pynq://HOST or pynq://HOST:PORT", error=RemoteError)
        self.url, self._patience = url, real("wait", wait, 0, of="seconds", error=RemoteError)
        self._address = Address.at(url)
        self._channel: Channel | None = None
        self._unanswered = 0
        self._live: set[int] = set()
        channel, welcome = self._address.greet("question", self._patience, self.notice)
        channel.close()
        self.device = str(welcome.get("device"))  #: what the server calls its device
        self.simulates = self.device != "pynq"
        self.shares = welcome.get("shares") is True
        served = _config(welcome, url)
        if served.fingerprint != config.fingerprint:
            raise DeviceError(
                f"{self}: is of config {served.name}, the program of {config.name} "
                f"({'; '.join(config.differences(served))}); compile the model for {served.name}"
            )

    def __str__(self) -> str:
        return self.url

    @property
    def label(self) -> str:
        """The address and the device behind it."""
        return f"{self.url} ({self.device})"

    # -- segments ----------------------------------------------------------------------------------------

    def _allocate(self, program: Program, inferences: int) -> int:
        if self._channel is None:
            self._channel, welcome = self._address.greet("job", self._patience, self.notice)
            self._max_request = int(welcome["max_request"])
        container = dump_program(program)
        digest = hashlib.sha256(container).hexdigest()
        try:
            if not self._ask({"do": "have", "program": digest})[0]["have"]:
                if len(container) > self._max_request:
                    raise RemoteError(
                        f"{self}: the program has {len(container)} bytes, the server takes {self._max_request} in one "
                        f"request (serve --max-request)"
                    )
                self._ask({"do": "program"}, container)
            reply, _ = self._ask({"do": "allocate", "program": digest, "inferences": inferences})
        except DeviceError:
            self._leave_if_idle()
            raise
        handle = int(reply["handle"])
        self._live.add(handle)
        return handle

    def _release(self, allocation: Allocation) -> None:
        """Free the segments; with the last, the board is free for others."""
        if allocation.state not in self._live:
            return  # freed by the server when the connection was lost
        self._live.discard(allocation.state)
        self._ask({"do": "release", "handle": allocation.state})
        self._leave_if_idle()

    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        raise DeviceError(f"{self}: its segments are not in this machine's memory")

    def write(self, allocation: Allocation, segment: int, inference: int, offset: int, data: NDArray[np.uint8]) -> None:
        """Send bytes of one inference's segment."""
        self._send_rows(allocation, segment, inference, offset, bytes_of(data).reshape(1, -1))

    def write_stack(self, allocation: Allocation, segment: int, offset: int, data: NDArray[np.uint8]) -> None:
        """Send row k of ``data``, (N, size), for inference k."""
        self._send_rows(allocation, segment, 0, offset, bytes_of(data).reshape(len(data), -1))

    def _send_rows(
        self, allocation: Allocation, segment: int, first: int, offset: int, rows: NDArray[np.uint8]
    ) -> None:
        most = min(_PIECE_BYTES, self._max_request)
        columns = min(rows.shape[1], self._max_request)
        step = max(1, most // max(columns, 1))
        for begin in range(0, len(rows), step):
            for left in range(0, rows.shape[1], columns):
                piece = np.ascontiguousarray(rows[begin : begin + step, left : left + columns])
                self._post({"do": "write", "handle": allocation.state, "segment": segment, "first": first + begin,
                            "rows": len(piece), "offset": offset + left}, piece.tobytes())  # fmt: skip

    def read(self, allocation: Allocation, segment: int, inference: int, offset: int, size: int) -> NDArray[np.uint8]:
        """Bytes of one inference's segment."""
        return self._fetch_rows(allocation, segment, inference, 1, offset, size)[0]

    def read_stack(
        self, allocation: Allocation, segment: int, inferences: int, offset: int, size: int
    ) -> NDArray[np.uint8]:
        """(inferences, size): the same bytes of each inference's segment, in one request."""
        return self._fetch_rows(allocation, segment, 0, inferences, offset, size)

    def _fetch_rows(
        self, allocation: Allocation, segment: int, first: int, rows: int, offset: int, size: int
    ) -> NDArray[np.uint8]:
        _, data = self._ask({"do": "read", "handle": allocation.state, "segment": segment, "first": first,
                             "rows": rows, "offset": offset, "size": size})  # fmt: skip
        if len(data) != rows * size:
            self._disconnect()
            raise FrameError(f"{self}: sent {len(data)} bytes where {rows * size} were asked for")
        return np.frombuffer(data, np.uint8).reshape(rows, size)

    # -- running -----------------------------------------------------------------------------------------

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Sent ahead like a write: an error appears in :meth:`wait`."""
        self._post({"do": "launch", "handle": allocation.state, "inferences": inferences})

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """The server reports every inference that has finished."""
        self._ask({"do": "wait", "handle": allocation.state}, progress=progress, patient=True)

    def share(self, allocations: Sequence[Allocation]) -> None:
        """The server verifies the programs together, and lets them share memory on its device."""
        if not any(has_shared(allocation.program) for allocation in allocations):
            return
        if not self.shares:
            super().share(allocations)  # refuses
        self._ask({"do": "share", "handles": [allocation.state for allocation in allocations]}, patient=True)

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        """On the cores of the server's device, if it has so many; there it is seen to that all come to an end."""
        handles = [allocation.state for allocation in allocations]
        self._ask({"do": "together", "handles": handles, "inferences": inferences}, patient=True)
        return True

    def _counters(self, allocation: Allocation) -> Counters:
        """What the board counted, with its events if its device has them."""
        reply, data = self._ask({"do": "counters", "handle": allocation.state})
        events = None
        if reply["events"]:
            dispatch, issue, retire = np.frombuffer(data, "<i8").astype(np.int64).reshape(3, -1)
            events = Events(dispatch, issue, retire)
        return Counters(
            reply["cycles"], reply["read_bytes"], reply["write_bytes"], dict(reply["stalls"]), events,
            reply["cores"], reply["interval"], reply["together"] is True,
        )  # fmt: skip

    # -- talking -----------------------------------------------------------------------------------------

    def _post(self, request: dict[str, Any], payload: bytes = b"") -> None:
        """Send a request whose reply is read later."""
        with self._unbroken():
            earlier = self._catch_up() if self._unanswered >= _UNANSWERED else None
            if earlier is None:
                self._send(request, payload)
                self._unanswered += 1
        if earlier is not None:
            raise earlier

    def _ask(
        self, request: dict[str, Any], payload: bytes = b"", progress: Advance | None = None, patient: bool = False
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a request and return its reply; an error of a request sent before it is raised instead."""
        with self._unbroken():
            self._send(request, payload)
            error = self._catch_up(patient)
            reply, data = self._reply(None if error else progress)
        if error := error or self._error(reply):
            raise error
        return reply, data

    @contextmanager
    def _unbroken(self) -> Iterator[None]:
        """Give the connection up if what is done ends in the middle of a message: what would come next is not known."""
        try:
            yield
        except BaseException:
            self._disconnect()
            raise

    def _send(self, request: dict[str, Any], payload: bytes) -> None:
        self._connected().send(request, payload)

    def _catch_up(self, patient: bool = False) -> TilewrightError | None:
        """Read the replies still due; the first error among them."""
        first: TilewrightError | None = None
        self._connected().connection.settimeout(None if patient else _ANSWER_SECONDS)
        while self._unanswered:
            reply, _ = self._reply()
            self._unanswered -= 1
            first = first or self._error(reply)
        return first

    def _reply(self, progress: Advance | None = None) -> tuple[dict[str, Any], bytearray]:
        """The next reply; progress before it is passed on. Raises :class:`RemoteError` if it ends the session."""
        while True:
            reply, data = self._connected().receive()
            if reply.get("error") in ("request", "internal"):
                raise RemoteError(f"{self}: {reply.get('message')}; the server's log says more")
            if "progress" not in reply:
                return reply, data
            if progress is not None:
                progress(int(reply["progress"]))

    def _error(self, reply: dict[str, Any]) -> TilewrightError | None:
        """The error that a reply reports, if it does; the session goes on."""
        kind = reply.get("error")
        if kind == "fault":
            return DeviceFault(
                str(self), str(reply["code"]), reply["instruction"], reply["layer"], str(reply["detail"])
            )
        return None if kind is None else DeviceError(f"{self}: {reply['message']}")

    def _connected(self) -> Channel:
        if self._channel is None:
            raise RemoteError(f"{self}: the connection was lost, the segments with it; run again")
        return self._channel

    def _disconnect(self) -> None:
        """End the connection without a word; the server frees the segments."""
        if self._channel is not None:
            self._channel.close()
        self._channel, self._unanswered = None, 0
        self._live.clear()

    def _leave_if_idle(self) -> None:
        if self._live or self._channel is None:
            return
        self._ask({"do": "bye"})
        self._channel.close()
        self._channel = None


def _config(welcome: dict[str, Any], url: str) -> Config:
    values = welcome.get("config")
    if not isinstance(values, dict):
        raise FrameError(f"{url}: sent no Config")
    return Config.from_dict(values)
