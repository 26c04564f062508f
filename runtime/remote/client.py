"""The device behind ``pynq://HOST[:PORT]`` (or ``pynqs://`` for TLS): one that a ``tilewright serve`` elsewhere holds.

The connection is made when segments are allocated and ends when the last are released, so that the board is free
between runs. Writes are sent without waiting for their replies, which are read before the next request that needs one.
A fault and every other error that the server reports leave the connection as it is; a message cut short ends it.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import FileError, in_memory
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
from tilewright.runtime.remote import auth
from tilewright.runtime.remote.frames import Channel, ConnectionLost, FrameError, RemoteError, reason
from tilewright.runtime.remote.hosts import check_host
from tilewright.runtime.remote.server import DEFAULT_PORT, PROTOCOL

SCHEMES = ("pynq", "pynqs")
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_RETRY_SECONDS = 0.2
#: how the other side's close shows in a handshake, by how far the handshake was and whether data was on its way
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
WAIT_SECONDS = 90.0  #: longer than a client that fell silent keeps a device (``serve --idle``)
_PAYLOAD_LIMIT = 1 << 31
_PIECE_BYTES = 4 << 20  #: about how much one write request carries
_UNANSWERED = 64  #: most requests sent ahead of their replies


class ServerFull(RemoteError):
    """The server has as many connections as it takes."""


class RemoteDevice(Device):
    """The accelerator of another machine.

    ``token``: what the server was started with; by default from :func:`~tilewright.runtime.remote.auth.find_token`.
    ``ca``: a PEM file of certificates to trust with ``pynqs://`` (default: the system's). ``wait``: the most seconds
    to wait for a turn where another client has the device. The server is asked for its Config at once. Raises
    :class:`RemoteError`, :class:`DeviceError` if that is another than ``config``.
    """

    name: ClassVar[str] = "pynq"

    def __init__(
        self, config: Config, url: str, token: str | None = None, ca: str | Path | None = None,
        wait: float = WAIT_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__(config)
        instance("url", url, str, "text: pynq://HOST or pynq://HOST:PORT", error=RemoteError)
        instance("token", token, (str, type(None)), "text", error=RemoteError)
        self.url, self._patience = url, real("wait", wait, 0, of="seconds", error=RemoteError)
        self._tls, self._host, self._port = _parse(url)
        self._context = _trust(ca) if self._tls else None
        found = token if token is not None else auth.find_token()
        if found is None:
            raise auth.TokenError(
                f"{url}: needs the token that its tilewright serve printed, in {auth.TOKEN_VARIABLE} or --token-file"
            )
        self._token = found
        self._channel: Channel | None = None
        self._unanswered = 0
        self._live: set[int] = set()
        channel, welcome = self._greet("question")
        channel.close()
        self.device = str(welcome.get("device"))  #: what the server calls its device
        self.simulates = self.device != "pynq"
        self._together = "shares" in welcome  # earlier servers run one program at a time
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
            self._channel, welcome = self._greet("job")
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

    def _memory(self, allocation: Allocation, segment: int) -> NDArray[np.uint8]:
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
        if not self._together:
            return False
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
            reply.get("cores", 1), reply.get("interval"),  # servers of one core did not say
            reply.get("together") is True,
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

    # -- connecting --------------------------------------------------------------------------------------

    def _greet(self, purpose: str) -> tuple[Channel, dict[str, Any]]:
        """Connect, prove the token, have it proven. Returns the channel and the server's welcome.

        Waits where the server has as many connections as it takes, or where a job's device is another client's.
        """
        end = time.monotonic() + self._patience
        while True:
            try:
                return self._introduce(purpose, max(0.0, end - time.monotonic()))
            except ServerFull as full:
                if time.monotonic() >= end:
                    raise ServerFull(f"{full}; waited {self._patience:.0f} s") from full
                self.notice(f"waiting for a connection: {full}")
                time.sleep(min(_RETRY_SECONDS, max(0.0, end - time.monotonic())))

    def _introduce(self, purpose: str, patience: float) -> tuple[Channel, dict[str, Any]]:
        channel = Channel(self._connect(), self.url, payload_limit=_PAYLOAD_LIMIT)
        try:
            try:
                greeting, _ = channel.receive()
            except ConnectionLost as error:
                hint = "" if self._tls else "; does it use TLS? then write pynqs://"
                raise ConnectionLost(f"{error} before it greeted{hint}") from error
            if greeting.get("error") == "full":
                raise ServerFull(f"{self}: {greeting.get('message')}")
            if greeting.get("tilewright") != PROTOCOL:
                raise RemoteError(
                    f"{self}: speaks protocol {greeting.get('tilewright')!r}, this Tilewright {PROTOCOL}; "
                    f"install the same version on both"
                )
            theirs, mine = str(greeting.get("nonce")), auth.new_nonce()
            channel.send({"nonce": mine, "purpose": purpose, "wait": patience,
                          "proof": auth.proof(self._token, "client", theirs, mine)})  # fmt: skip
            welcome = self._welcome(channel, patience)
            if welcome.get("error") == "full":
                raise ServerFull(f"{self}: {welcome.get('message')}")
            if "error" in welcome:
                raise RemoteError(f"{self}: {welcome.get('message')}")
            if not auth.proven(welcome.get("proof"), self._token, "server", theirs, mine):
                raise RemoteError(f"{self}: the server does not know the token; is it the right machine?")
        except BaseException:
            channel.close()
            raise
        return channel, welcome

    def _welcome(self, channel: Channel, patience: float) -> dict[str, Any]:
        """The server's welcome, or its error, after the notices that it sends while another client has the device.

        The server keeps the bound on the waiting; a server that does not is left a little later.
        """
        end = time.monotonic() + patience + _CONNECT_SECONDS
        while True:
            welcome, _ = channel.receive()
            if "waiting" not in welcome:
                return welcome
            self.notice(f"waiting for the device: {welcome['waiting']}")
            if time.monotonic() > end:
                raise RemoteError(f"{self}: the device is taken: {welcome['waiting']}; waited {patience:.0f} s")

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection((self._host, self._port), timeout=_CONNECT_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._context is not None:
                return self._context.wrap_socket(connection, server_hostname=self._host)
            return connection
        except _HUNG_UP as error:  # in the handshake: what a full server does with TLS
            raise ServerFull(f"{self}: hung up; it may have all the connections that it takes") from error
        except OSError as error:
            raise RemoteError(
                f"{self}: no connection to {self._host} port {self._port}: {reason(error)}; "
                f"is tilewright serve running there{', with TLS' if self._tls else ''}?"
            ) from error


def _parse(url: str) -> tuple[bool, str, int]:
    """(TLS, host, port) of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else DEFAULT_PORT
    except ValueError as error:
        raise RemoteError(f"{url}: {error}; write pynq://HOST or pynq://HOST:PORT") from error
    if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise RemoteError(f"{url}: not a device's address; write pynq://HOST or pynq://HOST:PORT (pynqs: with TLS)")
    return parts.scheme == "pynqs", check_host(parts.hostname, url), port


def _trust(ca: str | Path | None) -> ssl.SSLContext:
    try:
        with nullcontext() if ca is None else in_memory(ca) as file:
            return ssl.create_default_context(cafile=file)
    except FileError as error:
        raise RemoteError(f"not usable as trusted certificates: {error}") from error
    except (OSError, ssl.SSLError) as error:
        raise RemoteError(f"{ca}: not usable as trusted certificates: {reason(error)}") from error


def _config(welcome: dict[str, Any], url: str) -> Config:
    values = welcome.get("config")
    if not isinstance(values, dict):
        raise FrameError(f"{url}: sent no Config")
    return Config.from_dict(values)
