"""How a client reaches a ``tilewright serve``: its address, the TLS around it, the proofs of the token, the waiting."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tilewright.files import FileError, in_memory
from tilewright.runtime.remote import auth
from tilewright.runtime.remote.frames import Channel, ConnectionLost, RemoteError, reason
from tilewright.runtime.remote.hosts import check_host
from tilewright.runtime.remote.server import DEFAULT_PORT, PROTOCOL

SCHEMES = ("pynq", "pynqs")
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 0.2
#: how the other side's close shows in a handshake, by how far the handshake was and whether data was on its way
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_PAYLOAD_LIMIT = 1 << 31


class ServerFull(RemoteError):
    """The server has as many connections as it takes."""


@dataclass(frozen=True)
class Address:
    """Where a server is, and the token to prove. ``context``: of ``pynqs://`` alone."""

    url: str
    host: str
    port: int
    token: str = field(repr=False)
    context: ssl.SSLContext | None

    @classmethod
    def at(cls, url: str, token: str | None, ca: str | Path | None) -> Address:
        """The server of a URL. Raises :class:`RemoteError`; :class:`~tilewright.runtime.remote.auth.TokenError` where
        there is no token."""
        tls, host, port = _parse(url)
        context = _trust(ca) if tls else None
        found = token if token is not None else auth.find_token()
        if found is None:
            raise auth.TokenError(
                f"{url}: needs the token that its tilewright serve printed, in {auth.TOKEN_VARIABLE} or --token-file"
            )
        return cls(url, host, port, found, context)

    def __str__(self) -> str:
        return self.url

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.context is not None

    def greet(self, purpose: str, patience: float, notice: Callable[[str], None]) -> tuple[Channel, dict[str, Any]]:
        """Connect, prove the token, have it proven. Returns the channel and the server's welcome.

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
            try:
                greeting, _ = channel.receive()
            except ConnectionLost as error:
                hint = "" if self.tls else "; does it use TLS? then write pynqs://"
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
                          "proof": auth.proof(self.token, "client", theirs, mine)})  # fmt: skip
            welcome = self._welcome(channel, patience, notice)
            if welcome.get("error") == "full":
                raise ServerFull(f"{self}: {welcome.get('message')}")
            if "error" in welcome:
                raise RemoteError(f"{self}: {welcome.get('message')}")
            if not auth.proven(welcome.get("proof"), self.token, "server", theirs, mine):
                raise RemoteError(f"{self}: the server does not know the token; is it the right machine?")
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
            if self.context is not None:
                return self.context.wrap_socket(connection, server_hostname=self.host)
            return connection
        except _HUNG_UP as error:  # in the handshake: what a full server does with TLS
            raise ServerFull(f"{self}: hung up; it may have all the connections that it takes") from error
        except OSError as error:
            raise RemoteError(
                f"{self}: no connection to {self.host} port {self.port}: {reason(error)}; "
                f"is tilewright serve running there{', with TLS' if self.tls else ''}?"
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
