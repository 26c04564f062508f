"""Framing: one message is a JSON object and a run of bytes, both of bounded length.

Layout, little-endian: magic ``b"TWR1"``, u32 length of the JSON text, u64 length of the payload, the text, the payload.

Considered instead: ``multiprocessing.connection`` frames bytes, but has no limit on how long a read may take, and a
server needs one; HTTP would carry single requests, but a client holds the device
for a whole connection and hears of progress while a request is answered, so these messages would be framed inside it
all the same; gRPC and ZeroMQ are not in the standard library, and a board has nothing else.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any

from tilewright.runtime.device_base import DeviceError
from tilewright.schema import read_json

MAGIC = b"TWR1"
PREFIX = struct.Struct("<4sIQ")
HEADER_LIMIT = 1 << 20  #: most bytes of a message's JSON text
SLOWEST = 1 << 18  #: bytes a second that a peer with a deadline must keep up, on the average since its message is due
_PIECE = 1 << 20


class RemoteError(DeviceError):
    """A connection cannot be made, is lost, or is spoken on wrongly; names the host and the way out."""


class ConnectionLost(RemoteError):
    """The other side has closed the connection, or nothing came in time."""


class FrameError(RemoteError):
    """The bytes received are no message of this protocol, or one that is larger than allowed."""


class Channel:
    """Messages over a connected socket; ``peer`` names the other side in errors.

    ``payload_limit`` bounds what is accepted: a longer message is refused before any of it is read. ``seconds`` bounds
    the time of each message, from when it is awaited or sent to its last byte, but for what :data:`SLOWEST` allows its
    bytes: single bytes now and then do not extend it. Without it the connection's own timeout holds for each read.
    """

    def __init__(
        self, connection: socket.socket, peer: str, payload_limit: int, header_limit: int = HEADER_LIMIT,
        seconds: float | None = None,
    ) -> None:  # fmt: skip
        self.connection, self.peer, self.seconds = connection, peer, seconds
        self.payload_limit, self.header_limit = payload_limit, header_limit
        self._due = math.inf  #: when the message that is being received must be there

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Send one message. Raises :class:`ConnectionLost`."""
        text = json.dumps(header, separators=(",", ":")).encode()
        try:
            if self.seconds is not None:  # the timeout is that of the whole sendall
                self.connection.settimeout(self.seconds + len(payload) / SLOWEST)
            self.connection.sendall(PREFIX.pack(MAGIC, len(text), len(payload)) + text)
            if payload:
                self.connection.sendall(payload)
        except OSError as error:
            raise ConnectionLost(f"{self.peer}: the connection is lost: {reason(error)}") from error

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        """The next message. Raises :class:`ConnectionLost`, :class:`FrameError`."""
        if self.seconds is not None:
            self._due = time.monotonic() + self.seconds
        magic, text_length, payload_length = PREFIX.unpack(self._exactly(PREFIX.size))
        if magic != MAGIC:
            raise FrameError(f"{self.peer}: speaks another protocol; is it tilewright serve?")
        if text_length > self.header_limit or payload_length > self.payload_limit:
            raise FrameError(
                f"{self.peer}: a message of {text_length} + {payload_length} bytes, at most {self.header_limit} + "
                f"{self.payload_limit} are accepted"
            )
        try:
            header = read_json(bytes(self._exactly(text_length)))
        except (ValueError, RecursionError) as error:
            raise FrameError(f"{self.peer}: a message is not valid JSON") from error
        if not isinstance(header, dict):
            raise FrameError(f"{self.peer}: a message is not a JSON object")
        return header, self._exactly(payload_length)

    def _exactly(self, size: int) -> bytearray:
        """``size`` bytes. Memory grows with what arrives, not with what was announced."""
        received = bytearray()
        while len(received) < size:
            try:
                piece = self._recv(min(_PIECE, size - len(received)))
            except TimeoutError as error:
                seconds = self.connection.gettimeout() if self.seconds is None else self.seconds
                raise ConnectionLost(f"{self.peer}: no whole message came in {seconds:g} s") from error
            except OSError as error:
                raise ConnectionLost(f"{self.peer}: the connection is lost: {reason(error)}") from error
            if not piece:
                raise ConnectionLost(f"{self.peer}: closed the connection")
            received += piece
        return received

    def _recv(self, size: int) -> bytes:
        if self.seconds is None:
            return self.connection.recv(size)
        left = self._due - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        piece = self.connection.recv(size)
        self._due += len(piece) / SLOWEST
        return piece

    def close(self) -> None:
        """Close the socket; the other side sees the end of the stream."""
        self.connection.close()


def reason(error: OSError) -> str:
    """The plain words of an operating system's error."""
    return (error.strerror or str(error)).lower()
