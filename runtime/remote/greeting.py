"""How a client reaches a ``tilewright serve``: its address, the greeting, the waiting."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tilewright.runtime.remote.frames import Channel, RemoteError, reason
from tilewright.runtime.remote.hosts import check_host
from tilewright.runtime.remote.server import DEFAULT_PORT, PROTOCOL

SCHEME = "pynq"
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 0.2
_PAYLOAD_LIMIT = 1 << 31


class ServerFull(RemoteError):
    """The server has as many connections as it takes."""


@dataclass(frozen=True)
class Address:
    """Where a server is."""

    url: str
    host: str
    port: int

    @classmethod
    def at(cls, url: str) -> Address:
        """The server of a URL. Raises :class:`RemoteError`."""
        return cls(url, *_parse(url))

    def __str__(self) -> str:
        return self.url

    def greet(self, purpose: str, patience: float, notice: Callable[[str], None]) -> tuple[Channel, dict[str, Any]]:
        """Connect, and say what for. Returns the channel and the server's welcome.

        Waits for at most ``patience`` seconds where the server has as many connections as it takes, or where a job's
        device is another client's, and tells ``notice`` what it waits for. Raises :class:`RemoteError`.
        """
        end = time.monotonic() + patience
        while True:
            try:
                return self._introduce(purpose, max(0.0, end - time.monotonic()), notice)
            except ServerFull as full:
                if time.monotonic() >= end:
                    raise ServerFull(f"{full}; waited {patience:.0f} s") from full
                notice(f"waiting for a connection: {full}")
                time.sleep(min(_RETRY_SECONDS, max(0.0, end - time.monotonic())))

    def _introduce(
        self, purpose: str, patience: float, notice: Callable[[str], None]
    ) -> tuple[Channel, dict[str, Any]]:
        channel = Channel(self._connect(), self.url, payload_limit=_PAYLOAD_LIMIT)
        try:
            greeting, _ = channel.receive()
            if greeting.get("error") == "full":
                raise ServerFull(f"{self}: {greeting.get('message')}")
            if greeting.get("tilewright") != PROTOCOL:
                raise RemoteError(
                    f"{self}: speaks protocol {greeting.get('tilewright')!r}, this Tilewright {PROTOCOL}; "
                    f"install the same version on both"
                )
            channel.send({"purpose": purpose, "wait": patience})
            welcome = self._welcome(channel, patience, notice)
            if "error" in welcome:
                raise RemoteError(f"{self}: {welcome.get('message')}")
        except BaseException:
            channel.close()
            raise
        return channel, welcome

    def _welcome(self, channel: Channel, patience: float, notice: Callable[[str], None]) -> dict[str, Any]:
        """The server's welcome, or its error, after the notices that it sends while another client has the device.

        The server keeps the bound on the waiting; a server that does not is left a little later.
        """
        end = time.monotonic() + patience + _CONNECT_SECONDS
        while True:
            welcome, _ = channel.receive()
            if "waiting" not in welcome:
                return welcome
            notice(f"waiting for the device: {welcome['waiting']}")
            if time.monotonic() > end:
                raise RemoteError(f"{self}: the device is taken: {welcome['waiting']}; waited {patience:.0f} s")

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection((self.host, self.port), timeout=_CONNECT_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connection
        except OSError as error:
            raise RemoteError(
                f"{self}: no connection to {self.host} port {self.port}: {reason(error)}; "
                "is tilewright serve running there, or the tunnel to it (ssh -L)?"
            ) from error


def _parse(url: str) -> tuple[str, int]:
    """(host, port) of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else DEFAULT_PORT
    except ValueError as error:
        raise RemoteError(f"{url}: {error}; write pynq://HOST or pynq://HOST:PORT") from error
    if parts.scheme != SCHEME or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise RemoteError(f"{url}: not a device's address; write pynq://HOST or pynq://HOST:PORT")
    return check_host(parts.hostname, url), port
